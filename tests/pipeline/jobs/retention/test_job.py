"""The job's forecast of retention, compared with the task that deletes and a naive model."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiering.retention_world import (
    BEFORE_4_3,
    DELETING,
    FINISHED,
    HOUR_MS,
    LINEAGE,
    NOW_MS,
    SIZE,
    STARTED,
    TIP,
    RetentionWorld,
    add_fifty,
    epochs_between,
)
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage, without_empty_epochs
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import Snapshot, list_all, list_epoch, metadata_of
from tierledger.pipeline.jobs.retention.deletions import (
    LocalFacts,
    PartitionPlan,
    RetentionQuestion,
)
from tierledger.pipeline.tables.lineage import lineage_of
from tierledger.tiering.broker_version import BrokerVersion
from tierledger.tiering.local.leader_epochs import epochs_from
from tierledger.tiering.retention.walk import Reason

Said = tuple[int, int, str, str]
"""Run, start offset, id and reason of a deletion."""


def facts_of(world: RetentionWorld) -> LocalFacts:
    """The facts about the local log that the world's broker knows."""
    return LocalFacts(
        world.log.log_start_offset,
        sum(one.size_in_bytes for one in world.log.local),
        world.log.log_end_offset,
        tuple(world.log.leader_epochs.items()),
    )


def question(
    ms: int = -1, size: int = -1, until_ms: int = NOW_MS, broker: BrokerVersion = BEFORE_4_3
) -> RetentionQuestion:
    return RetentionQuestion(ms, size, NOW_MS, until_ms, broker)


def is_past(time_ms: int, cutoff_ms: int, broker: BrokerVersion) -> bool:
    return time_ms < cutoff_ms if broker >= (4, 3) else time_ms <= cutoff_ms


def planned(
    world: RetentionWorld, asked: RetentionQuestion, facts: LocalFacts | None = None
) -> list[Said]:
    plan = PartitionPlan(world.ledger.state(TIP), asked, facts or facts_of(world))
    return [
        (
            one.run,
            one.segment.start_offset,
            str(one.segment.remote_log_segment_id.id),
            one.reason.value,
        )
        for one in plan
    ]


async def deleted(world: RetentionWorld, asked: RetentionQuestion) -> list[Said]:
    """The segments that the task deletes, run until it finds none."""
    task = world.task(asked.retention_ms, asked.retention_bytes, asked.broker)
    found: list[Said] = []
    run = 1
    while result := (await task.run_once()).deleted:
        found += (
            (
                run,
                one.segment.start_offset,
                str(one.segment.remote_log_segment_id.id),
                one.reason.value,
            )
            for one in result
        )
        run += 1
    return found


@pytest.mark.parametrize(
    ("ms", "size", "expected"),
    [
        (-1, -1, []),
        (HOUR_MS, -1, ["time"] * 7),
        (-1, 45 * SIZE, ["size"] * 5),
        (HOUR_MS, 40 * SIZE, ["time"] * 7 + ["size"] * 3),
        (0, -1, ["time"] * 50),
        (-1, 0, ["size"] * 50),
    ],
)
async def test_a_plan_is_what_the_expiration_task_deletes(
    ms: int, size: int, expected: list[str]
) -> None:
    world = RetentionWorld(LINEAGE, 5000)
    await add_fifty(world, old=7)

    deletions = planned(world, question(ms, size))

    assert [reason for *_, reason in deletions] == expected
    assert deletions == await deleted(world, question(ms, size))


class Draft(NamedTuple):
    """A segment to be, of this log's history or of one that an election cut off."""

    start: int
    length: int
    is_ours: bool
    state: RemoteLogSegmentState
    size: int
    age_hours: int


OURS = {0: 0, 2: 20, 3: 50, 5: 90}
RIVAL = {0: 0, 1: 10, 2: 30, 4: 60}
END = 150

drafts = st.lists(
    st.builds(
        Draft,
        st.integers(0, 14).map(lambda ten: ten * 10),
        st.integers(1, 30),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([FINISHED, FINISHED, FINISHED, STARTED, DELETING]),
        st.integers(0, 4),
        st.integers(0, 4),
    ),
    max_size=14,
)
limits = st.sampled_from([-1, 0, 1, 2, 5, 9])


