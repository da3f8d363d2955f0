"""Reads of logs are counted; all else goes through."""

import pytest

from tests.models.tiering.read_tier import three_segments
from tests.models.tiering.written_log import TIP
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.tiering.formats.index_type import ALL_INDEX_TYPES, IndexType
from tierledger.tiering.metrics.metered_storage import MeteredStorage
from tierledger.tiering.metrics.tier_metrics import (
    FETCH_BYTES,
    FETCH_ERRORS,
    FETCH_REQUESTS,
    TierMetrics,
)
from tierledger.tiering.reader.reader import RemoteLogReader


def fetched(metrics: TierMetrics) -> tuple[int, int, int]:
    """Requests, bytes and errors."""
    counters = FETCH_REQUESTS, FETCH_BYTES, FETCH_ERRORS
    requests, size, errors = (metrics.value(one, TIP) for one in counters)
    return requests, size, errors


async def test_what_a_reader_fetches_is_counted() -> None:
    tier, segments = await three_segments()
    metrics = TierMetrics()
    reader = RemoteLogReader(tier.metadata, MeteredStorage(tier.storage, metrics), TIP)

    assert [record.offset async for record in reader.records()] == list(range(30))

    assert fetched(metrics) == (3, sum(one.segment_size_in_bytes for one in segments), 0)


async def test_a_read_that_fails_is_an_error_once() -> None:
    tier, segments = await three_segments()
    metrics = TierMetrics()
    storage = MeteredStorage(tier.storage, metrics)
    del tier.storage.logs[segments[0].remote_log_segment_id.id]

    with pytest.raises(RemoteResourceNotFound):
        await anext(storage.fetch_log_segment(segments[0], 0))

    assert fetched(metrics) == (1, 0, 1)


async def test_who_stops_early_lets_go_and_makes_no_error() -> None:
    tier, segments = await three_segments()
    metrics = TierMetrics()
    pieces = MeteredStorage(tier.storage, metrics).fetch_log_segment(segments[0], 0)

    assert len(await anext(pieces)) == 100
    await pieces.aclose()  # type: ignore[attr-defined]

    assert fetched(metrics) == (1, 100, 0)
    assert tier.storage.open_fetches == 0


async def test_indexes_come_as_they_are_and_a_deletion_goes_through() -> None:
    tier, (segment, *_) = await three_segments()
    storage = MeteredStorage(tier.storage, TierMetrics())
    indexes = tier.storage.indexes[segment.remote_log_segment_id.id]

    assert await storage.fetch_all_indexes(segment) == indexes
    assert await storage.fetch_indexes(segment, ALL_INDEX_TYPES) == indexes
    offset = await storage.fetch_index(segment, IndexType.OFFSET)
    assert offset == indexes[IndexType.OFFSET]
    await storage.delete_log_segment_data(segment)
    assert segment.remote_log_segment_id.id not in tier.storage.logs
