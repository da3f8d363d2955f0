"""The coordinator's machine, stimulus by stimulus: no loop, no store, no clock."""

from typing import Any, TypeVar

import pytest

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import CLUSTER, KEYS
from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    HostLoad,
    HostPing,
    PartitionKey,
    Placement,
)
from tierledger.actors.coordinator import hosts as parts
from tierledger.actors.coordinator import machine as rules
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.attendance import Attend, Attended, Followed
from tierledger.actors.coordinator.doors import KNOCKS_MISSED
from tierledger.actors.coordinator.events import (
    Announcement,
    ClientRegistered,
    Owner,
    Registered,
)
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.machine import HEARS, Coordinator, CoordinatorPhase
from tierledger.actors.coordinator.ownership import Handover, Ownership, PluginMode
from tierledger.actors.coordinator.placement import CALLS_SPREAD, PARTITIONS_PER_HOST
from tierledger.actors.coordinator.unowned import FOREIGN, SILENT_MS
from tierledger.actors.messages import (
    Append,
    AppendAnswered,
    AppendOutcome,
    LoadFailed,
    LogRead,
    ProbeFailed,
    ReadLog,
    ReadSlot,
    ReplyError,
    SlotRead,
)
from tierledger.events.commands import Claim
from tierledger.events.errors import (
    CorruptLog,
    Fenced,
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RejectedError,
    StorageUnavailable,
)
from tierledger.storage.partition.event_log import StoredBatch

ID = bytes(16)
KEY = PartitionKey(ID, 0)
OneT = TypeVar("OneT")


class Driven:
    """A machine, what it has called for and was not answered yet, and its store."""

    def __init__(
        self,
        *,
        hosts: int = 1,
        partitions_per_host: int = PARTITIONS_PER_HOST,
        writer: str | None = None,
        identity: bytes = b"me",
    ) -> None:
        self.machine = Coordinator(
            Fold(CLUSTER, KEYS, SERDE, identity),
            began_ms=100_000,
            hosts=hosts,
            partitions_per_host=partitions_per_host,
            writer=writer,
        )
        self.now = msg.Moment(100.0, 1_700_000_000_000)
        self.open: list[msg.Effect] = []
        self.effects: list[msg.Effect] = []
        self.log: dict[int, bytes] = {}

    def hear(self, stimulus: msg.Stimulus, after_s: float = 0.0) -> list[msg.Effect]:
        self.now = msg.Moment(self.now.s + after_s, self.now.ms + int(after_s * 1000))
        effects = self.machine.handle(stimulus, self.now)
        self.open += effects
        self.effects += effects
        return effects

    def take(self, kind: type[OneT]) -> OneT:
        """The oldest effect of that kind that is not answered yet."""
        at = next(at for at, one in enumerate(self.open) if isinstance(one, kind))
        found = self.open.pop(at)
        assert isinstance(found, kind)
        return found

    def has(self, kind: type[Any]) -> bool:
        return any(isinstance(one, kind) for one in self.open)

    def rest(self) -> None:
        """Let the store answer, and others run, until neither is asked for anything."""
        while True:
            if self.has(msg.Resume):
                self.take(msg.Resume)
                self.hear(msg.Resumed())
            elif self.has(ReadLog):
                number = self.take(ReadLog).number
                found = sorted(one for one in self.log.items() if one[0] >= number)
                self.hear(LogRead(number, tuple(StoredBatch(*one) for one in found), True))
            elif self.has(ReadSlot):
                number = self.take(ReadSlot).number
                self.hear(SlotRead(number, self.log.get(number)))
            elif self.has(Append):
                self.answer(self.take(Append))
            else:
                return

    def answer(self, append: Append) -> None:
        is_new = append.number not in self.log
        self.log.setdefault(append.number, append.value)
        outcome = AppendOutcome.CREATED if is_new else AppendOutcome.EXISTS
        self.hear(AppendAnswered(append.number, outcome))

    def decide(self) -> Append:
        """Decide on what waits; the append that this leads to, which nobody answers."""
        self.take(msg.Resume)
        self.hear(msg.Resumed())
        return self.take(Append)

    def started(self) -> "Driven":
        """With all the hosts that it starts."""
        self.begun()
        while self.has(msg.StartProcess):
            self.serve(self.take(msg.StartProcess))
        return self

    def serve(self, start: msg.StartProcess, door: str | None = None) -> None:
        ping = HostPing(f"{start.address}/p", door)
        self.hear(msg.ProcessStarted(start.host, start.address, ping))
        self.rest()

    def knocked(self, *, opens: bool) -> None:
        """Answer the oldest knock at a door."""
        knock = self.take(msg.Knock)
        self.hear(msg.Knocked(knock.host, knock.watch, opens))
        self.rest()

    def begun(self) -> "Driven":
        """With its log read, and hosts on their way."""
        self.hear(msg.Started())
        self.rest()
        return self

    def register(self, broker: int, caller: int = 1, after: int = 0) -> list[msg.Effect]:
        request = b"%d-%d" % (broker, caller)
        return self.hear(msg.Requested(caller, msg.Register(broker, request, after)))

    def announce(self, broker: int, number: int, caller: int, *partitions: int) -> None:
        items = tuple((ID, one, "orders", None, None) for one in partitions)
        given = Announcement(broker, 1, number, items, (), ())
        self.hear(msg.Requested(caller, msg.Announce(given)))

    def lead(self) -> None:
        """Let broker 1 lead partition 0."""
        self.register(1)
        self.rest()
        self.announce(1, 1, 2, 0)
        self.rest()

    def replies(self) -> dict[int | None, object]:
        found: dict[int | None, object] = {}
        for one in self.effects:
            if isinstance(one, msg.ReplyToRequest):
                found[one.reply_to] = one.value
            elif isinstance(one, ReplyError):
                found[one.reply_to] = one.error
        return found