async def drawn(some: Sequence[Draft], log_start: int, local_bytes: int) -> RetentionWorld:
    world = RetentionWorld(OURS, END)
    for one in some:
        end = one.start + one.length - 1
        epochs = epochs_between(OURS if one.is_ours else RIVAL, one.start, end)
        await world.add(
            one.start,
            end,
            epochs,
            state=one.state,
            size=one.size,
            age_ms=one.age_hours * HOUR_MS,
        )
    if local_bytes:
        world.log.add_local(1_000, 1_001, local_bytes)
    await world.log.raise_log_start_offset(log_start)
    world.faults.restart()
    return world


@given(drafts, limits, limits, st.sampled_from([0, 0, 25, 60, 95]), st.integers(0, 3))
def test_any_plan_is_what_the_expiration_task_deletes_run_by_run(
    some: list[Draft], hours: int, size: int, log_start: int, local_bytes: int
) -> None:
    async def check() -> None:
        world = await drawn(some, log_start, local_bytes)
        broker = BrokerVersion(4, 2 + hours % 2)
        asked = question(hours * HOUR_MS if hours >= 0 else -1, size, broker=broker)

        deletions = planned(world, asked)

        assert deletions == await deleted(world, asked)

    asyncio.run(check())


@given(drafts, limits, limits)
def test_without_a_broker_the_plan_is_that_of_a_log_which_is_as_the_tier_tells(
    some: list[Draft], hours: int, size: int
) -> None:
    async def check() -> None:
        world = await drawn(some, 0, 0)
        broker = BrokerVersion(4, 2 + hours % 2)
        asked = question(hours * HOUR_MS if hours >= 0 else -1, size, broker=broker)
        history = lineage_of(world.ledger.state(TIP))
        world.log.leader_epochs = {} if history is None else dict(history.leader_epochs)
        world.log.log_end_offset = 0 if history is None else history.log_end_offset

        deletions = planned(world, asked, LocalFacts())

        assert deletions == await deleted(world, asked)

    asyncio.run(check())


class Naive:
    """RLMExpirationTask as Kafka's source tells it: every list read whole, nothing kept.

    One run at a time. Two things are ours on purpose (docs/adr/0023): what lies before the
    log's start counts as freed if it was counted, and a segment is scheduled once.
    """

    def __init__(self, world: RetentionWorld, asked: RetentionQuestion) -> None:
        self.left = world.ledger.segments(TIP)
        self.state = world.ledger.state(TIP)
        self.asked = asked
        self.epochs = dict(world.log.leader_epochs)
        self.start = world.log.log_start_offset
        self.end = world.log.log_end_offset
        self.local = sum(one.size_in_bytes for one in world.log.local)

    def listed(self, epoch: int) -> list[RemoteLogSegmentMetadata]:
        kept = {one.remote_log_segment_id for one in self.left}
        rows = [row for row in list_epoch(Snapshot(self.state, epoch), epoch) if row]
        found = [metadata_of(TIP, row) for row in rows]
        return [one for one in found if one.remote_log_segment_id in kept]

    def holds(self, one: RemoteLogSegmentMetadata) -> bool:
        epochs = without_empty_epochs(self.epochs)
        return Lineage(epochs).holds(one.segment_leader_epochs, one.end_offset, self.end)

    def breach(self) -> int:
        counted: dict[RemoteLogSegmentId, int] = {}
        for epoch in without_empty_epochs(self.epochs):
            for one in self.listed(epoch):
                if one.state == FINISHED and self.holds(one):
                    counted[one.remote_log_segment_id] = one.segment_size_in_bytes
        return sum(counted.values()) + self.local - self.asked.retention_bytes

    def due(self) -> list[tuple[RemoteLogSegmentMetadata, Reason]]:
        asked, found = self.asked, list[tuple[RemoteLogSegmentMetadata, Reason]]()
        cutoff = asked.now_ms - asked.retention_ms if asked.retention_ms > -1 else None
        remaining = self.breach() if asked.retention_bytes > -1 else 0
        epochs = without_empty_epochs(self.epochs)
        first, new_start = min(epochs), self.start
        offered = [one for epoch in epochs for one in self.listed(epoch)]
        for one in offered:
            if one in [there for there, _ in found]:
                continue
            held = self.holds(one)
            if one.state == DELETING:
                found.append((one, Reason.INTERRUPTED))
                continue
            before = max(one.segment_leader_epochs) <= first and one.end_offset < self.start
            if before:
                reason = Reason.LOG_START_OFFSET
                remaining -= one.segment_size_in_bytes if held else 0
            elif not held:
                continue
            elif cutoff is not None and is_past(one.max_timestamp_ms, cutoff, asked.broker):
                reason = Reason.TIME
                remaining -= one.segment_size_in_bytes
            elif 0 < remaining >= one.segment_size_in_bytes:
                reason = Reason.SIZE
                remaining -= one.segment_size_in_bytes
            else:
                break
            found.append((one, reason))
            if reason != Reason.LOG_START_OFFSET:
                new_start = max(new_start, one.end_offset + 1)
        found += self.stale(min(self.epochs), [one for one, _ in found])
        self.start = new_start
        self.epochs = epochs_from(self.epochs, new_start)
        return found

    def stale(
        self, earliest: int, taken: list[RemoteLogSegmentMetadata]
    ) -> list[tuple[RemoteLogSegmentMetadata, Reason]]:
        found: list[tuple[RemoteLogSegmentMetadata, Reason]] = []
        listed = [one for epoch in range(earliest) for one in self.listed(epoch)]
        for one in listed:
            if one in taken or one in [there for there, _ in found]:
                continue
            if one.state == DELETING:
                found.append((one, Reason.INTERRUPTED))
            elif max(one.segment_leader_epochs) < earliest:
                found.append((one, Reason.STALE_EPOCH))
        # Those that no list of an epoch gave: in the order of the list of all, which has none.
        everything = [metadata_of(TIP, row) for row in list_all(Snapshot(self.state))]
        rest = [
            one
            for one in everything
            if one.state == DELETING and one in self.left and one not in taken
        ]
        have = [there for there, _ in found]
        return found + [(one, Reason.INTERRUPTED) for one in rest if one not in have]

    def runs(self) -> list[list[tuple[str, str]]]:
        found = []
        while due := self.due():
            gone = [one for one, _ in due]
            self.left = [one for one in self.left if one not in gone]
            found.append(
                [(str(one.remote_log_segment_id.id), reason.value) for one, reason in due]
            )
        return found


