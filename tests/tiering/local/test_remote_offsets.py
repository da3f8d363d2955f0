"""From where to where a log is remote; the numbers are those that Kafka is tested with."""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.models.tiering.memory_metadata import MemoryLedger, MemoryMetadataStore
from tests.models.tiering.planned_faults import When
from tests.models.tiering.retention_world import STARTED, TIP, MemoryLog
from tierledger.events.errors import NotReady, RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.local.leader_epochs import NOWHERE, OffsetAndEpoch
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.local.remote_offsets import (
    find_highest_remote_offset,
    find_log_start_offset,
)

Spans = Sequence[tuple[int, int, Mapping[int, int]]]


async def store_with(spans: Spans, *, is_finished: bool = True) -> MemoryMetadataStore:
    """A store that holds a segment for each (start, end, epochs)."""
    store = MemoryLedger().store(TIP)
    for number, (start, end, epochs) in zip(count(1), spans, strict=False):
        segment_id = RemoteLogSegmentId(TIP, Uuid(number.to_bytes(16, "big")))
        segment = RemoteLogSegmentMetadata(segment_id, start, end, 0, 1, 0, 1, STARTED, epochs)
        await store.enter(segment, finish=is_finished)
    return store


def log_with(epochs: Mapping[int, int], local: int = 0, end: int = 1000) -> MemoryLog:
    log = MemoryLog(epochs, end)
    log.local = [LocalSegment(local, end, 1, 0, Path("log"))]
    return log


@pytest.mark.parametrize(
    ("epochs", "spans", "expected"),
    [
        ({0: 0, 1: 500}, [], NOWHERE),
        ({0: 0, 1: 500}, [(0, 200, {0: 0})], OffsetAndEpoch(200, 0)),
        # After an unclean election: this log's epoch 0 ends at 150.
        ({0: 0, 1: 150, 2: 300}, [(0, 200, {0: 0})], OffsetAndEpoch(149, 0)),
        ({0: 0, 1: 150, 2: 300}, [(0, 150, {0: 0})], OffsetAndEpoch(149, 0)),
        ({0: 0, 1: 150, 2: 300}, [(0, 149, {0: 0})], OffsetAndEpoch(149, 0)),
        ({0: 0, 1: 500}, [(0, 499, {0: 0}), (500, 600, {1: 500})], OffsetAndEpoch(600, 1)),
        # What was copied of an epoch that this log has not is nothing of this log.
        ({0: 0, 2: 150}, [(0, 99, {0: 0}), (100, 200, {1: 100})], OffsetAndEpoch(99, 0)),
    ],
)
async def test_the_highest_remote_offset_is_one_that_the_log_has(
    epochs: dict[int, int], spans: Spans, expected: OffsetAndEpoch
) -> None:
    store = await store_with(spans)

    assert await find_highest_remote_offset(log_with(epochs), store) == expected


async def test_a_newest_epoch_that_was_copied_further_than_the_log_ends_is_cut() -> None:
    store = await store_with([(0, 200, {0: 0})])

    assert await find_highest_remote_offset(log_with({0: 0}, end=150), store) == (149, 0)


async def test_a_copy_that_has_not_finished_is_not_remote() -> None:
    store = await store_with([(0, 200, {0: 0})], is_finished=False)

    assert await find_highest_remote_offset(log_with({0: 0}), store) == NOWHERE


@pytest.mark.parametrize(
    ("local", "spans", "expected"),
    [
        (0, [(500, 539, {1: 500}), (540, 700, {1: 540, 2: 550})], 500),
        (250, [], 250),
        (700, [(600, 699, {2: 600})], 600),
    ],
)
async def test_the_log_starts_with_the_first_segment_of_its_first_remote_epoch(
    local: int, spans: Spans, expected: int
) -> None:
    store = await store_with(spans)
    log = log_with({0: 0, 1: 250, 2: 550}, local)

    assert await find_log_start_offset(log, store) == expected


async def test_the_log_starts_where_its_first_local_segment_may_be_read() -> None:
    log = log_with({0: 0}, local=100)
    await log.raise_log_start_offset(130)

    assert await find_log_start_offset(log, await store_with([])) == 130


async def test_who_cannot_answer_is_never_taken_for_an_empty_tier() -> None:
    store = await store_with([(0, 200, {0: 0})])
    for question in ("highest_offset_for_epoch", "list_remote_log_segments"):
        store.faults.fail_next(question, When.BEFORE, NotReady("catching up"))
    unknown = MemoryLog({0: 0}, 10)
    unknown.topic_id_partition = TopicIdPartition(Uuid(bytes(16)), 0, "other")

    with pytest.raises(NotReady):
        await find_highest_remote_offset(log_with({0: 0}), store)
    with pytest.raises(NotReady):
        await find_log_start_offset(log_with({0: 0}), store)
    with pytest.raises(RemoteResourceNotFound):
        await find_highest_remote_offset(unknown, store)