# Requests and the log.


def test_what_waits_together_is_decided_in_one_append_and_answered_behind_it() -> None:
    one = Driven().started()
    one.register(1, caller=1)
    one.register(2, caller=2)
    one.register(1, caller=3)
    append = one.decide()
    assert not one.replies()
    one.answer(append)

    assert not one.has(Append)
    assert one.replies() == {
        1: Registered(1, is_given=True),
        2: Registered(1, is_given=True),
        3: Registered(1, is_given=False),
    }


def test_an_answer_that_appends_nothing_waits_for_a_look_at_a_free_slot() -> None:
    one = Driven().started()
    one.register(1)
    one.rest()
    one.effects.clear()
    one.register(1)
    one.take(msg.Resume)
    one.hear(msg.Resumed())
    look = one.take(ReadSlot)
    assert not one.replies()

    one.hear(SlotRead(look.number, None))
    assert one.replies() == {1: Registered(1, is_given=True)}


def test_who_finds_its_slot_taken_reads_on_and_decides_anew() -> None:
    one, other = Driven(identity=b"one").started(), Driven(identity=b"other")
    other.log = one.log
    other.started()
    one.register(1, caller=1)
    other.register(1, caller=2)
    other.rest()
    one.rest()

    assert other.replies() == {2: Registered(1, is_given=True)}
    assert one.replies() == {1: Registered(1, is_given=False)}
    assert one.machine.state.chain_hash == other.machine.state.chain_hash


@pytest.mark.parametrize("arrived", [False, True])
def test_an_append_in_doubt_is_looked_at_and_tried_again_with_the_same_content(
    arrived: bool,
) -> None:
    one = Driven().started()
    one.register(1)
    append = one.decide()
    if arrived:
        one.log[append.number] = append.value
    (look,) = one.hear(msg.AppendFailed(append.number, OutcomeUnknown("lost")))
    assert look == ReadSlot(append.number, delay_ms=rules.DOUBT_PAUSE_MS)
    one.hear(SlotRead(append.number, one.log.get(append.number)))

    if not arrived:
        assert one.take(Append) == append
        one.answer(append)
    assert one.replies() == {1: Registered(1, is_given=True)}


def test_a_doubt_that_nobody_resolves_is_told_and_the_next_append_finds_out() -> None:
    one = Driven().started()
    one.register(1)
    append = one.decide()
    one.log[append.number] = append.value
    one.hear(msg.AppendFailed(append.number, OutcomeUnknown("lost")))
    one.take(ReadSlot)
    one.hear(ProbeFailed(append.number, StorageUnavailable("away")), rules.DOUBT_S + 1)

    assert isinstance(one.replies()[1], OutcomeUnknown)
    assert str(one.replies()[1]).endswith("away")
    one.register(2, caller=2)
    one.rest()
    assert one.replies()[2] == Registered(1, is_given=True)
    assert one.machine.state.incarnations == {1: 1, 2: 1}


def test_a_first_append_that_is_refused_kept_nothing_and_everybody_hears_so() -> None:
    one = Driven().started()
    one.register(1, caller=1)
    one.register(2, caller=2)
    error = StorageUnavailable("away")
    one.hear(msg.AppendFailed(one.decide().number, error))

    assert one.replies() == {1: error, 2: error}
    assert one.machine.phase is CoordinatorPhase.IDLE


def test_an_announcement_is_answered_as_it_was_decided_and_not_by_the_one_behind_it() -> None:
    one = Driven().started()
    one.register(1)
    one.rest()

    def announced(number: int, *, leads: bool) -> None:
        led, followed = ((ID, 0, "orders", 3, None),), ((ID, 0, "orders"),)
        given = Announcement(1, 1, number, led if leads else (), () if leads else followed, ())
        one.hear(msg.Requested(10 + number, msg.Announce(given)))

    announced(1, leads=False)
    one.rest()
    announced(2, leads=False)  # It repeats the first,
    announced(3, leads=True)  # and is replaced in the same round.
    one.rest()

    claims = [Claim(1, 1, number) for number in (1, 1, 3)]
    assert [one.replies()[10 + number] for number in (1, 2, 3)] == [[one] for one in claims]


def test_a_refusal_of_one_request_concerns_no_other() -> None:
    one = Driven().started()
    one.register(1, caller=1)
    one.announce(7, 1, 2, 0)
    one.rest()

    assert one.replies()[1] == Registered(1, is_given=True)
    assert isinstance(one.replies()[2], InvalidArgument)


