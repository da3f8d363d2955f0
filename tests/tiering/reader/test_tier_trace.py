"""The reader over a tier that a stock broker wrote, against what consumers got from it."""

from pathlib import Path
from typing import Any

import pytest

from tests.models.storage.stored_partitions import import_trace, metadata_in
from tests.models.tiering import tier_trace
from tests.models.tiering.memory_metadata import MemoryLedger, MemoryMetadataStore
from tests.models.tiering.memory_storage import MemoryStorage
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader
from tierledger.tiering.remote_storage_manager import RemoteStorageManager
from tierledger.tiering.stored_metadata import StoredMetadata

PARTITIONS = pytest.mark.parametrize(
    "tip", tier_trace.topics(), ids=lambda one: f"{one.topic}-{one.partition}"
)
ISOLATIONS = pytest.mark.parametrize("isolation", IsolationLevel)


@pytest.fixture
async def metadata() -> StoredMetadata:
    backend = MemoryBackend()
    await import_trace(backend, tier_trace.TRACE)
    return metadata_in(backend)


@pytest.fixture
def storage() -> RemoteStorageManager:
    return open_tier(f"local-tiered:{tier_trace.TREE}")


def in_memory() -> MemoryStorage:
    """The same segments, for readings by the hundred."""
    storage = MemoryStorage()
    for metadata, indexes, log in tier_trace.segments():
        segment_id = metadata.remote_log_segment_id.id
        storage.logs[segment_id], storage.indexes[segment_id] = log, dict(indexes)
    return storage


async def first_segments(tip: TopicIdPartition, count: int) -> MemoryMetadataStore:
    """Metadata of a partition that has so many segments yet."""
    store = MemoryLedger().store(tip)
    for metadata, _, _ in tier_trace.segments_of(tip.topic, tip.partition)[:count]:
        await store.enter(metadata)
    return store


def consumed(tip: TopicIdPartition, isolation: IsolationLevel) -> list[dict[str, Any]]:
    """The tier's records as a consumer read them; every transaction has ended."""
    end = tier_trace.ends()[tip.topic, tip.partition]["latest_tiered_offset"]
    found = tier_trace.consumed(isolation.value)[tip.topic, tip.partition]
    return [one for one in found if one["offset"] <= end]


@PARTITIONS
async def test_the_batches_are_the_log_byte_for_byte(
    tip: TopicIdPartition, metadata: StoredMetadata, storage: RemoteStorageManager
) -> None:
    reader = RemoteLogReader(metadata, storage, tip)

    found = b"".join([one.data async for one in reader.batches()])

    # No two of these segments overlap.
    logs = (one.log for one in tier_trace.segments_of(tip.topic, tip.partition))
    assert found == b"".join(logs)
    committed = [one async for one in reader.batches(None, IsolationLevel.READ_COMMITTED)]
    assert not any(one.is_control for one in committed)


@PARTITIONS
@ISOLATIONS
async def test_it_can_begin_at_every_offset(
    tip: TopicIdPartition,
    isolation: IsolationLevel,
    metadata: StoredMetadata,
    tmp_path: Path,
) -> None:
    storage = in_memory()
    expected = [one["offset"] for one in consumed(tip, isolation)]
    async with RemoteIndexCache(tmp_path, storage) as cache:
        reader = RemoteLogReader(metadata, storage, tip, cache)
        assert (
            await reader.earliest_offset() == 0
        )  # Which lists, and makes all that follow quick.
        end = await reader.end_offset() or 0
        for start in range(end + 1):
            found = [one.offset async for one in reader.records(start, isolation)]

            assert found == [one for one in expected if one >= start], start

        segments = len(tier_trace.segments_of(tip.topic, tip.partition))
        assert cache.counts.loads <= segments


@PARTITIONS
async def test_every_time_leads_to_the_first_record_that_is_not_earlier(
    tip: TopicIdPartition, metadata: StoredMetadata
) -> None:
    reader = RemoteLogReader(metadata, in_memory(), tip)
    recorded = consumed(tip, IsolationLevel.READ_UNCOMMITTED)
    times = {one["offset"]: one["timestamp_ms"] for one in recorded}
    # Markers have times too, and ListOffsets finds them; consumers never see them.
    async for batch in reader.batches():
        if batch.is_control:
            times[batch.base_offset] = batch.max_timestamp_ms
    end = await reader.end_offset()

    for time in sorted({moved for one in times.values() for moved in (one - 1, one, one + 1)}):
        later = (offset for offset in sorted(times) if times[offset] >= time)

        assert await reader.from_timestamp(time) == next(later, end), time


@PARTITIONS
async def test_a_transaction_without_its_end_is_not_committed(tip: TopicIdPartition) -> None:
    """Each tier that this one was while it grew, of which only a part was there."""
    recorded = consumed(tip, IsolationLevel.READ_COMMITTED)
    seen_stable = set()
    segments = tier_trace.segments_of(tip.topic, tip.partition)
    for count in range(1, len(segments) + 1):
        last = segments[count - 1].metadata
        reader = RemoteLogReader(await first_segments(tip, count), in_memory(), tip)
        batches = [one async for one in reader.batches()]
        ended = {one.producer_id: one.base_offset for one in batches if one.is_control}
        still_open = [
            one.base_offset
            for one in batches
            if one.is_transactional
            and not one.is_control
            and ended.get(one.producer_id, -1) < one.base_offset
        ]
        stable = min(still_open, default=last.end_offset + 1)

        found = [
            one.offset async for one in reader.records(None, IsolationLevel.READ_COMMITTED)
        ]

        assert await reader.end_offset(IsolationLevel.READ_COMMITTED) == stable
        assert found == [one["offset"] for one in recorded if one["offset"] < stable]
        seen_stable.add(stable <= last.end_offset)
    # In one partition a segment ends within a transaction.
    is_open_once = (tip.topic, tip.partition) == ("payments-tx", 0)
    assert seen_stable == ({True, False} if is_open_once else {False})
