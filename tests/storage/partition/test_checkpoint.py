"""The writes of a checkpoint: which keys, and in which steps."""

from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from typing_extensions import override

from tests.models.storage.stored_partitions import (
    SERDE,
    StoredPartition,
    added,
    finished,
    segment_id,
    updated,
)
from tierledger.events.errors import CorruptCheckpoint
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import SegmentKept
from tierledger.events.partition.invariants import check
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.paged_map import PAGE_ENTRIES_MAX
from tierledger.storage.backend import Remove
from tierledger.storage.partition.checkpoint import (
    OPERATIONS_PER_STEP,
    ROWS_AT_ONCE,
    CheckpointStore,
    CheckpointWriter,
    Standing,
    dismantle_operations,
)
from tierledger.storage.serde import MsgpackSerDe, Plain


class CountingSerDe(MsgpackSerDe):
    """Counts the rows, pages and tables that are made to be stored."""

    made = 0

    @override
    def serialize(self, kind: str, fields: Sequence[Plain]) -> bytes:
        self.made += 1
        return super().serialize(kind, fields)

    @override
    def serialize_row(self, row: bytes) -> bytes:
        self.made += 1
        return super().serialize_row(row)


async def filled(segments: int) -> StoredPartition:
    partition = await StoredPartition.led()
    for first in range(0, segments, 500):
        many = range(first, min(first + 500, segments))
        await partition.append([added(one, one * 10, one * 10 + 9) for one in many])
    return partition


def store_of(partition: StoredPartition) -> CheckpointStore:
    return CheckpointStore(partition.backend, partition.keys, SERDE, partition.tip)


async def checkpointed(partition: StoredPartition, writer: CheckpointWriter) -> Standing:
    draft = writer.freeze(partition.state, partition.next_batch)
    return await writer.write(await writer.plan(draft))


async def loaded(partition: StoredPartition) -> PartitionState:
    """The content of the store, verified."""
    store = store_of(partition)
    stored = await store.read_stored()
    assert stored is not None
    state = await store.load(stored, store.parse_partition(stored))
    check(state)
    return state


@pytest.mark.parametrize("whole", [False, True])
async def test_no_step_of_a_plan_makes_more_than_so_much(whole: bool) -> None:
    partition = await filled(ROWS_AT_ONCE + 3 * PAGE_ENTRIES_MAX)
    serde = CountingSerDe()
    store = CheckpointStore(partition.backend, partition.keys, serde, partition.tip)
    made = []

    for _ in store.steps(
        store.freeze(partition.state, partition.next_batch, whole=whole), None
    ):
        made.append(serde.made)
        serde.made = 0

    assert len(made) >= len(partition.state.rows) // OPERATIONS_PER_STEP
    assert max(*made, serde.made) <= OPERATIONS_PER_STEP + 2, "and the values they lie under"


async def test_a_step_makes_few_pages_and_what_was_planned_is_let_go_in_pieces() -> None:
    partition = await filled(12 * PAGE_ENTRIES_MAX)
    store = store_of(partition)
    draft = store.freeze(partition.state, partition.next_batch, whole=True)
    pages = [
        page
        for _, frozen in draft.epochs.values()
        for _, table in (frozen or partition.state.epochs[0]).tables()
        for page in table.pages
    ]
    steps = sum(1 for _ in store.steps(draft, None))

    assert steps >= len(partition.state.rows) // OPERATIONS_PER_STEP + len(pages) // 10

    plan = await store.plan_in_slices(draft, None)
    operations = plan.operations.copy()
    left = [len(operations) for _ in dismantle_operations(operations)]
    assert left[-1] == 0
    assert max(map(int.__sub__, left, left[1:])) <= OPERATIONS_PER_STEP
    assert sum(1 for _ in draft.dismantle()) >= len(pages)
    assert len(partition.state.rows) == 12 * PAGE_ENTRIES_MAX


@pytest.mark.parametrize("seed", range(5))
async def test_a_plan_holds_its_position_while_the_partition_goes_on(seed: int) -> None:
    random = Random(seed)
    partition = await filled(random.choice([700, ROWS_AT_ONCE + 700]))
    writer = CheckpointWriter(store_of(partition))
    latest = 100_000
    for _ in range(4):
        position = partition.state.next_position
        digest = partition.state.digest()
        steps = store_of(partition).steps(
            writer.freeze(partition.state, partition.next_batch), writer.stored
        )
        plan = None
        while plan is None:
            try:
                next(steps)
            except StopIteration as planned:
                plan = planned.value
            number = random.choice([latest, random.randrange(700)])
            if number == latest:
                latest += 1
                await partition.append(finished(number))
            elif partition.state.rows.get(segment_id(number)) is not None:
                await partition.append([updated(number, 2), updated(number, 3)])

        assert await writer.write(plan) is Standing.OURS
        state = await loaded(partition)
        assert (state.next_position, state.digest()) == (position, digest)


async def test_a_whole_checkpoint_replaces_what_differs_and_removes_the_rest() -> None:
    partition = await filled(600)
    await partition.checkpoint()
    writer = CheckpointWriter(store_of(partition))
    writer.stored, writer.is_whole = partition.partition_value, True
    row, page = (
        partition.keys.segment(partition.tip, segment_id(7)),
        partition.keys.leader_epoch_page(partition.tip, 0, "unreferenced", 0),
    )
    stray = partition.keys.segment(partition.tip, segment_id(7000))
    partition.values.update({row: b"?", page: b"?", stray: partition.values[row]})
    await partition.append([added(600, 6000, 6009)])

    plan = await writer.plan(writer.freeze(partition.state, partition.next_batch))
    changes = {one.key for one in plan.operations}

    assert {row, page, stray} < changes
    assert len(changes) < 10
    assert Remove(stray) in plan.operations
    assert await writer.write(plan) is Standing.OURS
    assert (await loaded(partition)).digest() == partition.state.digest()