def test_more_than_may_wait_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "WAITING_MAX", 2)
    one = Driven().started()
    for caller in (1, 2, 3):
        one.register(caller, caller=caller)

    assert isinstance(one.replies()[3], Overloaded)
    one.rest()
    assert one.replies()[2] == Registered(1, is_given=True)


def test_long_work_is_done_in_pieces_and_others_run_in_between() -> None:
    one = Driven().started()
    for caller in range(1, 2 * rules.ITEMS_PER_STEP + 2):
        one.register(caller, caller=caller)
    one.effects.clear()
    one.rest()

    # Two more to decide, and two more to apply.
    assert sum(isinstance(effect, msg.Resume) for effect in one.effects) >= 4
    assert len(one.replies()) == 2 * rules.ITEMS_PER_STEP + 1


def test_a_log_that_does_not_verify_is_given_up_at_the_start_with_its_place() -> None:
    one = Driven()
    one.hear(msg.Started())
    one.take(ReadLog)
    one.hear(LoadFailed(CorruptLog("batch 0 is missing")))

    (give_up,) = [effect for effect in one.effects if isinstance(effect, msg.GiveUp)]
    assert "the coordinator's log, " in str(give_up.error)
    assert "position 0: batch 0 is missing" in str(give_up.error)
    assert one.machine.phase is CoordinatorPhase.STOPPED


def test_who_waits_when_a_coordinator_is_closed_hears_so() -> None:
    one = Driven().started()
    one.register(1)
    one.hear(msg.Stopped())
    one.register(2, caller=2)

    assert all(isinstance(one.replies()[caller], NotReady) for caller in (1, 2))


def test_what_no_phase_can_hear_is_a_mistake_of_the_shell_and_told_with_the_story() -> None:
    one = Driven().started()
    one.register(1)
    one.rest()
    with pytest.raises(AssertionError, match=r"SlotRead while idle; before: .*Requested"):
        one.hear(SlotRead(5, None))
    assert set(HEARS) == set(CoordinatorPhase) - {CoordinatorPhase.STOPPED}


# Hosts.


def test_the_writer_is_found_before_anything_and_the_log_is_read_again_behind_it() -> None:
    one = Driven(writer="host-0").begun()
    start = one.take(msg.StartProcess)
    assert (start.host, start.timeout_s) == ("host-0", parts.WRITER_LAUNCH_TIMEOUT_S)
    assert not one.machine.is_started
    before = len(one.effects)
    one.serve(start)

    assert any(isinstance(effect, ReadLog) for effect in one.effects[before:])
    assert one.machine.state.hosts == {"host-0": "host-0/1/p"}
    assert any(isinstance(effect, msg.Ready) for effect in one.effects)


def test_a_host_of_an_earlier_life_makes_no_service_ready() -> None:
    former, one = Driven().started(), Driven(identity=b"later")
    one.log = former.log
    one.begun()
    assert "host-0" in one.machine.state.hosts
    one.hear(msg.HostEnded("host-0", one.take(msg.Ping).watch))
    one.rest()
    assert not one.has(msg.Ready)

    one.serve(one.take(msg.StartProcess))
    assert one.has(msg.Ready)


def test_a_writer_that_cannot_start_gives_the_start_up() -> None:
    one = Driven(writer="host-0").begun()
    start = one.take(msg.StartProcess)
    error = StorageUnavailable("no store")
    one.hear(msg.StartFailed(start.host, start.address, error))

    assert one.effects[-1] == msg.GiveUp(error)


def lose(one: Driven, name: str) -> list[msg.Effect]:
    host = one.machine.hosts.running[name]
    effects = one.hear(msg.HostEnded(name, host.watch))
    one.rest()
    return effects


def test_a_lost_writer_has_ended_before_its_successor_starts() -> None:
    one = Driven(writer="host-0").started()
    effects = lose(one, "host-0")

    assert [
        effect for effect in effects if isinstance(effect, msg.Prepare | msg.EndProcess)
    ] == [
        msg.Prepare("host-0/2"),
        msg.EndProcess("host-0", "host-0/1", "host-0/1/p"),
    ]
    assert not one.has(msg.StartProcess)
    one.hear(msg.ProcessEnded("host-0", "host-0/1"))
    assert one.take(msg.StartProcess).address == "host-0/2"


def answered(one: Driven, name: str, after_s: float) -> list[msg.Effect]:
    """What a host's answer to a ping, so much later, calls for."""
    host = one.machine.hosts.running[name]
    ping = HostPing(host.process, None)
    return one.hear(msg.PingAnswered(name, host.watch, ping), after_s)


def placed(one: Driven) -> None:
    """All hosts have done what they were sent."""
    while one.has(msg.SendWork):
        sent = one.take(msg.SendWork)
        one.hear(msg.WorkDone(sent.work.host, sent.watch))


def looked(one: Driven, after_s: float = 0.0) -> None:
    """The coordinator looks at its log and its hosts, as every two seconds."""
    one.hear(msg.TimerFired(msg.Timer("look")), after_s)
    one.rest()


