"""The host's machine, stimulus by stimulus: no loop, no store, no clock."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.actors import messages as partition
from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    STORAGE,
    CloseCall,
    PartitionKey,
    Placement,
    QueryCall,
)
from tierledger.actors.host import machine as rules
from tierledger.actors.host import messages as msg
from tierledger.actors.host.machine import HEARS, LOADS_AT_ONCE, HostMachine, LifePhase
from tierledger.actors.messages import Assignment, Query
from tierledger.events.commands import Claim, CloseSession
from tierledger.events.errors import NotReady, Overloaded

NOW = 1_700_000_000_000
QUERY = Query("highest_offset")
REFUSED = partition.ClaimRefused(1, None, False, NOW)


def key(number: int = 0) -> PartitionKey:
    return PartitionKey(bytes(16), number)


def placed(number: int = 1, role: str = LEADER, at: int = 0) -> msg.Placed:
    assignment = Assignment(number, Claim(1, 1, number))
    return msg.Placed(Placement(key(at), "orders", role, assignment), NOW)


def released(until: int = 1, role: str = LEADER, at: int = 0) -> msg.Placed:
    return msg.Placed(Placement(key(at), "orders", role, None, until), NOW)


def read(reply_to: int, at: int = 0) -> msg.ReadArrived:
    return msg.ReadArrived(reply_to, QueryCall(key(at), STORAGE, QUERY))


def kinds(effects: Sequence[msg.Effect]) -> list[type[msg.Effect]]:
    return [type(one) for one in effects]


def hosting(*stimuli: msg.Stimulus) -> HostMachine:
    machine = HostMachine(b"opener")
    for one in stimuli:
        machine.handle(one)
    return machine


# Placements.


def test_a_leader_is_made_with_its_claim_and_a_follower_hears_of_its_own() -> None:
    begin, load = HostMachine(b"opener").handle(placed())
    claim = partition.Assigned(Assignment(1, Claim(1, 1, 1)), None, NOW, b"opener")
    assert begin == msg.Begin(1, key().named("orders"), LEADER, claim)
    assert load == msg.Load(1)

    begin, load, feed = HostMachine(b"opener").handle(placed(role=FOLLOWER))
    assert begin == msg.Begin(1, key().named("orders"), FOLLOWER)
    assert feed == msg.Feed(1, claim)


@pytest.mark.parametrize("is_moved", [False, True])
def test_only_a_leader_that_has_not_moved_closes_its_session_when_it_is_let_go(
    is_moved: bool,
) -> None:
    machine = hosting(placed(), msg.Loaded(1))
    order = released().placement._replace(is_moved=is_moved)

    (feed,) = machine.handle(msg.Placed(order, NOW))

    assert feed == msg.Feed(1, partition.StopArrived(None, NOW, is_released=not is_moved))


def test_a_newer_claim_goes_to_what_runs_and_an_older_one_nowhere() -> None:
    machine = hosting(placed(2), msg.Loaded(1))

    assert machine.handle(placed(2)) == []
    assert machine.handle(placed(1)) == []
    (feed,) = machine.handle(placed(3))
    assert isinstance(feed, msg.Feed)
    assert isinstance(feed.stimulus, partition.Assigned)
    assert machine.lives[1].assignment == 3


def test_what_has_not_loaded_goes_at_once_and_its_end_is_late() -> None:
    machine = hosting(placed())

    assert kinds(machine.handle(released())) == [msg.Feed, msg.Drop]
    assert machine.lives == {}
    assert machine.handle(msg.Ended(1, partition.STOPPED)) == []
    assert machine.handle(msg.Loaded(1)) == []
    assert machine.handle(placed()) == []  # It is late as well.


def test_a_lost_leader_comes_back_under_no_older_placement() -> None:
    machine = hosting(placed(9), msg.Loaded(1), msg.Ended(1, "the claim could not be stored"))

    assert machine.handle(placed(5)) == []

    assert machine.lost == {key(): 9}, "its coordinator would never hear of it"


def test_what_leaves_is_called_back_by_a_newer_claim() -> None:
    machine = hosting(placed(), msg.Loaded(1), released())
    life = machine.lives[1]

    leaving, effects, running = life.phase, machine.handle(placed(2)), life.phase
    assert (leaving, running) == (LifePhase.LEAVING, LifePhase.RUNNING)
    assert kinds(effects) == [msg.Feed]


def test_a_broker_that_leads_no_more_has_its_session_closed_where_it_is_led() -> None:
    machine = hosting(placed())
    (feed,) = machine.handle(msg.BrokerLeft(CloseCall(key(), Claim(1, 1, 1)), NOW))

    assert isinstance(feed, msg.Feed)
    assert isinstance(feed.stimulus, partition.CommandArrived)
    assert isinstance(feed.stimulus.command, CloseSession)
    assert machine.handle(msg.BrokerLeft(CloseCall(key(1), Claim(1, 1, 1)), NOW)) == []


# What is told.


@pytest.mark.parametrize("reason", [partition.STOPPED, partition.REFUSED])
def test_an_end_that_was_asked_for_or_told_is_no_loss(reason: str) -> None:
    machine = hosting(placed(), msg.Loaded(1))

    assert machine.handle(msg.Ended(1, reason)) == [msg.Drop(1)]
    assert machine.lost == {}


def test_a_leader_that_ends_by_itself_is_lost_until_it_is_placed_here_anew() -> None:
    machine = hosting(placed(), msg.Loaded(1), placed(4), msg.Ended(1, "fenced"))
    assert machine.lost == {key(): 4}

    machine.handle(placed(5))
    assert machine.lost == {}
    assert machine.handle(msg.Ended(1, "fenced")) == []
    assert machine.lost == {}


def test_the_loss_of_a_follower_is_nobodys_concern() -> None:
    machine = hosting(placed(role=FOLLOWER), msg.Loaded(1), msg.Ended(1, "fenced"))

    assert machine.lost == {}


def test_a_refusal_is_told_until_the_next_claim_or_the_leaders_loss() -> None:
    machine = hosting(placed(), msg.Loaded(1), msg.Refused(1, REFUSED))
    assert machine.refused.keys() == {key()}

    machine.handle(placed(2))
    assert machine.refused == {}

    machine.handle(msg.Refused(1, REFUSED))
    machine.handle(msg.Ended(1, "fenced"))
    assert (machine.refused, machine.lost) == ({}, {key(): 2})


def test_followers_that_load_are_behind() -> None:
    machine = hosting(placed(), placed(role=FOLLOWER), placed(role=FOLLOWER, at=1))

    assert machine.behind({1, 2}.__contains__) == [key()]


# Loads.


def test_all_that_runs_is_told_where_it_is_more_than_what_is_placed() -> None:
    machine = hosting(placed(3), placed(5, FOLLOWER, at=1), placed(7, at=2), msg.Loaded(1))
    machine.handle(read(1, at=4))
    assert machine.runs(None) == machine.runs(3) == ()
    all_of_it = ((key(), LEADER, 3), (key(1), FOLLOWER, 5), (key(2), LEADER, 7))
    assert machine.runs(2) == all_of_it

    machine.handle(released(3))
    assert machine.runs(2) == (), "what leaves does not count"


def test_some_load_at_once_and_the_rest_in_their_order() -> None:
    many = range(LOADS_AT_ONCE + 3)
    machine = hosting(*[placed(at=number) for number in many])
    phases = [life.phase for life in machine.lives.values()]
    assert phases == [LifePhase.LOADING] * LOADS_AT_ONCE + [LifePhase.QUEUED] * 3

    machine.handle(released(at=LOADS_AT_ONCE))  # The first of those that wait.
    assert machine.handle(msg.Loaded(3)) == [msg.Load(LOADS_AT_ONCE + 2)]
    *_, load = machine.handle(released())  # A load that is given up makes room.
    assert load == msg.Load(LOADS_AT_ONCE + 3)


def test_leaders_do_not_wait_for_the_loads_of_others() -> None:
    followers = range(LOADS_AT_ONCE + 1)
    machine = hosting(*[placed(role=FOLLOWER, at=number) for number in followers])

    begun = [machine.handle(placed(at=number)) for number in range(LOADS_AT_ONCE + 1)]

    assert all(kinds(effects) == [msg.Begin, msg.Load] for effects in begun[:-1])
    assert kinds(begun[-1]) == [msg.Begin], "but for other leaders"
    last = LOADS_AT_ONCE + 1 + LOADS_AT_ONCE + 1
    assert machine.handle(msg.Loaded(1)) == [], "a follower's room is none for leaders"
    assert machine.handle(msg.Loaded(LOADS_AT_ONCE + 2)) == [msg.Load(last)]


# Reads of partitions that nobody hosts.


def test_reads_that_come_during_a_load_wait_for_the_next() -> None:
    machine = HostMachine(b"opener")
    assert kinds(machine.handle(read(1))) == [msg.Begin, msg.Load]
    assert machine.handle(read(2)) == []

    asked = partition.QueryArrived(1, QUERY)
    feed, drop, begin, load = machine.handle(msg.Loaded(1))
    assert (feed, drop, load) == (msg.Feed(1, asked), msg.Drop(1), msg.Load(2))
    assert isinstance(begin, msg.Begin)
    assert kinds(machine.handle(msg.Loaded(2))) == [msg.Feed, msg.Drop]
    assert machine.lives == {}


def test_a_load_that_nobody_waits_for_makes_room_and_begins_anew_for_later_ones() -> None:
    machine = hosting(read(1), read(2))

    given_up = kinds(machine.handle(msg.ReadGivenUp(1)))
    assert given_up == [msg.Feed, msg.Drop, msg.Begin, msg.Load]
    assert kinds(machine.handle(msg.ReadGivenUp(2))) == [msg.Feed, msg.Drop]
    assert machine.handle(msg.ReadGivenUp(2)) == []


def test_a_read_that_is_given_up_before_its_load_began_costs_nothing() -> None:
    machine = hosting(*[placed(at=number) for number in range(LOADS_AT_ONCE)])

    assert kinds(machine.handle(read(1, at=99))) == [msg.Begin]
    machine.handle(msg.ReadGivenUp(1))
    assert machine.handle(msg.Loaded(1)) == []


def test_too_many_reads_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "READS_MAX", 2)
    (full,) = hosting(read(1), read(2, at=1)).handle(read(3))

    assert isinstance(full, partition.ReplyError)
    assert isinstance(full.error, Overloaded)


# The end.


def test_a_host_closes_when_all_has_gone_and_takes_on_nothing_more() -> None:
    many = range(1, LOADS_AT_ONCE + 3)
    machine = hosting(placed(), msg.Loaded(1), *[placed(at=one) for one in many], read(1, 99))

    effects = machine.handle(msg.CloseArrived(NOW))
    (refused,) = (one for one in effects if isinstance(one, partition.ReplyError))
    assert isinstance(refused.error, NotReady)
    stop = partition.StopArrived(msg.CLOSING, NOW, is_released=False)
    fed = [one.stimulus for one in effects if isinstance(one, msg.Feed)]
    assert fed == [stop] * (len(many) + 2)
    assert msg.Load not in kinds(effects)
    assert machine.handle(placed(at=50)) == []
    assert kinds(machine.handle(read(2, at=99))) == [partition.ReplyError]
    assert machine.handle(msg.Ended(1, partition.STOPPED)) == [msg.Drop(1), msg.Closed()]


def test_a_host_without_partitions_has_closed_at_once() -> None:
    assert HostMachine(b"opener").handle(msg.CloseArrived(NOW)) == [msg.Closed()]


# Phases.


def test_what_cannot_be_is_raised_with_the_steps_before_it() -> None:
    machine = hosting(placed(), msg.Loaded(1))

    with pytest.raises(AssertionError, match=r"is running; Placed: Begin, Load; Loaded 1"):
        machine.handle(msg.Loaded(1))


def test_each_phase_but_the_last_says_what_it_hears() -> None:
    assert HEARS.keys() == set(LifePhase) - {LifePhase.GONE}


class Walk:
    """A host that hears what may come, and what its shell would have of it."""

    def __init__(self) -> None:
        self.machine = HostMachine(b"opener")
        self.begun: set[int] = set()
        self.waiting: set[int] = set()
        self._callers = 0

    def stimulus(self, kind: int, at: int, number: int) -> msg.Stimulus | None:
        """None where nothing of that kind can come now."""
        role = (LEADER, FOLLOWER)[number % 2]
        lives = [*self.machine.lives.values(), None]
        life = lives[number % len(lives)]
        match kind:
            case 0 | 1:
                return placed(number, role, at)
            case 2:
                return released(number, role, at)
            case 3 | 4:
                self._callers += 1
                self.waiting.add(self._callers)
                return read(self._callers, at)
            case 5 | 6 if life is not None and life.phase is LifePhase.LOADING:
                return msg.Loaded(life.number)
            case 5 | 6 if life is not None and life.phase is not LifePhase.QUEUED:
                return msg.Ended(life.number, (partition.STOPPED, "fenced")[at % 2])
            case 7:
                self.waiting.discard(number)
                return msg.ReadGivenUp(number)
            case 8 if number == 0:
                return msg.CloseArrived(NOW)
            case _:
                return None

    def carry_out(self, effect: msg.Effect) -> None:
        match effect:
            case msg.Begin(life=number):
                assert number not in self.begun
                self.begun.add(number)
            case msg.Load(life=number) | msg.Feed(life=number, stimulus=partition.Assigned()):
                assert number in self.begun
            case msg.Drop(life=number):
                self.begun.remove(number)
            case (
                msg.Feed(stimulus=partition.QueryArrived(reply_to=caller))
                | partition.ReplyError(reply_to=caller)
            ):
                assert caller is not None
                self.waiting.remove(caller)
            case _:
                pass


STEPS = st.tuples(st.integers(0, 8), st.integers(0, 2), st.integers(0, 6))


@given(st.lists(STEPS, max_size=60))
def test_in_whatever_order_things_come_each_life_has_a_shell_and_each_read_one_answer(
    steps: list[tuple[int, int, int]],
) -> None:
    """The invariants are checked after each step; see `conftest`."""
    walk = Walk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "LOADS_AT_ONCE", 2)
        for step in steps:
            stimulus = walk.stimulus(*step)
            for effect in [] if stimulus is None else walk.machine.handle(stimulus):
                walk.carry_out(effect)

    assert walk.begun == walk.machine.lives.keys()
    assert walk.waiting == walk.machine.readers.keys()
