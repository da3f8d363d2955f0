"""Committed reading believes a transaction index only as far as the log's markers agree."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.models.tiering.memory_metadata import MemoryLedger
from tests.models.tiering.read_tier import read, reader
from tests.models.tiering.written_log import ABORT, COMMIT, TIP, WrittenLog, WrittenTier
from tierledger.events.errors import CorruptRemoteData, RemoteResourceNotFound
from tierledger.tiering.formats.index_files import TRANSACTION_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.record_batches import BatchSplitter
from tierledger.tiering.reader.markers import DecidedBatches, SegmentBatch
from tierledger.tiering.reader.reader import IsolationLevel

COMMITTED = IsolationLevel.READ_COMMITTED
ENTRY = TRANSACTION_ENTRY.size


def transactions() -> WrittenLog:
    """Committed and aborted ones of two producers that overlap, and data of none."""
    log = WrittenLog()
    for number in range(30):
        log.append(3, producer=1 + number % 2)
        log.append(2)
        if number % 3 == 2:
            log.end_transaction(1, ABORT if number % 2 else COMMIT)
        if number % 4 == 3:
            log.end_transaction(2, ABORT if number % 8 == 3 else COMMIT)
    for producer in (1, 2):
        log.end_transaction(producer, ABORT)
    return log


async def copied(log: WrittenLog) -> WrittenTier:
    """In two segments, one transaction going over from one to the other."""
    tier = WrittenTier()
    parting = log.batches[len(log.batches) // 2].first
    for start, end in ((0, parting), (parting, log.end)):
        await tier.copy(log, start, end)
    return tier


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize(
    "kept", [slice(0), slice(ENTRY, None), slice(-ENTRY)], ids=["none", "not first", "not last"]
)
async def test_a_lacking_transaction_index_is_told_in_time(segment: int, kept: slice) -> None:
    log = transactions()
    tier = await copied(log)
    right = log.offsets(0, log.end, committed=True)
    assert await read(tier, None, COMMITTED) == (right, None)
    metadata, _ = tier.copied[segment]
    indexes = tier.storage.indexes[metadata.remote_log_segment_id.id]
    indexes[IndexType.TRANSACTION] = indexes[IndexType.TRANSACTION][kept]

    found, error = await read(tier, None, COMMITTED)

    assert found == right[: len(found)]
    assert isinstance(error, CorruptRemoteData)
    assert f"transaction index of {metadata.remote_log_segment_id}: it lacks" in str(error)
    everything = log.offsets(0, log.end, committed=False)
    assert await read(tier) == (everything, None), "uncommitted, nobody asks the index"


async def test_a_transaction_index_that_is_not_there_is_told_as_well() -> None:
    log = transactions()
    tier = await copied(log)
    metadata, _ = tier.copied[1]
    del tier.storage.indexes[metadata.remote_log_segment_id.id][IndexType.TRANSACTION]

    found, error = await read(tier, None, COMMITTED)

    assert found == log.offsets(0, log.end, committed=True)[: len(found)]
    assert isinstance(error, CorruptRemoteData)
    assert "it lacks an aborted transaction" in str(error)


async def test_committed_records_are_not_left_out_in_silence() -> None:
    log = WrittenLog()
    log.append(5)
    log.append(5, producer=1)
    marker = log.end_transaction(1, COMMIT)
    log.append(5)
    tier = WrittenTier()
    metadata = replace(await tier.copy(log, 0, log.end), txn_index_empty=False)
    wrong = TRANSACTION_ENTRY.pack(0, 1, 5, marker.last, marker.last + 1)
    tier.storage.indexes[metadata.remote_log_segment_id.id][IndexType.TRANSACTION] = wrong
    tier.metadata = MemoryLedger().store(TIP)
    await tier.enter(metadata)

    found, error = await read(tier, None, COMMITTED)

    assert found == [0, 1, 2, 3, 4]
    assert isinstance(error, CorruptRemoteData)
    assert "it has an aborted transaction of producer 1 from offset 5 on" in str(error)
    assert f"its COMMIT marker at {marker.first}" in str(error)


def decided(log: WrittenLog, aborted: set[int], held_bytes_max: int) -> list[int]:
    """First offsets in the order in which they are let through, with the batch that did it.

    `aborted`: producers whose batches the indexes say were aborted.
    """
    batches = DecidedBatches(held_bytes_max)
    found = []
    data = b"".join(one.data for one in log.batches)
    for batch in BatchSplitter("s", 0, len(data)).feed(data):
        is_aborted = batch.producer_id in aborted and not batch.is_control
        for _, one in batches.take(SegmentBatch("s", batch), is_aborted=is_aborted):
            found += [one.base_offset]
        found += [-1]
    return [*found, *(one.base_offset for _, one in batches.rest())]


def test_a_batch_waits_for_its_marker_and_all_behind_it_wait_too() -> None:
    log = WrittenLog()
    log.append(1)
    log.append(1, producer=1)
    log.append(1, producer=2)
    log.append(1)
    log.end_transaction(1, COMMIT)
    log.end_transaction(2, COMMIT)
    log.append(1)

    assert decided(log, set(), 1 << 20) == [0, -1, -1, -1, -1, 1, -1, 2, 3, -1, 6, -1]


def test_what_has_no_marker_yet_comes_at_the_end() -> None:
    log = WrittenLog()
    log.append(1, producer=1)
    log.append(1)

    assert decided(log, set(), 1 << 20) == [-1, -1, 0, 1]


def test_a_long_transaction_does_not_fill_the_memory_and_is_told_of_late() -> None:
    log = WrittenLog()
    log.fill(5, 1, producer=1)
    size = len(log.batches[0].data)

    assert decided(log, set(), 2 * size) == [-1, -1, 0, -1, 1, -1, 2, -1, 3, 4]
    log.end_transaction(1, ABORT)
    with pytest.raises(CorruptRemoteData, match="lacks an aborted transaction of producer 1"):
        decided(log, set(), 2 * size)


def test_a_transaction_of_which_only_a_part_is_aborted_is_told() -> None:
    log = WrittenLog()
    first = log.append(1, producer=1)
    second = log.append(1, producer=1)
    batches = DecidedBatches()
    (begun,) = BatchSplitter("s", 0, 0).feed(first.data)
    (further,) = BatchSplitter("s", 0, 0).feed(second.data)
    assert list(batches.take(SegmentBatch("s", begun), is_aborted=True)) == []

    with pytest.raises(CorruptRemoteData, match="producer 1 from offset 0 on"):
        list(batches.take(SegmentBatch("s", further), is_aborted=False))


async def test_what_waits_for_a_deleted_marker_comes_before_the_error() -> None:
    tier, log = WrittenTier(piece_bytes=200), WrittenLog()
    log.fill(4, 2)
    log.append(4, producer=1)
    parting = log.end
    log.end_transaction(1, COMMIT)
    log.append(3)
    await tier.copy(log, 0, parting)
    marked = await tier.copy(log, parting, log.end)
    gate = tier.storage.gate = asyncio.Event()
    records = reader(tier).records(0, COMMITTED)
    found = [(await anext(records)).offset]
    await tier.delete(marked)
    gate.set()

    error = None
    try:
        async for record in records:
            found += [record.offset]
    except RemoteResourceNotFound as missing:
        error = missing

    assert found == list(range(parting))
    assert error is not None


async def test_a_marker_of_a_transaction_without_data_says_nothing() -> None:
    log = WrittenLog()
    log.append(2)
    log.end_transaction(1, ABORT)
    log.append(2, producer=1)
    log.end_transaction(1, COMMIT)
    log.end_transaction(1, ABORT)
    tier = WrittenTier()
    await tier.copy(log, 0, log.end)

    assert await read(tier, None, COMMITTED) == ([0, 1, 3, 4], None)