def test_after_a_move_by_load_all_hosts_have_to_tell_again() -> None:
    one = Driven(hosts=2).started()
    one.register(1)
    one.rest()
    one.announce(1, 1, 2, *range(4))
    one.rest()
    state = one.machine.state

    def led(host: str) -> list[PartitionKey]:
        return [key for key, entry in state.partitions.items() if entry.leader_host == host]

    placed(one)
    busy, idle = led("host-0"), led("host-1")
    assert (len(busy), len(idle)) == (2, 2)
    rate = 3 * CALLS_SPREAD
    told = HostLoad(2 * rate, tuple((key, rate) for key in busy))
    for name, load in (("host-0", told), ("host-1", HostLoad(0.0))):
        host = one.machine.hosts.running[name]
        ping = HostPing(host.process, None)
        one.hear(msg.PingAnswered(name, host.watch, ping, load), parts.SETTLED_S)

    looked(one)
    assert (len(led("host-0")), len(led("host-1"))) == (1, 3)
    placed(one)
    looked(one, 2.0)
    assert (len(led("host-0")), len(led("host-1"))) == (1, 3)
    assert one.machine.hosts.loads() == {}


def prepared(effects: list[msg.Effect]) -> list[str]:
    return [effect.address for effect in effects if isinstance(effect, msg.Prepare)]


def test_the_successor_of_the_writer_is_started_beforehand_and_again_if_it_may_have_died() -> (
    None
):
    one = Driven(writer="host-0", hosts=2).started()

    assert prepared(answered(one, "host-0", parts.RESERVE_AFTER_S / 2)) == []
    assert prepared(answered(one, "host-0", parts.RESERVE_AFTER_S / 2)) == ["host-0/2"]
    assert prepared(answered(one, "host-0", parts.RESERVE_AGAIN_S / 2)) == []
    assert prepared(answered(one, "host-0", parts.RESERVE_AGAIN_S / 2)) == ["host-0/2"]
    assert prepared(answered(one, "host-1", parts.RESERVE_AFTER_S)) == []


def test_the_next_process_of_a_host_that_leaves_its_node_is_prepared_elsewhere() -> None:
    one = Driven(writer="host-0").started()
    one.effects.clear()

    one.hear(msg.ReplaceAsked("host-0", "host-0/1/p", is_relieved=False, leaves_node=True))

    (prepared,) = [effect for effect in one.effects if isinstance(effect, msg.Prepare)]
    assert prepared == msg.Prepare("host-0/2", is_replacement=False)


def test_a_replaced_writer_is_followed_by_a_process_that_starts_after_the_wish() -> None:
    one = Driven(writer="host-0").started()
    answered(one, "host-0", parts.RESERVE_AFTER_S)
    one.effects.clear()

    asked = msg.ReplaceAsked("host-0", "host-0/1/p", is_relieved=True)
    one.hear(asked)
    one.hear(asked, parts.PREPARED_S)
    answered(one, "host-0", parts.RESERVE_AGAIN_S)
    lose(one, "host-0")

    assert [
        effect for effect in one.effects if isinstance(effect, msg.Prepare | msg.EndProcess)
    ] == [
        msg.EndProcess("host-0", "host-0/2", None),
        msg.Prepare("host-0/3", is_replacement=True),
        msg.Prepare("host-0/3"),
        msg.EndProcess("host-0", "host-0/1", "host-0/1/p"),
    ]
    one.hear(msg.ProcessEnded("host-0", "host-0/1"))
    one.serve(one.take(msg.StartProcess))
    assert one.machine.hosts.running["host-0"].address == "host-0/3"
    assert prepared(answered(one, "host-0", parts.RESERVE_AFTER_S)) == ["host-0/4"]


def test_a_silent_host_is_pinged_again_at_once_and_one_that_fails_at_once_is_not() -> None:
    one = Driven().started()
    host = one.machine.hosts.running["host-0"]
    missed = msg.PingMissed("host-0", host.watch)
    timer = msg.Timer("ping", "host-0", host.watch)

    assert msg.SetTimer(timer, 0.0) in one.hear(missed, parts.patience(0.0))
    one.hear(msg.TimerFired(timer))
    assert msg.SetTimer(timer, parts.WATCH_INTERVAL_S) in one.hear(missed)


def test_what_a_lost_host_served_is_placed_elsewhere_and_its_end_is_noted_until_it_is() -> None:
    one = Driven(hosts=2).started()
    one.lead()
    entry = one.machine.state.partitions[KEY]
    assert entry.leader_host is not None
    served_by = entry.leader_host
    host = one.machine.hosts.running[served_by]
    one.hear(msg.HostEnded(served_by, host.watch))
    failed = one.hear(msg.AppendFailed(one.decide().number, StorageUnavailable("away")))
    retry = msg.SetTimer(msg.Timer("retry"), parts.BACKOFF_MIN_S)
    assert retry in failed
    one.hear(msg.TimerFired(retry.timer))
    one.rest()

    assert entry.leader_host not in (None, served_by)
    assert served_by in one.machine.hosts.starting


def test_an_announcement_and_its_placement_are_one_append() -> None:
    one = Driven().started()
    one.register(1)
    one.rest()
    one.announce(1, 1, 2, 0)
    one.answer(one.decide())

    assert not one.has(Append)
    assert one.machine.state.partitions[KEY].leader_host == "host-0"


