"""Laws of deletion, on logs by hand: each finds the mistake that it is about, and no other."""

from collections.abc import Iterator, Sequence
from typing import Any

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.actors.holds import Hold
from tierledger.events import log_events
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState as State
from tierledger.events.log_events import UNTIL_RELEASED_MS, Event
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.environment.tier import Erased
from tierledger.simulation.machines.laws.coordination_laws import Coordinated
from tierledger.simulation.machines.laws.deletion_laws import (
    COMMAND,
    HoldSeen,
    early_purge,
    fates_of,
    held_deleted,
    holds_at_end,
    leased_twice,
    lost_data,
    unpurged,
)

TIP = TopicIdPartition(Uuid(bytes(15) + b"\x07"), 0, "orders")
KEY = PartitionKey.of(TIP)
ID = b"one segment's id"
MS = 1_000_000
WALL_MS = 1_000_000
LEASE_MS = 600

Step = tuple[int, int, Any]
"""When (ms) it was durable, by which broker, and the event's body."""

COPIED: tuple[Step, ...] = (
    (10, 1, log_events.SegmentAdded(ID, 0, 9, (0, 0), 100, 9, 1, 9, None, True)),
    (20, 1, log_events.SegmentUpdated(ID, State.COPY_SEGMENT_FINISHED, 1, 9, None)),
)
BEGUN: Step = (100, 1, log_events.SegmentUpdated(ID, State.DELETE_SEGMENT_STARTED, 1, 9, None))


def kept(until_ms: int = WALL_MS + 300) -> Step:
    return (100, 1, log_events.SegmentKept(ID, until_ms, 1, 1, 9, "a term"))


def purge(at: int, broker_id: int = 1, lease_ms: int = LEASE_MS) -> Step:
    started = log_events.SegmentPurgeStarted(ID, WALL_MS + at + lease_ms)
    return (at, broker_id, started)


PURGED: Step = (700, 1, log_events.SegmentPurged(ID))


def log_with(*steps: Step) -> FinalLog:
    events = [
        Event(at, 1, WALL_MS + ms, broker_id, None, body)
        for at, (ms, broker_id, body) in enumerate((*COPIED, *steps))
    ]
    times = [ms * MS for ms, _, _ in (*COPIED, *steps)]
    return FinalLog(TIP, b"", events, durable_at=times)


def held(log: FinalLog, *holds: HoldSeen, unled: Sequence[int] = ()) -> list[Violation]:
    return list(held_deleted(log, fates_of(log, [one * MS for one in unled]), holds))


def seen(hold: Hold, told: int | None, let_go: int | None = None, placed: int = 0) -> HoldSeen:
    known = {} if told is None else {KEY: told * MS}
    return HoldSeen(hold, known, None if let_go is None else let_go * MS, placed * MS)


PLAIN = Hold("audit", reason="?", by="?")
TERM = PLAIN._replace(name="week", term_ms=500)
NOTHING = TERM._replace(name="exception", topic="orders", term_ms=0)


def test_what_is_under_a_hold_is_not_deleted() -> None:
    deleted = log_with(BEGUN)

    assert [one.checker for one in held(deleted, seen(PLAIN, 90))] == ["held_deleted"]
    assert held(deleted, seen(PLAIN, 90, let_go=101))
    assert held(deleted, seen(TERM, 90))


def test_a_hold_that_is_not_known_to_be_in_force_binds_nobody() -> None:
    deleted = log_with(BEGUN)

    for hold in (
        seen(PLAIN, 101),
        seen(PLAIN, None),
        seen(PLAIN, 90, let_go=99),
        seen(PLAIN._replace(until_ms=WALL_MS + 100), 90),
        seen(PLAIN._replace(partition=1), 90),
        seen(PLAIN._replace(first_offset=10), 90),
        seen(PLAIN._replace(topic_id=bytes(16)), 90),
    ):
        assert not held(deleted, hold), hold
    assert not held(deleted, seen(TERM, 90), seen(NOTHING, 90))
    assert not held(deleted, seen(TERM, 90), seen(NOTHING, None))
    assert not held(log_with(BEGUN, kept()), seen(TERM, 90))