@given(drafts, limits, limits, st.sampled_from([0, 0, 25, 60, 95]), st.integers(0, 3))
def test_any_plan_is_what_kafkas_own_walk_deletes_segment_by_segment(
    some: list[Draft], hours: int, size: int, log_start: int, local_bytes: int
) -> None:
    async def check() -> None:
        world = await drawn(some, log_start, local_bytes)
        broker = BrokerVersion(4, 2 + hours % 2)
        asked = question(hours * HOUR_MS if hours >= 0 else -1, size, broker=broker)

        expected = Naive(world, asked).runs()

        deletions = planned(world, asked)
        by_run = [
            [
                (segment_id, reason)
                for number, _, segment_id, reason in deletions
                if number == run + 1
            ]
            for run in range(len(expected))
        ]
        assert by_run == expected
        assert len(deletions) == sum(map(len, expected))

    asyncio.run(check())


async def test_until_a_time_each_segment_goes_when_it_and_all_before_it_are_due() -> None:
    world = RetentionWorld({0: 0}, 1000)
    for number, age_hours in enumerate([5, 1, 3, 0]):
        start = number * 100
        await world.add(start, start + 99, {0: start}, age_ms=age_hours * HOUR_MS)
    asked = question(4 * HOUR_MS, until_ms=NOW_MS + 3 * HOUR_MS)

    plan = list(PartitionPlan(world.ledger.state(TIP), asked, facts_of(world)))

    hours = [((one.at_ms - NOW_MS) // HOUR_MS, one.segment.start_offset) for one in plan]
    assert hours == [(0, 0), (3, 100), (3, 200)]


async def test_a_clock_that_is_moved_gives_what_the_task_deletes_at_those_times() -> None:
    world = RetentionWorld(LINEAGE, 5000)
    for number in range(20):
        start = number * 100
        epochs = epochs_between(LINEAGE, start, start + 99)
        await world.add(start, start + 99, epochs, age_ms=(number * 7 % 5) * HOUR_MS)
    asked = question(5 * HOUR_MS, 18 * SIZE, NOW_MS + 4 * HOUR_MS)
    plan = list(PartitionPlan(world.ledger.state(TIP), asked, facts_of(world)))

    task, found = world.task(asked.retention_ms, asked.retention_bytes, asked.broker), []
    for hour in range(5):
        world.clock.time_ms = NOW_MS + hour * HOUR_MS
        world.passed_s = hour * HOUR_MS / 1000
        while result := (await task.run_once()).deleted:
            found += [(one.segment.start_offset, one.reason, hour) for one in result]

    hours = [
        (one.segment.start_offset, one.reason, (one.at_ms - NOW_MS) // HOUR_MS) for one in plan
    ]
    assert hours == found
    assert {reason for _, reason, _ in found} == {Reason.SIZE, Reason.TIME}