def test_a_placement_that_is_not_stored_is_tried_again_after_a_pause() -> None:
    one = Driven(hosts=2).started()
    one.lead()
    served_by = one.machine.state.partitions[KEY].leader_host
    assert served_by is not None
    one.hear(msg.HostEnded(served_by, one.machine.hosts.running[served_by].watch))
    one.answer(one.decide())  # The host's loss; the next append is the placement.
    append = one.take(Append)
    failed = one.hear(msg.AppendFailed(append.number, StorageUnavailable("the store is away")))

    retry = msg.SetTimer(msg.Timer("retry"), parts.BACKOFF_MIN_S)
    assert retry in failed
    assert one.machine.state.unplaced
    one.hear(msg.TimerFired(retry.timer))
    one.rest()
    assert not one.machine.state.unplaced


def test_a_decision_that_the_log_has_and_nobody_confirmed_is_followed_after_a_pause() -> None:
    one = Driven().started()
    one.lead()
    host = one.machine.hosts.running["host-0"]
    one.hear(msg.HostEnded("host-0", host.watch))
    append = one.decide()
    other = Driven(identity=b"another coordinator, which decides the same")
    other.log = dict(one.log)
    other.begun()
    other.hear(msg.HostEnded("host-0", other.take(msg.Ping).watch))
    other.rest()
    one.log[append.number] = other.log[append.number]
    one.answer(append)
    one.hear(SlotRead(append.number, one.log[one.take(ReadSlot).number]))
    one.hear(LogRead(one.take(ReadLog).number, (), True))
    failed = one.hear(ProbeFailed(one.take(ReadSlot).number, StorageUnavailable("away")))

    retry = msg.SetTimer(msg.Timer("retry"), parts.BACKOFF_MIN_S)
    assert retry in failed
    one.hear(msg.TimerFired(retry.timer))
    one.rest()
    assert "host-0" in one.machine.hosts.starting


def test_three_silent_pings_in_a_row_are_an_end_but_not_if_this_process_was_late() -> None:
    one = Driven().started()
    host = one.machine.hosts.running["host-0"]
    missed = msg.PingMissed("host-0", host.watch)
    ping = msg.TimerFired(msg.Timer("ping", "host-0", host.watch))
    for _ in range(5):
        one.hear(missed, parts.patience(0.0) + 2 * parts.LATE_S)
        one.hear(ping, parts.WATCH_INTERVAL_S)
    assert host.missed == 0
    for _ in range(parts.PINGS_MISSED - 1):
        one.hear(missed, parts.patience(0.0))
        one.hear(ping, parts.WATCH_INTERVAL_S)
    assert "host-0" in one.machine.hosts.running
    one.hear(missed, parts.patience(0.0))
    assert "host-0" not in one.machine.hosts.running


def test_a_coordinator_is_patient_with_hosts_it_does_not_know_yet() -> None:
    first = Driven().started()
    one = Driven(identity=b"other")
    one.log = first.log
    one.begun()
    waited = []
    while "host-0" in one.machine.hosts.looking:
        ping = one.take(msg.Ping)
        waited.append(ping.timeout_s)
        late_s = 2 * parts.LATE_S if len(waited) == 1 else 0.0
        one.hear(msg.PingMissed("host-0", ping.watch), ping.timeout_s + late_s)

    timeout_s = parts.PING_TIMEOUT_S
    assert waited == [timeout_s, timeout_s, 2 * timeout_s, 4 * timeout_s], "it was late itself"
    assert one.has(msg.EndProcess)


def with_doors(hosts: int, partitions_per_host: int = PARTITIONS_PER_HOST) -> Driven:
    """With hosts that listen, at whose doors was not knocked yet."""
    one = Driven(hosts=hosts, partitions_per_host=partitions_per_host).begun()
    while one.has(msg.StartProcess):
        start = one.take(msg.StartProcess)
        one.serve(start, f"{start.host}:4711")
    return one


def test_a_service_is_ready_once_its_hosts_were_knocked_at() -> None:
    one = with_doors(2)
    assert not one.has(msg.Ready)
    one.knocked(opens=True)
    assert not one.has(msg.Ready)

    one.knocked(opens=False)

    assert one.has(msg.Ready)


def test_leaders_leave_a_host_whose_door_is_lost_and_its_process_stays() -> None:
    one = with_doors(3)
    for _ in range(3):
        one.knocked(opens=True)
    one.register(1)
    one.rest()
    one.announce(1, 1, 2, *range(6))
    one.rest()
    hosts = one.machine.hosts.running
    assert len(one.machine.state.seats["host-1"]) == 2
    seen = (("host-1/1", False), ("host-0/1", True))
    ping = HostPing("host-2/1/p", "host-2:4711", doors=seen)
    one.hear(msg.PingAnswered("host-2", hosts["host-2"].watch, ping))

    for _ in range(KNOCKS_MISSED):
        one.hear(msg.TimerFired(msg.Timer("knock", "host-1", hosts["host-1"].watch)))
        one.knocked(opens=False)

    assert not one.machine.state.seats["host-1"]
    assert one.machine.state.loads == {"host-0": 3, "host-1": 0, "host-2": 3}
    assert one.machine.state.hosts.keys() == {"host-0", "host-1", "host-2"}
    assert not one.has(msg.StartProcess)


