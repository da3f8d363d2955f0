"""A leader lets no broker delete what is under a hold."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.actors.harness import NOW_MS, Harness, SlotStore, finished, leading
from tests.models.events.driven_partition import TIP, command_of
from tierledger.actors import messages as msg
from tierledger.actors.holds import Deletions, Hold, check_hold
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidArgument, RejectedError
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.partition.state import KeptSegment
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.simulation.checkers.slow.model import Add, PartitionDelete, Update

DELETING, DELETED = 2, 3
MARKED, STARTED, FINISHED = 0, 1, 2

AUDIT = Hold("audit", "orders", reason="the audit reads it", by="somebody")


def copied(harness: Harness, *times_ms: int) -> None:
    """Finished segments of ten offsets each, with these times of their newest records."""
    for number, time_ms in enumerate(times_ms):
        start = 10 * number
        harness.write(
            Add(
                bytes([number]) * 16, start, start + 9, {0: start}, 10, max_timestamp_ms=time_ms
            )
        )
        harness.write(finished(number))
    harness.settle()


def hold(harness: Harness, *holds: Hold, position: int = 1) -> None:
    harness.feed(msg.DeletionsTold(Deletions(position, holds=holds)))


def kept(harness: Harness, number: int) -> bool:
    """Whether a deletion of the segment is refused now."""
    caller = harness.write(Update(bytes([number]) * 16, DELETING))
    harness.settle()
    heard = harness.heard(caller)
    if isinstance(heard, msg.Reply):
        return False
    assert isinstance(heard, msg.ReplyError)
    assert isinstance(heard.error, RejectedError), "no retry, or the plugin would wait"
    return True


def test_a_deletion_under_a_hold_is_refused_with_who_and_why(harness: Harness) -> None:
    copied(harness, 5)
    hold(harness, AUDIT)

    caller = harness.write(Update(bytes(16), DELETING))
    harness.settle()

    text = str(harness.error_for(caller))
    assert "under the hold audit of somebody until it is released: the audit reads it" in text
    assert harness.alarms == [msg.Alarm("deletion-held", text, hold="audit")]
    hold(harness, position=2)
    assert not kept(harness, 0)


def test_a_command_that_waited_when_the_hold_came_is_refused(harness: Harness) -> None:
    copied(harness, 5, 5)
    first = harness.write(Update(bytes(16), DELETING))
    append = harness.expect_append()
    waiting = harness.write(Update(bytes([1]) * 16, DELETING))

    hold(harness, AUDIT)
    harness.feed(
        msg.AppendAnswered(append.number, harness.store.create(append.number, append.value))
    )
    harness.settle()

    assert isinstance(harness.heard(first), msg.Reply), "it was in flight"
    assert "under the hold audit" in str(harness.error_for(waiting))


def test_what_began_before_goes_on_and_copies_that_failed_are_cleaned_up(
    harness: Harness,
) -> None:
    copied(harness, 5)
    assert not kept(harness, 0)
    harness.write(Add(bytes([9]) * 16, 90, 99, {0: 90}))
    hold(harness, AUDIT)

    for segment_id, state in ((bytes(16), DELETED), (bytes([9]) * 16, DELETING)):
        caller = harness.write(Update(segment_id, state))
        harness.settle()
        assert isinstance(harness.heard(caller), msg.Reply)


def test_a_deleted_topic_keeps_what_is_under_a_hold(harness: Harness) -> None:
    copied(harness, 5, 5)
    hold(harness, AUDIT._replace(last_offset=9))
    for state in (MARKED, STARTED):
        harness.write(PartitionDelete(state, 1))
    harness.settle()

    assert kept(harness, 0)
    assert not kept(harness, 1)
    ended = harness.write(PartitionDelete(FINISHED, 1))
    harness.settle()
    assert "still has finished segments: it is under the hold" in str(harness.error_for(ended))

    hold(harness, position=2)
    assert not kept(harness, 0)
    ended = harness.write(PartitionDelete(FINISHED, 1))
    harness.settle()
    assert isinstance(harness.heard(ended), msg.Reply)


def test_a_hold_ends_at_its_time_by_the_clock_of_the_service(harness: Harness) -> None:
    copied(harness, 5, 5)
    hold(harness, AUDIT._replace(until_ms=NOW_MS + 1))
    assert kept(harness, 0)
    hold(harness, AUDIT._replace(until_ms=NOW_MS), position=2)
    assert not kept(harness, 0)


# With a guard.

DAY_MS = 24 * 3600 * 1000
WEEK = Hold("week", "*", reason="undo", by="somebody", term_ms=7 * DAY_MS)
UNKNOWN, RETENTION, TOPIC = DeletionCause


def deleted(harness: Harness, number: int, cause: DeletionCause | None = RETENTION) -> int:
    """Let a guarded broker begin the deletion; returns the caller."""
    command = command_of(Update(bytes([number]) * 16, DELETING))
    assert isinstance(command, cmd.UpdateSegment)
    return harness.command(command._replace(guarded_for=cause))


def in_trash(harness: Harness) -> dict[int, KeptSegment]:
    state = harness.machine.state
    assert state is not None
    return {id_of_row(one.row)[0]: one for _, one in state.kept.all()}


def test_a_guarded_broker_goes_on_and_what_is_held_is_kept(harness: Harness) -> None:
    copied(harness, 5, 5)
    hold(harness, AUDIT._replace(last_offset=9))

    callers = [deleted(harness, one) for one in (0, 0, 1)]
    harness.settle()

    for caller in callers:
        assert isinstance(harness.heard(caller), msg.Reply)
    assert harness.alarms == []
    (kept_one,) = in_trash(harness).values()
    assert kept_one.until_ms == NOW_MS, "it stays while the hold is in force"
    assert "under the hold audit of somebody" in kept_one.reason
    state = harness.machine.state
    assert state is not None
    assert state.count_by_state == [0, 0, 1], "nothing is about the second one"


def test_a_term_keeps_what_is_deleted_from_now_on(harness: Harness) -> None:
    copied(harness, 5, 5)
    deleted(harness, 0)
    hold(harness, WEEK)
    deleted(harness, 1)
    harness.settle()

    assert {number: one.until_ms for number, one in in_trash(harness).items()} == {
        1: NOW_MS + 7 * DAY_MS
    }
    (kept_one,) = in_trash(harness).values()
    assert kept_one.reason == "it was deleted under the term of the hold week of somebody: undo"


def test_without_a_guard_a_term_refuses_since_nothing_could_be_kept(harness: Harness) -> None:
    copied(harness, 5)
    hold(harness, WEEK)
    assert kept(harness, 0)
    hold(harness, Hold("none", "orders", reason="cheap", term_ms=0), WEEK, position=2)
    assert not kept(harness, 0), "a narrow term of 0 is an exception"


def test_an_unowned_time_holds_deletions_with_a_guard_too(harness: Harness) -> None:
    copied(harness, 5)
    harness.feed(msg.DeletionsTold(Deletions(1, "held", (WEEK,))))

    assert harness.error_for(deleted(harness, 0)) is not None
    assert in_trash(harness) == {}


@pytest.mark.parametrize(
    ("terms", "cause", "days"),
    [
        ([("*", 7, UNKNOWN)], RETENTION, 7),
        ([("*", 7, TOPIC)], RETENTION, None),
        ([("*", 7, TOPIC)], TOPIC, 7),
        ([("*", 7, TOPIC)], UNKNOWN, 7),
        ([("*", 7, RETENTION), ("*", 30, TOPIC)], UNKNOWN, 30),
        ([("*", 7, RETENTION), ("*", 30, TOPIC)], RETENTION, 7),
        ([("orders", 1, UNKNOWN), ("*", 7, UNKNOWN)], TOPIC, 1),
        ([("orders", 0, RETENTION), ("*", 7, UNKNOWN)], RETENTION, None),
        ([("orders", 0, RETENTION), ("*", 7, UNKNOWN)], TOPIC, 7),
    ],
)
def test_of_the_terms_about_a_deletion_the_narrowest_counts(
    terms: list[tuple[str, int, DeletionCause]], cause: DeletionCause, days: int | None
) -> None:
    harness = leading(SlotStore())
    copied(harness, 5)
    holds = [
        Hold(f"term-{at}", topic, reason="undo", term_ms=term * DAY_MS, cause=of)
        for at, (topic, term, of) in enumerate(terms)
    ]
    hold(harness, *sorted(holds, key=lambda one: one.breadth))
    deleted(harness, 0, cause)
    harness.settle()

    expected = {} if days is None else {0: NOW_MS + days * DAY_MS}
    assert {number: one.until_ms for number, one in in_trash(harness).items()} == expected


def test_the_narrowest_hold_is_named() -> None:
    wide, narrow = Hold("wide", "*"), Hold("narrow", "orders", partition=3)
    assert sorted([wide, narrow], key=lambda one: one.breadth) == [narrow, wide]


MATCHING = ("orders", "ord*", "*", "order?", "[op]*")
ANY_OFFSET = st.sampled_from((None, None, 0, 9, 10, 15, 19, 20, 29, 30))
ANY_TIME = st.none() | st.integers(0, 4)


def is_sound(hold: Hold) -> bool:
    try:
        check_hold(hold)
    except InvalidArgument:
        return False
    return True


HOLDS = st.builds(
    Hold,
    st.sampled_from(("one", "two")),
    st.sampled_from((*MATCHING, "payments", "ORDERS")),
    topic_id=st.sampled_from((None, None, bytes(TIP.topic_id), bytes(16))),
    partition=st.sampled_from((None, TIP.partition, TIP.partition, TIP.partition + 1)),
    first_offset=ANY_OFFSET,
    last_offset=ANY_OFFSET,
    after_ms=ANY_TIME,
    before_ms=ANY_TIME,
    until_ms=st.sampled_from((None, None, NOW_MS + 1, NOW_MS)),
    reason=st.just("why"),
    term_ms=st.none(),
    cause=st.just(0),
).filter(is_sound)


@pytest.mark.parametrize(
    ("bounds", "kept_ones"),
    [
        ({"first_offset": 19}, {1, 2}),
        ({"first_offset": 20}, {2}),
        ({"last_offset": 9}, {0}),
        ({"last_offset": 10}, {0, 1}),
        ({"after_ms": 3}, {1, 2}),
        ({"after_ms": 4}, {2}),
        ({"before_ms": 1}, {0}),
        ({"before_ms": 3}, {0, 1}),
        ({"before_ms": 4}, {0, 1, 2}),
    ],
)
def test_the_ends_of_a_range_belong_to_it(bounds: dict[str, Any], kept_ones: set[int]) -> None:
    harness = leading(SlotStore())
    copied(harness, 1, 3, 5)
    hold(harness, AUDIT._replace(**bounds))

    assert {number for number in (2, 1, 0) if kept(harness, number)} == kept_ones


def keeps(one: Hold, number: int, times_ms: list[int]) -> bool:
    """Whether any of the segment's ten records may be what the hold is about.

    The records' times go up from the newest of the segment before to the segment's own.
    """
    if one.topic in {"payments", "ORDERS"} or one.topic_id == bytes(16):
        return False
    if one.partition not in {None, TIP.partition} or one.until_ms == NOW_MS:
        return False
    low = 0 if one.first_offset is None else one.first_offset
    high = 10_000 if one.last_offset is None else one.last_offset
    if not any(low <= offset <= high for offset in range(10 * number, 10 * number + 10)):
        return False
    oldest = times_ms[number - 1] if number else -1
    is_after = one.after_ms is None or times_ms[number] >= one.after_ms
    return is_after and (one.before_ms is None or oldest < one.before_ms)


@settings(deadline=None, max_examples=100)
@given(
    times_ms=st.lists(st.integers(0, 4), min_size=4, max_size=4).map(sorted),
    holds=st.lists(HOLDS, max_size=2),
)
def test_just_what_is_held_is_kept_and_a_release_lets_it_go(
    times_ms: list[int], holds: list[Hold]
) -> None:
    harness = leading(SlotStore())
    copied(harness, *times_ms)
    hold(harness, *holds)

    for number in reversed(range(len(times_ms))):  # The one before each is there.
        expected = any(keeps(one, number, times_ms) for one in holds)
        assert kept(harness, number) is expected, number

    hold(harness, position=2)
    events = harness.store.events()
    assert not any(kept(harness, number) for number in range(len(times_ms)))
    assert len(harness.store.events()) >= len(events)