@pytest.mark.parametrize("whole", [False, True])
async def test_what_is_kept_is_stored_page_by_page_and_found_again(whole: bool) -> None:
    partition = await StoredPartition.led()
    store = store_of(partition)
    writer = CheckpointWriter(store)
    for number in range(PAGE_ENTRIES_MAX + 9):
        kept = SegmentKept(segment_id(number), 9, 2, 1, 5, "undo")
        await partition.append([*finished(number), updated(number, 2), kept])
        if number % 400 == 0:
            writer.is_whole = whole
            assert await checkpointed(partition, writer) is Standing.OURS
    assert await checkpointed(partition, writer) is Standing.OURS

    state = await loaded(partition)
    assert state.digest() == partition.state.digest()
    assert segment_id(7) in state.kept
    first = partition.keys.kept_page(partition.tip, 0)
    assert len([key for key in partition.values if key.startswith(first[:-10])]) > 1
    del partition.values[first]
    with pytest.raises(CorruptCheckpoint, match="missing"):
        await loaded(partition)


async def test_what_a_conflict_means_is_told_by_what_stands() -> None:
    partition = await filled(20)
    mine, other = (CheckpointWriter(store_of(partition)) for _ in range(2))
    write = partial(checkpointed, partition)

    planned = await mine.plan(mine.freeze(partition.state, partition.next_batch))
    other.is_whole = True  # It shares the state, which has forgotten its changes.
    assert await write(other) is Standing.OURS
    assert await mine.write(planned) is Standing.OURS, "the same, by any writer"

    await partition.append(finished(30))
    late = await mine.plan(mine.freeze(partition.state, partition.next_batch))
    other.is_whole = True
    await partition.append(finished(31))
    assert await write(other) is Standing.OURS
    assert await mine.write(late) is Standing.AS_MUCH, "a writer that knows more has taken over"

    await partition.append(finished(32))
    assert await write(mine) is Standing.LESS, "but not for good"
    assert await write(mine) is Standing.OURS
    await partition.append(finished(33))
    assert await write(other) is Standing.LESS
    assert await write(other) is Standing.OURS
    assert (await loaded(partition)).digest() == partition.state.digest()

    other.stored = None  # It never heard of what it wrote.
    await partition.backend.remove_like(partition.keys.partition(partition.tip))
    await partition.append(finished(34))
    assert await write(mine) is Standing.LESS
    assert await write(mine) is Standing.OURS
    assert (await loaded(partition)).digest() == partition.state.digest()


async def test_a_writer_that_was_overtaken_stays_behind_what_stands() -> None:
    partition = await filled(20)
    slow, fast = (CheckpointWriter(store_of(partition)) for _ in range(2))
    drafts = []
    for number in range(30, 33):
        await partition.append(finished(number))
        drafts.append(slow.freeze(partition.state, partition.next_batch))
    fast.is_whole = True  # It shares the state, which has forgotten its changes.
    newest = await fast.plan(fast.freeze(partition.state, partition.next_batch))
    assert await fast.write(newest) is Standing.OURS

    for draft in drafts[:2]:
        assert await slow.write(await slow.plan(draft)) is Standing.AS_MUCH

    stands = partition.values[partition.keys.partition(partition.tip)]
    assert stands == newest.partition_value


async def test_a_checkpoint_that_is_damaged_is_written_over() -> None:
    partition = await filled(20)
    writer = CheckpointWriter(store_of(partition))
    writer.is_whole = True
    assert await checkpointed(partition, writer) is Standing.OURS
    assert writer.stored is not None
    key = partition.keys.partition(partition.tip)
    partition.values[key] = b"\x00" + writer.stored[1:]
    await partition.append(finished(30))

    assert await checkpointed(partition, writer) is Standing.LESS
    assert await checkpointed(partition, writer) is Standing.OURS
    assert (await loaded(partition)).digest() == partition.state.digest()


async def test_a_copied_state_is_stored_by_its_differences() -> None:
    partition = await filled(2 * PAGE_ENTRIES_MAX)
    first = CheckpointWriter(store_of(partition))
    assert await checkpointed(partition, first) is Standing.OURS
    await partition.append(finished(7777))
    partition.state = partition.state.copy()
    await partition.append([updated(3, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)])
    writer = CheckpointWriter(store_of(partition))
    assert await writer.begin_with_copy(partition.state) == 3

    plan = await writer.plan(writer.freeze(partition.state, partition.next_batch))

    rows = partition.keys.segments(partition.tip)
    changed = [one.key for one in plan.operations if one.key.startswith(rows)]
    assert sorted(changed) == sorted(
        partition.keys.segment(partition.tip, segment_id(one)) for one in (3, 7777)
    )
    assert await writer.write(plan) is Standing.OURS
    await partition.append(finished(8888))
    assert await checkpointed(partition, writer) is Standing.OURS, "by its changes from here on"
    assert (await loaded(partition)).digest() == partition.state.digest()


async def test_a_copied_state_replaces_no_later_checkpoint() -> None:
    partition = await filled(20)
    late = CheckpointWriter(store_of(partition))
    assert await late.begin_with_copy(partition.state) == partition.state.next_position
    draft = late.freeze(partition.state.copy(), partition.next_batch)
    await partition.append(finished(30))
    present = CheckpointWriter(store_of(partition))
    assert await checkpointed(partition, present) is Standing.OURS

    assert await late.write(await late.plan(draft)) is Standing.AS_MUCH

    assert (await loaded(partition)).digest() == partition.state.digest()