def test_a_host_that_nobody_ever_reached_is_not_waited_for_where_room_is_wanted() -> None:
    """It was started behind a broken network; the partition would have no leader for ever."""
    one = with_doors(3, 1)
    for opens in (True, False, True):
        one.knocked(opens=opens)
    one.register(1)
    one.rest()
    one.announce(1, 1, 2, *range(3))
    one.rest()
    hosts = one.machine.hosts.running
    assert len(one.machine.state.unplaced) == 1
    assert not one.has(msg.StartProcess)

    seen = (("host-1/1", False), ("host-0/1", True))
    ping = HostPing("host-2/1/p", "host-2:4711", doors=seen)
    one.hear(msg.PingAnswered("host-2", hosts["host-2"].watch, ping))
    for _ in range(KNOCKS_MISSED):
        one.hear(msg.TimerFired(msg.Timer("knock", "host-1", hosts["host-1"].watch)))
        one.knocked(opens=False)
    one.serve(one.take(msg.StartProcess), "host-3:4711")
    one.knocked(opens=True)

    assert not one.machine.state.unplaced
    assert one.machine.state.loads == {"host-0": 1, "host-2": 1, "host-3": 1}


def test_a_knock_at_a_process_that_was_dropped_changes_nothing() -> None:
    one = with_doors(1)
    knock = one.take(msg.Knock)
    lose(one, "host-0")

    assert one.hear(msg.Knocked("host-0", knock.watch, opens=True)) == []


def test_a_late_answer_about_a_process_that_was_dropped_changes_nothing() -> None:
    one = Driven().started()
    watch = one.machine.hosts.running["host-0"].watch
    lose(one, "host-0")
    before = list(one.machine.hosts.starting)
    ping = HostPing("host-0/1/p")

    assert one.hear(msg.PingAnswered("host-0", watch, ping)) == []
    assert one.hear(msg.WorkDone("host-0", watch)) == []
    assert list(one.machine.hosts.starting) == before


def test_a_host_that_did_not_hear_is_told_the_same_again_and_then_the_rest() -> None:
    one = Driven().started()
    one.lead()
    send = one.take(msg.SendWork)
    one.announce(1, 2, 3, 1)
    one.rest()
    assert not one.has(msg.SendWork)
    one.hear(msg.WorkInDoubt("host-0", send.watch, OutcomeUnknown("lost")))
    again = one.hear(msg.TimerFired(msg.Timer("send", "host-0", send.watch)))
    assert again == [send]
    one.hear(msg.WorkDone("host-0", send.watch))

    following = [one for one in one.open if isinstance(one, msg.SendWork)][-1]
    assert [placed.key.partition for placed in following.work.placements] == [1]


def test_what_runs_where_it_is_not_placed_is_released_as_its_release_was_lost() -> None:
    one = Driven().started()
    one.lead()
    send, first = one.take(msg.SendWork), one.take(msg.Ping)
    one.hear(msg.PingAnswered("host-0", first.watch, HostPing("host-0/1/p")))
    one.hear(msg.TimerFired(msg.Timer("ping", "host-0", first.watch)))
    assert one.take(msg.Ping).placed is None, "a placement is on its way"
    one.hear(msg.WorkDone("host-0", send.watch))
    one.hear(msg.TimerFired(msg.Timer("ping", "host-0", first.watch)))
    assert one.take(msg.Ping).placed == 1

    stray, newer = PartitionKey(ID, 5), 1000
    runs = ((KEY, LEADER, 1), (KEY, FOLLOWER, 1), (stray, LEADER, 1), (stray, FOLLOWER, newer))
    one.hear(msg.PingAnswered("host-0", first.watch, HostPing("host-0/1/p", runs=runs)))
    assert one.take(msg.SendWork).work.placements == (
        Placement(KEY, "", FOLLOWER, None, until=1, is_moved=True),
        Placement(stray, "", LEADER, None, until=1, is_moved=True),
    ), "what the log does not have yet here is another coordinator's"


def test_a_start_that_fails_is_tried_again_later_at_another_address() -> None:
    one = Driven().begun()
    start = one.take(msg.StartProcess)
    error = StorageUnavailable("no node")
    effects = one.hear(msg.StartFailed(start.host, start.address, error))
    assert effects[0] == msg.EndProcess("host-0", "host-0/1", None)
    pause = msg.SetTimer(msg.Timer("start", "host-0"), parts.BACKOFF_MIN_S)
    assert pause in effects
    one.hear(msg.TimerFired(pause.timer))

    assert one.take(msg.StartProcess).address == "host-0/2"


def test_a_host_that_does_not_start_is_a_condition_until_it_serves() -> None:
    one = Driven().begun()
    hosts, begun = one.machine.hosts, one.now
    start = one.take(msg.StartProcess)
    assert (hosts.not_started(begun), hosts.can_serve) == ([], False)
    late = msg.Moment(begun.s + parts.OVERDUE_S + 1, begun.ms + 16_000)
    (overdue,) = hosts.not_started(late)
    assert overdue.text == "host-0 has not started within 16 s"
    one.hear(
        msg.StartFailed(start.host, start.address, StorageUnavailable("the port is taken"))
    )
    (failed,) = hosts.not_started(begun)
    assert failed[:2] == (parts.NOT_STARTED, "host-0")
    assert failed.since_ms == begun.ms
    assert failed.text == "host-0 does not start: the port is taken"
    one.hear(msg.TimerFired(msg.Timer("start", "host-0")))

    one.serve(one.take(msg.StartProcess))

    assert (hosts.not_started(late), hosts.can_serve) == ([], True)


