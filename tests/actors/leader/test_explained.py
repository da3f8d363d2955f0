"""A deletion that Kafka's rules do not explain is kept, and all that they explain goes."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.actors.leader.test_holds import DELETING, WEEK, hold, in_trash
from tests.models.actors.harness import NOW_MS, Harness, SlotStore, finished, leading
from tests.models.events.driven_partition import TIP, command_of
from tierledger.actors import messages as msg
from tierledger.actors.explained import CLOCKS_MS, LOCAL_FACTOR, NotKnown, ToldRetention
from tierledger.events import commands as cmd
from tierledger.events.errors import RejectedError
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.lineage import Lineage
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.simulation.checkers.slow.model import Add, PartitionDelete, Update
from tierledger.tiering.broker_version import BrokerVersion
from tierledger.tiering.retention.walk import Action, RetentionBounds, RetentionWalk, expiry

HOUR_MS = 3_600_000
KEEPS_ALL = ToldRetention(-1, -1, 0, 0, 1_000)


def copied(harness: Harness, sizes: list[int], ages_ms: list[int]) -> None:
    """Finished segments of ten offsets each, of these sizes and ages of the newest record."""
    for number, (size, age_ms) in enumerate(zip(sizes, ages_ms, strict=True)):
        start, one = 10 * number, bytes([number]) * 16
        added = Add(one, start, start + 9, {0: start}, size, max_timestamp_ms=NOW_MS - age_ms)
        harness.write(added)
        harness.write(finished(number))
    harness.settle()


def deleted(
    harness: Harness,
    number: int,
    told: ToldRetention | NotKnown | None,
    cause: DeletionCause | None = DeletionCause.RETENTION,
) -> int:
    """Let a broker begin the deletion; returns the caller."""
    command = command_of(Update(bytes([number]) * 16, DELETING))
    assert isinstance(command, cmd.UpdateSegment)
    caller = harness.next_caller()
    guarded = command._replace(guarded_for=cause)
    harness.feed(msg.CommandArrived(caller, guarded, NOW_MS, told))
    harness.settle()
    return caller


def kept(sizes: list[int], ages_ms: list[int], number: int, told: ToldRetention) -> str:
    """Why the deletion of one of these segments is kept; empty: it goes."""
    harness = leading(SlotStore())
    copied(harness, sizes, ages_ms)
    assert isinstance(harness.heard(deleted(harness, number, told)), msg.Reply)
    found = in_trash(harness)
    assert {one.until_ms for one in found.values()} <= {UNTIL_RELEASED_MS}
    assert [one.kind for one in harness.alarms] == ["deletion-unexplained"] * len(found)
    return found[number].reason if found else ""


def test_what_no_rule_explains_is_kept_with_the_arithmetic() -> None:
    told = ToldRetention(7 * 24 * HOUR_MS, 1_000, 10, 0, 25)

    why = kept([400, 300], [2 * HOUR_MS, HOUR_MS], 0, told)

    assert why == (
        "Kafka's rules do not explain this deletion: retention.ms is 604800000, and its "
        "newest record is of 2023-11-14T20:13:20.000Z; retention.bytes is 1000, the tier has "
        "700 bytes with this segment's 400, and the brokers about 150 more; the log starts at "
        "10, where a segment ends, as retention leaves it"
    )


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ({}, True),
        ({"retention_ms": 2 * HOUR_MS + CLOCKS_MS}, False),
        ({"retention_ms": 2 * HOUR_MS + CLOCKS_MS + 1}, True),
        ({"retention_bytes": 301}, True),
        ({"retention_bytes": 300}, False),
        ({"log_start": 9}, True),
        ({"log_start": 10}, True),
        ({"log_start": 11}, False),
        ({"log_start": 20}, True),
        ({"log_start": 21}, False),
        ({"first_epoch": 1}, False),
        ({"first_epoch": 1, "log_start": 20}, True),
    ],
)
def test_each_rule_ends_where_it_does(change: dict[str, int], is_kept: bool) -> None:
    told = KEEPS_ALL._replace(end=20, **change)

    assert bool(kept([400, 300], [2 * HOUR_MS, HOUR_MS], 0, told)) is is_kept


def test_terms_and_holds_do_not_matter_to_it(harness: Harness) -> None:
    copied(harness, [10, 10], [5, 5])
    hold(harness, WEEK)

    deleted(harness, 0, KEEPS_ALL)

    assert [one.until_ms for one in in_trash(harness).values()] == [UNTIL_RELEASED_MS]


def test_what_kafka_does_not_say_waits(harness: Harness) -> None:
    copied(harness, [10], [5])

    caller = deleted(harness, 0, NotKnown("no broker answers"))

    error = harness.error_for(caller)
    assert isinstance(error, RejectedError)
    assert "is not deleted yet: no broker answers" in str(error)
    assert [one.kind for one in harness.alarms] == ["deletion-not-judged"]
    assert in_trash(harness) == {}
    assert isinstance(
        harness.heard(deleted(harness, 0, KEEPS_ALL._replace(log_start=11))), msg.Reply
    )


@pytest.mark.parametrize("told", [KEEPS_ALL, NotKnown("no broker answers")])
def test_what_is_somebodys_will_or_no_copy_goes(
    harness: Harness, told: ToldRetention | NotKnown
) -> None:
    copied(harness, [10], [5])
    harness.write(Add(bytes([9]) * 16, 90, 99, {0: 90}))
    callers = [deleted(harness, 9, told), deleted(harness, 0, told, None)]
    harness.write(Add(bytes([8]) * 16, 80, 89, {0: 80}))
    harness.write(finished(8))
    harness.write(PartitionDelete(0, 1))
    callers.append(deleted(harness, 8, told))

    assert all(isinstance(harness.heard(one), msg.Reply) for one in callers)
    assert in_trash(harness) == {}


# Against the walk by which brokers delete.


class DeletionScene(NamedTuple):
    sizes: list[int]
    ages_ms: list[int]
    retention_ms: int
    retention_bytes: int
    local: int
    """Records that are not in the tier."""
    deleted_up_to: int
    """The offset of DeleteRecords."""

    @property
    def end(self) -> int:
        return 10 * len(self.sizes) + self.local

    @property
    def local_bytes(self) -> int:
        return self.local * self.sizes[-1] // 10

    def starts_inside(self) -> bool:
        """Whether DeleteRecords went into a segment, and not to the end of one."""
        return self.deleted_up_to % 10 != 0 or self.deleted_up_to == 0


SCENES = st.builds(
    DeletionScene,
    st.lists(st.integers(1, 100), min_size=1, max_size=8),
    st.lists(st.integers(0, 40), min_size=8, max_size=8).map(lambda one: sorted(one)[::-1]),
    st.sampled_from((-1, -1, 10 * HOUR_MS, 30 * HOUR_MS)),
    st.sampled_from((-1, 0, *range(20, 400, 20))),
    st.integers(0, 30),
    st.sampled_from((0, 0, 0, 5, 13, 27, 200)),
).map(
    lambda one: one._replace(
        ages_ms=[hours * HOUR_MS for hours in one.ages_ms][: len(one.sizes)]
    )
)


def walked(scene: DeletionScene, start: int, counted_bytes: int) -> tuple[list[int], int]:
    """The segments that a broker deletes in one round, and the log start that it sets before.

    `counted_bytes`: those that it takes for the log's.
    """
    limit = scene.retention_bytes
    version = BrokerVersion(4, 4)
    walk = RetentionWalk(
        RetentionBounds(
            lineage=Lineage({0: 0}),
            log_start_offset=start,
            log_end_offset=scene.end + 1,
            expired_up_to_ms=expiry(NOW_MS, scene.retention_ms, version),
            excess_max=None if limit < 0 else counted_bytes - limit,
        )
    )
    if limit >= 0:
        walk.measured(max(0, counted_bytes - limit))
    going = []
    for number, (size, age_ms) in enumerate(zip(scene.sizes, scene.ages_ms, strict=True)):
        verdict = walk.offer(
            RemoteLogSegmentMetadata(
                remote_log_segment_id=RemoteLogSegmentId(TIP, Uuid(bytes([number]) * 16)),
                start_offset=10 * number,
                end_offset=10 * number + 9,
                max_timestamp_ms=NOW_MS - age_ms,
                broker_id=1,
                event_timestamp_ms=1,
                segment_size_in_bytes=size,
                state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
                segment_leader_epochs={0: 10 * number},
            )
        )
        if verdict.action == Action.DELETE:
            going.append(number)
        if verdict.action == Action.STOP:
            break
    return going, max(start, walk.new_log_start_offset or 0)


def told_of(scene: DeletionScene, start: int) -> ToldRetention:
    return ToldRetention(scene.retention_ms, scene.retention_bytes, start, 0, scene.end)


@settings(deadline=None, max_examples=200)
@given(SCENES, st.integers(0, 100))
def test_all_that_a_sound_broker_deletes_is_explained(
    scene: DeletionScene, denser: int
) -> None:
    # Its records may be up to twice as large as those of the newest segment.
    local_bytes = scene.local_bytes * (100 + denser) // 100
    harness = leading(SlotStore())
    copied(harness, scene.sizes, scene.ages_ms)
    start = min(scene.deleted_up_to, scene.end)
    assume(start % 10 != 0 or start in {0, scene.end})
    assume(start < scene.end or scene.local > 0)

    going, after = walked(scene, start, sum(scene.sizes) + local_bytes)
    for number in going:
        deleted(harness, number, told_of(scene, after))

    assert in_trash(harness) == {}
    assert all(isinstance(one, msg.Reply) for one in harness.replies)


@settings(deadline=None, max_examples=200)
@given(SCENES)
def test_a_broker_that_counts_bytes_twice_loses_none_that_are_within_retention(
    scene: DeletionScene,
) -> None:
    scene = scene._replace(deleted_up_to=0, retention_ms=-1)
    assume(scene.retention_bytes >= 0)
    harness = leading(SlotStore())
    copied(harness, scene.sizes, scene.ages_ms)

    twice = 2 * sum(scene.sizes) + scene.local_bytes
    going, after = walked(scene, 0, twice)
    for number in going:
        deleted(harness, number, told_of(scene, after))

    stays = set(range(len(scene.sizes))) - set(going) | set(in_trash(harness))
    left = sum(scene.sizes[number] for number in stays) + LOCAL_FACTOR * scene.local_bytes
    total = sum(scene.sizes) + LOCAL_FACTOR * scene.local_bytes
    assert left >= min(total, scene.retention_bytes)
    assert all(one < other for one, other in pairwise(going))
