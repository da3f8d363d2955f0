"""Single answers from a store are those of the whole state."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from typing_extensions import override

from tests.models.storage.stored_partitions import (
    StoredPartition,
    added,
    finished,
    segment_id,
    updated,
)
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.log_events import (
    PartitionDeleteUpdated,
    SegmentKept,
    SegmentPurgeStarted,
)
from tierledger.events.partition import answers
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.partition.point_reads import ask, next_segment_with_txn_index

SEGMENTS = 1300
"""Three pages of offsets."""


class CountingBackend(MemoryBackend):
    """Counts the values that were read."""

    reads = 0
    before_read: Callable[[], None] | None = None

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        self.reads += len(keys)
        if self.before_read is not None:
            self.before_read()
        return await super().get_each(keys)

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        found = await super().get_like(prefix, after=after, limit=limit)
        self.reads += len(found)
        return found


async def large(
    backend: MemoryBackend | None = None, *, empty: bool = False
) -> StoredPartition:
    partition = await StoredPartition.led(backend)
    for number in range(SEGMENTS):
        await partition.append(finished(number, empty=empty))
    await partition.checkpoint()
    return partition


async def with_tail() -> StoredPartition:
    """Overlaps, deletions and new epochs on both sides of the checkpoint."""
    partition = await large()
    await partition.append([added(2000, 100, 700), updated(2000, 1)])
    await partition.append([updated(20, 2), updated(20, 3), updated(700, 2)])
    await partition.checkpoint()
    await partition.append([added(2001, 4000, 4999), updated(2001, 1)])
    await partition.append([updated(2000, 2), updated(30, 2), updated(30, 3), updated(900, 1)])
    await partition.append(finished(1300, epoch=1))
    return partition


async def test_every_single_answer_is_that_of_the_whole_state() -> None:
    partition = await with_tail()
    state, reader = partition.state, partition.reader()

    for offset in [*range(0, 900, 7), *range(3900, 5100, 31), 9000, 12_999, 13_000, 13_009]:
        for epoch in (0, 1):
            found = await ask(reader, partial(answers.lookup, epoch=epoch, offset=offset))
            assert found == answers.lookup(state, epoch, offset), (epoch, offset)
    for epoch in (-1, 0, 1, 2):
        size = await ask(reader, partial(answers.remote_log_size, epoch=epoch))
        assert size == answers.remote_log_size(state, epoch)
        highest = await ask(reader, partial(answers.highest_offset_for_epoch, epoch=epoch))
        assert highest == answers.highest_offset_for_epoch(state, epoch)
    assert reader.notes == []


async def test_the_counts_of_a_tail_are_taken_once_however_often_it_is_applied() -> None:
    partition = await with_tail()

    def counts(state: PartitionState) -> tuple[list[int], list[int]]:
        answers.lookup(state, 0, 9000)
        return list(state.count_by_state), list(state.bytes_by_state)

    found = await ask(partition.reader(), counts)

    assert found == (partition.state.count_by_state, partition.state.bytes_by_state)


@pytest.mark.parametrize("offset", [0, 5, 5115, 12_991])
async def test_a_lookup_reads_a_handful_of_values(offset: int) -> None:
    backend = CountingBackend()
    partition = await large(backend)
    backend.reads = 0

    row = await ask(partition.reader(), lambda state: answers.lookup(state, 0, offset))

    assert row is not None
    assert id_of_row(row) == segment_id(offset // 10)
    assert backend.reads <= 6


async def test_a_walk_over_empty_indexes_gets_to_its_end() -> None:
    partition = await large(empty=True)
    await partition.append(finished(SEGMENTS))

    row = await ask(partition.reader(), lambda state: next_segment_with_txn_index(state, 0, 15))

    assert row is not None
    assert id_of_row(row) == segment_id(SEGMENTS)


async def test_a_checkpoint_renewed_while_it_is_read_does_not_mix_into_the_answer() -> None:
    backend = CountingBackend()
    partition = await large(backend)
    old = dict(backend.values)
    await partition.append([updated(5, 2), updated(5, 3)])
    await partition.checkpoint()
    new = dict(backend.values)
    backend.values.clear()
    backend.values.update(old)
    reads = iter(range(100))

    def renew() -> None:
        if next(reads) == 2:
            backend.values.clear()
            backend.values.update(new)

    backend.before_read = renew

    row = await ask(partition.reader(), lambda state: answers.lookup(state, 0, 55))

    assert row is None


@pytest.mark.parametrize("damage", ["page", "epoch", "row", "no row", "another's row"])
async def test_damage_is_answered_from_the_log_and_said(damage: str) -> None:
    partition = await large()
    keys, tip = partition.keys, partition.tip
    key, value = {
        "page": (keys.leader_epoch_page(tip, 0, "referenced", 0), b"damaged"),
        "epoch": (keys.leader_epoch(tip, 0), b"damaged"),
        "row": (keys.segment(tip, segment_id(5)), b"damaged"),
        "no row": (keys.segment(tip, segment_id(5)), None),
        "another's row": (
            keys.segment(tip, segment_id(5)),
            partition.values[keys.segment(tip, segment_id(6))],
        ),
    }[damage]
    if value is None:
        del partition.values[key]
    else:
        partition.values[key] = value
    reader = partition.reader()

    row = await ask(reader, lambda state: answers.lookup(state, 0, 55))

    assert row == partition.state.rows.get(segment_id(5))
    assert len(reader.notes) == 1


async def test_a_partition_that_is_not_there_is_said_to_be_unknown() -> None:
    partition = StoredPartition(MemoryBackend())

    with pytest.raises(RemoteResourceNotFound):
        await ask(partition.reader(), lambda state: state.next_position)


async def test_a_partition_whose_deletion_finished_has_nothing() -> None:
    partition = await large()
    await partition.append([PartitionDeleteUpdated(state, 1, 5) for state in (0, 1, 2)])

    row = await ask(partition.reader(), lambda state: answers.lookup(state, 0, 55))

    assert row is None


async def test_a_sparse_state_refuses_to_list_its_rows() -> None:
    partition = await large()

    def listed(state: PartitionState) -> int:
        return len(list(state.rows))

    with pytest.raises(NotImplementedError):
        await ask(partition.reader(), listed)


async def test_an_error_of_the_question_itself_is_passed_on() -> None:
    partition = await large()

    def refused(_: PartitionState) -> None:
        raise RemoteResourceNotFound("no such epoch")

    with pytest.raises(RemoteResourceNotFound, match="no such epoch"):
        await ask(partition.reader(), refused)


async def test_what_is_in_the_trash_is_never_taken_for_missing() -> None:
    partition = await StoredPartition.led(MemoryBackend())
    for number in range(3):
        await partition.append(finished(number))
    for number in (0, 1):
        kept = SegmentKept(segment_id(number), 1000, DeletionCause.RETENTION, 7, 5, "undo")
        await partition.append([updated(number, 2), kept])
    await partition.checkpoint()

    assert await ask(partition.reader(), lambda state: len(state.kept)) == 2
    started = SegmentPurgeStarted(segment_id(0), 2000)
    await partition.append([started])
    is_known = await ask(partition.reader(), lambda state: segment_id(1) in state.kept)
    kept_then = await ask(partition.reader(), lambda state: state.kept.get(segment_id(0)))

    assert is_known
    assert kept_then is not None
    assert kept_then.lease_until_ms == 2000
    assert await ask(partition.reader(), lambda state: answers.lookup(state, 0, 25)) is not None