def test_a_host_that_came_back_gets_leaders_one_by_one_once_it_has_been_well() -> None:
    one = Driven(hosts=2).started()
    leads = tuple((ID, number, "orders", None, None) for number in range(12))
    one.hear(msg.Requested(1, msg.Register(1, b"once", 0)))
    one.rest()
    lose(one, "host-1")
    one.rest()
    one.hear(msg.Requested(2, msg.Announce(Announcement(1, 1, 1, leads, (), ()))))
    one.rest()
    while one.has(msg.StartProcess):
        one.serve(one.take(msg.StartProcess))

    def led() -> list[int]:
        homes = [entry.leader_host for entry in one.machine.state.partitions.values()]
        return sorted(homes.count(name) for name in one.machine.state.hosts)

    def look(after_s: float) -> list[int]:
        while one.has(msg.SendWork):
            send = one.take(msg.SendWork)
            one.hear(msg.WorkDone(send.work.host, send.watch))
        one.hear(msg.TimerFired(msg.Timer("look")), after_s)
        one.rest()
        return led()

    assert look(0) == [0, 12]
    assert look(parts.SETTLED_S / 2) == [0, 12]
    seen = [look(parts.SETTLED_S / 2) for _ in range(8)]
    assert seen == [[1, 11], [2, 10], [3, 9], *[[4, 8]] * 5]


def test_only_so_many_processes_start_side_by_side() -> None:
    one = Driven(hosts=parts.LAUNCHES_AT_ONCE + 2).begun()
    starts = [effect for effect in one.open if isinstance(effect, msg.StartProcess)]
    assert len(starts) == parts.LAUNCHES_AT_ONCE
    one.serve(one.take(msg.StartProcess))

    assert one.machine.hosts.launching == parts.LAUNCHES_AT_ONCE


def test_a_coordinator_follows_what_another_one_has_started() -> None:
    one = Driven(identity=b"one").started()
    other = Driven(identity=b"other")
    other.log = one.log
    other.begun()
    ping = other.take(msg.Ping)
    assert ping.address == "host-0/1"
    other.hear(msg.HostEnded("host-0", ping.watch))
    other.rest()
    other.serve(other.take(msg.StartProcess))
    assert other.machine.state.addresses == {"host-0": "host-0/2"}

    one.open = [effect for effect in one.open if not isinstance(effect, msg.Ping)]
    one.hear(msg.TimerFired(msg.Timer("look")))
    one.rest()
    assert one.take(msg.Ping).address == "host-0/2"
    assert "host-0" in one.machine.hosts.looking


def test_a_log_of_any_length_is_read_without_going_deeper() -> None:
    one = Driven()
    written = Fold(CLUSTER, KEYS, SERDE, b"another")
    for number in range(1500):
        _, stored = written.events_of(
            [ClientRegistered(number, 1, b"request")], written.state, 5
        )
        one.log[number] = written.batch_of(stored)
        written.take(StoredBatch(number, one.log[number]))
    one.begun()

    assert one.machine.state.chain_hash == written.state.chain_hash


# Reports.


def report(**seen: object) -> dict[str, object]:
    """A follower's."""
    return {"follower": "f", "round": 1, "trouble": None, **seen}


def owning() -> Driven:
    """A coordinator of a cluster whose metadata tierledger owns."""
    one = Driven().started()
    one.hear(msg.Requested(1, msg.HandOver(Handover(Owner.TIERLEDGER, Owner.NOBODY))))
    one.rest()
    return one


def test_a_report_is_answered_at_once_and_what_follows_from_it_is_stored() -> None:
    one = owning()
    one.hear(msg.Reported(2, report(foreign=1)))
    assert one.replies()[2] == Followed(one.machine.state.ownership, is_chosen=True)
    assert not one.machine.state.held

    one.rest()
    assert [*one.machine.state.held] == [FOREIGN]

    before = len(one.log)
    one.hear(msg.Reported(3, report(foreign=1)))
    one.rest()
    assert len(one.log) == before


def test_a_living_broker_whose_plugin_reports_no_more_has_its_deletions_held() -> None:
    one = owning()
    plugin = Attend(7, 0, PluginMode.TIERLEDGER, 1, True)
    one.hear(msg.Reported(2, plugin))
    alive = report(alive=[7], seen_ms_ago=0)
    one.hear(msg.Reported(3, alive), after_s=(SILENT_MS - 1) / 1000)
    one.rest()
    assert not one.machine.state.held

    one.hear(msg.Reported(4, alive), after_s=0.001)
    one.rest()
    held = one.machine.state.held[7]
    assert held.excused_ms - held.since_ms == SILENT_MS
    assert held.excused_ms == one.now.ms

    # It was only silent: it began before it could be missed.
    one.hear(msg.Reported(5, plugin._replace(ran_ms=2 * SILENT_MS)), after_s=1.0)
    one.rest()
    assert not one.machine.state.held