def test_what_is_under_a_hold_is_not_purged_and_a_term_is_no_hold_then() -> None:
    purged = log_with(BEGUN, kept(), purge(400))

    assert held(purged, seen(PLAIN, 390))
    assert not held(purged, seen(PLAIN, 410))
    assert not held(purged, seen(TERM, 90))
    assert not held(log_with(BEGUN, kept(), purge(400), purge(500)), seen(PLAIN, 450))


def test_who_writes_a_log_that_nobody_leads_knows_each_durable_hold() -> None:
    purged = log_with(BEGUN, kept(), purge(400))

    assert held(purged, seen(PLAIN, None, placed=390), unled=[400])
    assert not held(purged, seen(PLAIN, None, placed=390))


def early(log: FinalLog, released: int | None = None) -> list[Violation]:
    asked = {} if released is None else {ID: released * MS}
    return list(early_purge(log, fates_of(log), WALL_MS, 50, asked))


def test_nothing_is_purged_before_its_time() -> None:
    assert [one.checker for one in early(log_with(BEGUN, kept(), purge(200)))] == [
        "early_purge"
    ]
    assert not early(log_with(BEGUN, kept(), purge(260)))  # Clocks differ by 50 ms.


def test_what_is_kept_until_its_release_is_not_purged_before() -> None:
    by_guard = log_with(BEGUN, kept(UNTIL_RELEASED_MS), purge(400))
    by_command = log_with(BEGUN, kept(UNTIL_RELEASED_MS), purge(400, COMMAND, 0), purge(450))

    assert early(by_guard, released=300)
    assert early(by_command)
    assert early(by_command, released=410)
    assert not early(by_command, released=300)


def leased(*steps: Step) -> list[Violation]:
    log = log_with(BEGUN, kept(), *steps)
    return list(leased_twice(log, fates_of(log), LEASE_MS))


def test_two_guards_have_no_segment_at_a_time() -> None:
    assert [one.checker for one in leased(purge(400), purge(999, 2))] == ["leased_twice"]
    assert not leased(purge(400), purge(1000, 2))
    assert not leased(purge(400), purge(500))  # It has it again, as after a restart.


def lost(log: FinalLog, at: int, *, is_purge: bool = False) -> list[Violation]:
    erased = [Erased(at * MS, "broker-1/0", KEY, ID, is_purge)]
    return list(lost_data(KEY, fates_of(log), erased))


def test_data_goes_only_after_the_log_has_let_it_go() -> None:
    assert [one.checker for one in lost(log_with(BEGUN), 90)] == ["lost_data"]
    assert not lost(log_with(BEGUN), 110)
    assert lost(log_with(BEGUN, kept()), 110)
    assert lost(log_with(BEGUN, kept(), purge(400)), 390, is_purge=True)
    assert not lost(log_with(BEGUN, kept(), purge(400)), 410, is_purge=True)
    assert lost(log_with(), 30)


def left(log: FinalLog, *holds: Hold, there: Sequence[bytes] = (), now: int = 0) -> list[str]:
    found = unpurged(log, fates_of(log), holds, there, WALL_MS + now)
    return [one.message for one in found]


def test_what_is_due_is_purged_and_then_its_data_is_gone() -> None:
    waiting, ended = log_with(BEGUN, kept()), log_with(BEGUN, kept(), purge(400), PURGED)

    assert left(waiting, now=300)
    assert not left(waiting, now=299)
    assert not left(waiting, PLAIN, now=300)
    assert left(waiting, TERM, now=300)
    assert left(log_with(BEGUN, kept(), purge(400)), PLAIN, now=300)
    assert left(ended, there=[ID])
    assert not left(ended)
    assert not left(log_with(BEGUN, kept(UNTIL_RELEASED_MS)), now=1 << 40)


def test_the_coordinators_log_tells_which_holds_are_in_force() -> None:
    def events() -> Iterator[Coordinated]:
        placed = [PLAIN, TERM._replace(until_ms=5), PLAIN._replace(name="over")]
        yield from (Coordinated(0, ev.HoldPlaced(*one)) for one in placed)
        yield Coordinated(1, ev.HoldReleased("over", "?", "?"))

    assert holds_at_end(events(), 9) == [PLAIN]