def test_a_report_that_cannot_be_taken_is_refused_and_ends_nothing() -> None:
    one = owning()
    for number, lacks in enumerate(("trouble", "round"), 2):
        bad = {name: value for name, value in report().items() if name != lacks}
        one.hear(msg.Reported(number, bad))
        assert isinstance(one.replies()[number], RejectedError)

    one.hear(msg.Reported(4, Attend(1, 0, PluginMode.TIERLEDGER, 1, True)))
    assert isinstance(one.replies()[4], Attended)
    attendance, state = one.machine.presence.attendance, one.machine.state
    assert attendance.report(state.ownership, {}, 0)["kafka"] is None
    one.hear(msg.Reported(5, report()))
    assert isinstance(one.replies()[5], Followed)


def test_what_follows_from_reports_waits_like_all_requests_and_not_without_bound() -> None:
    one = owning()
    one.machine.waiting.extend(
        rules.Waiting(msg.ReleaseDeletions(1), None) for _ in range(rules.WAITING_MAX)
    )
    one.hear(msg.Reported(2, report(foreign=1)))

    assert isinstance(one.replies()[2], Followed)
    assert len(one.machine.waiting) == rules.WAITING_MAX


def test_a_fenced_plugin_is_told_so() -> None:
    one = Driven().started()
    one.register(1)
    one.rest()
    one.register(1, caller=2, after=1)
    one.rest()

    one.hear(msg.Reported(3, Attend(1, 1, PluginMode.TIERLEDGER, 1, True)))
    assert isinstance(one.replies()[3], Fenced)


def test_a_stopped_coordinator_takes_no_report() -> None:
    one = owning()
    one.hear(msg.Stopped())
    one.hear(msg.Reported(2, report()))
    assert isinstance(one.replies()[2], NotReady)


def test_reports_do_not_drive_all_else_out_of_the_story() -> None:
    one = owning()
    before = str(one.machine.story)
    for number in range(20):
        one.hear(msg.Reported(number, report()))

    assert str(one.machine.story) == before


def test_what_a_move_accepts_is_told_to_plugins_while_it_goes_on() -> None:
    one = Driven().started()
    accepts = MOVE._replace(accepted=(ID,))
    for number, wish in enumerate((Handover(Owner.KAFKA, Owner.NOBODY), accepts), 1):
        one.hear(msg.Requested(number, msg.HandOver(wish)))
        one.rest()

    one.hear(msg.Reported(3, Attend(1, 0, PluginMode.HANDOVER, 2, True)))
    answer = one.replies()[3]
    assert isinstance(answer, Attended)
    assert answer.accepted == (ID,)


# A move of the cluster's metadata.


def moving() -> tuple[Driven, msg.SetTimer]:
    """A coordinator that was told that the metadata moves, and its timer."""
    one = Driven().started()
    first = Handover(Owner.KAFKA, Owner.NOBODY)
    for number, wish in enumerate((first, MOVE), 1):
        one.hear(msg.Requested(number, msg.HandOver(wish)))
        one.rest()
    return one, give_ups(one)[-1]


MOVE = Handover(Owner.MOVING, Owner.KAFKA, Owner.TIERLEDGER, give_up_after_ms=5000)


def give_ups(one: Driven) -> list[msg.SetTimer]:
    timers = [effect for effect in one.effects if isinstance(effect, msg.SetTimer)]
    return [timer for timer in timers if timer.timer.kind == "give up"]


def test_a_move_that_takes_too_long_is_given_up() -> None:
    one, timer = moving()
    assert timer == msg.SetTimer(msg.Timer("give up", watch=2), 5.0)

    one.hear(msg.TimerFired(timer.timer), after_s=5.0)
    one.rest()

    assert one.machine.state.ownership == Ownership(3, "kafka")


def test_a_move_that_cannot_be_given_up_now_is_given_up_later() -> None:
    one, timer = moving()
    one.hear(msg.TimerFired(timer.timer), after_s=5.0)
    append = one.decide()
    one.hear(msg.AppendFailed(append.number, StorageUnavailable("away")))
    one.rest()
    assert one.machine.state.ownership.owner == "moving"

    again = give_ups(one)[-1]
    assert again is not timer
    one.hear(msg.TimerFired(again.timer), after_s=again.delay_s)
    one.rest()

    assert one.machine.state.ownership == Ownership(3, "kafka")


def test_a_move_that_has_ended_is_not_given_up() -> None:
    one, timer = moving()
    one.hear(msg.Requested(3, msg.HandOver(Handover(Owner.TIERLEDGER, Owner.MOVING, None, 2))))
    one.rest()

    assert one.hear(msg.TimerFired(timer.timer), after_s=5.0) == []
    assert one.machine.state.ownership == Ownership(3, "tierledger")


def test_a_coordinator_that_starts_gives_up_what_its_predecessor_began() -> None:
    one, _ = moving()
    successor = Driven()
    successor.log = one.log
    successor.started()

    successor.hear(msg.TimerFired(give_ups(successor)[-1].timer), after_s=5.0)
    successor.rest()

    assert successor.machine.state.ownership == Ownership(3, "kafka")
