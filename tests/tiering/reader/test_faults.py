"""Missing, damaged or deleted objects of a tier: an error names each."""

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.models.tiering.read_tier import read, reader, three_segments
from tests.models.tiering.written_log import TIP, WrittenLog, WrittenTier, encoded
from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RejectedError,
    RemoteResourceNotFound,
)
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_files import OFFSET_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader

COMMITTED = IsolationLevel.READ_COMMITTED


@contextmanager
def changed(tier: WrittenTier, segment: RemoteLogSegmentMetadata) -> Iterator[bytearray]:
    """The segment's log, for the tier to hold it as the block leaves it."""
    segment_id = segment.remote_log_segment_id.id
    log = bytearray(tier.storage.logs[segment_id])
    yield log
    tier.storage.logs[segment_id] = bytes(log)


async def test_a_hole_is_an_error_after_all_that_lies_before_it() -> None:
    tier, segments = await three_segments()
    await tier.delete(segments[1])

    found, error = await read(tier)

    assert found == list(range(10))
    assert isinstance(error, RemoteResourceNotFound)
    assert str(TIP) in str(error)
    assert "offset 10 of leader epoch 4" in str(error)


async def test_below_the_earliest_segment_the_error_says_what_there_is() -> None:
    tier, segments = await three_segments()
    await tier.delete(segments[0])

    for offset in (0, 9):
        _, error = await read(tier, offset)

        assert isinstance(error, InvalidArgument)
        assert f"offset {offset} is not in the tier, which holds 10 to 29" in str(error)
    assert await read(tier) == (list(range(10, 30)), None)
    assert await reader(tier).earliest_offset() == 10


async def test_the_tiers_end_is_an_end_and_behind_it_is_an_error() -> None:
    tier, _ = await three_segments()

    assert await read(tier, 30) == ([], None)
    _, error = await read(tier, 31)
    assert isinstance(error, InvalidArgument)
    assert "31 is not in the tier, which holds 0 to 29" in str(error)


async def test_an_empty_tier_ends_at_once_but_holds_no_offset() -> None:
    tier, log = WrittenTier(), WrittenLog()
    assert await read(tier) == ([], None)
    log.append(3)
    await tier.copy(log, 0, 3, finish=False)

    assert await read(tier) == ([], None)
    assert await reader(tier).from_timestamp(0) is None
    assert await reader(tier).end_offset() is None
    _, error = await read(tier, 0)
    assert isinstance(error, InvalidArgument)


async def test_the_log_start_that_the_newest_segment_knows_is_the_beginning() -> None:
    tier, log = WrittenTier(), WrittenLog()
    log.fill(6, 2)
    await tier.copy(log, 0, 6)
    log.epochs = {0: 3}  # DeleteRecords moved the log's start into the first segment.
    await tier.copy(log, 6, 12)

    assert await read(tier) == (list(range(3, 12)), None)
    assert await reader(tier).from_timestamp(0) == 3
    _, error = await read(tier, 2)
    assert isinstance(error, InvalidArgument)


async def test_the_newest_segment_may_be_gone_and_the_one_before_it_leads() -> None:
    tier, segments = await three_segments()
    await tier.delete(segments[2])

    assert await read(tier) == (list(range(20)), None)


async def test_missing_data_is_an_error_after_all_that_lies_before_it() -> None:
    tier, segments = await three_segments()
    del tier.storage.logs[segments[1].remote_log_segment_id.id]

    found, error = await read(tier)

    assert found == list(range(10))
    assert isinstance(error, RemoteResourceNotFound)
    assert str(segments[1].remote_log_segment_id) in str(error)


async def test_a_segment_that_is_replaced_while_it_is_read_is_read_on_in_the_other() -> None:
    tier, log = WrittenTier(piece_bytes=200), WrittenLog()
    log.fill(10, 2)
    first = await tier.copy(log, 0, 12)
    gate = tier.storage.gate = asyncio.Event()
    found = []

    async for record in reader(tier).records():
        found += [record.offset]
        if record.offset == 3:
            # Another leader copied the same again; the first copy is superseded, and goes.
            await tier.copy(log, 0, 20)
            await tier.delete(first)
            gate.set()

    assert tier.requests("log") == 2
    assert found == list(range(12)), "up to the tier's end as it was at the beginning"


@pytest.mark.parametrize("at", [8, 12, 17, 60, 150])
async def test_damage_is_told_with_the_segment_after_all_that_lies_before_it(at: int) -> None:
    tier, segments = await three_segments()
    with changed(tier, segments[1]) as log:
        log[at] ^= 0x10

    found, error = await read(tier)

    assert isinstance(error, CorruptRemoteData)
    assert str(segments[1].remote_log_segment_id) in str(error)
    assert found == list(range(len(found)))
    assert len(found) >= 10


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("bit", [0, 1, 2, 3, 8, 40, 62, 63])
async def test_a_damaged_offset_gives_no_record_another_offset(number: int, bit: int) -> None:
    tier, segments = await three_segments()
    with changed(tier, segments[1]) as log:
        at = sum(len(one.data) for one in tier.copied[1][1].batches[5 : 5 + number])
        log[at + 7 - bit // 8] ^= 1 << bit % 8  # No checksum covers it.

    for start in range(20):
        error = None
        records = reader(tier).records(start)
        try:
            async for record in records:
                assert record.value == b"value-%d" % record.offset, f"from {start}"
        except CorruptRemoteData as found:
            error = found
        if start <= 10 + 2 * number:
            assert error is not None
            assert str(segments[1].remote_log_segment_id) in str(error)


@pytest.mark.parametrize("cut", [1, 40, 200, "a batch"])
async def test_a_truncated_log_is_told(cut: int | str) -> None:
    tier, segments = await three_segments()
    lost = cut if isinstance(cut, int) else len(tier.copied[2][1].batches[-1].data)
    with changed(tier, segments[2]) as log:
        del log[-lost:]

    found, error = await read(tier)

    assert found[:26] == list(range(26))
    assert cut != "a batch" or found == list(range(28))
    assert isinstance(error, CorruptRemoteData)
    assert str(segments[2].remote_log_segment_id) in str(error)


async def test_another_segments_log_is_told() -> None:
    tier, segments = await three_segments()
    logs = tier.storage.logs
    ids = [one.remote_log_segment_id.id for one in segments]
    logs[ids[1]] = logs[ids[2]]

    found, error = await read(tier)

    assert found == list(range(10))
    assert isinstance(error, CorruptRemoteData)
    assert "expected a batch within 10 to 19, got one from 20 to 21" in str(error)


async def test_an_index_that_leads_too_far_is_told_not_followed() -> None:
    tier, segments = await three_segments()
    segment_id = segments[1].remote_log_segment_id.id
    position = sum(len(one.data) for one in tier.copied[1][1].batches[5:8])
    tier.storage.indexes[segment_id][IndexType.OFFSET] = OFFSET_ENTRY.pack(3, position)

    found, error = await read(tier, 14)

    assert found == []
    assert isinstance(error, CorruptRemoteData)
    assert "lead to 14 or before, got 16" in str(error)


async def test_a_kept_index_that_leads_astray_is_fetched_anew(tmp_path: Path) -> None:
    tier, segments = await three_segments()
    indexes = tier.storage.indexes[segments[1].remote_log_segment_id.id]
    right = indexes[IndexType.OFFSET]
    within_a_batch = len(tier.copied[1][1].batches[5].data) + 1
    async with RemoteIndexCache(tmp_path, tier.storage) as cache:
        indexes[IndexType.OFFSET] = OFFSET_ENTRY.pack(3, within_a_batch)
        await cache.get(segments[1])
        indexes[IndexType.OFFSET] = right
        one = RemoteLogReader(tier.metadata, tier.storage, TIP, cache)

        assert [record.offset async for record in one.records(14)] == list(range(14, 30))
        assert (cache.counts.distrusted, cache.counts.loads) == (1, 2)
        assert [record.offset async for record in one.records(15)] == list(range(15, 30))
        assert (cache.counts.distrusted, cache.counts.loads) == (1, 2)


async def test_a_log_that_is_damaged_behind_a_position_is_tried_once_more() -> None:
    tier, segments = await three_segments()
    segment_id = segments[1].remote_log_segment_id.id
    with changed(tier, segments[1]) as log:
        log[-1] ^= 1

    found, error = await read(tier, 14)

    assert found == [14, 15, 16, 17]
    assert isinstance(error, CorruptRemoteData)
    assert tier.storage.requests.count(("OFFSET", segment_id)) == 2
    assert tier.storage.requests.count(("log", segment_id)) == 2


@pytest.mark.parametrize(
    ("number", "changes", "error", "message"),
    [
        # The checksum covers neither the epoch nor the format.
        (1, {15: 3}, CorruptRemoteData, "expected leader epoch 4 for offset 10, got 3"),
        (2, {16: 0}, CorruptRemoteData, "expected message format 2, got 0"),
        # An older format has other fields behind its number.
        (2, {16: 1, 17: 1}, RejectedError, "messages of format 1 are not read"),
    ],
)
async def test_a_wrong_header_is_told_after_all_that_lies_before_it(
    number: int, changes: dict[int, int], error: type[Exception], message: str
) -> None:
    tier, segments = await three_segments()
    with changed(tier, segments[number]) as log:
        for at, byte in changes.items():
            log[at] = byte

    found, caught = await read(tier)

    assert found == list(range(10 * number))
    assert isinstance(caught, error)
    assert message in str(caught)


async def test_a_batch_that_nobody_stamped_is_read() -> None:
    tier, segments = await three_segments()
    with changed(tier, segments[1]) as log:
        struct.pack_into(">i", log, 12, -1)

    assert await read(tier) == (list(range(30)), None)


@pytest.mark.parametrize("epochs", [{}, {0: 0}, {0: 0, 5: 10}], ids=["none", "old", "other"])
async def test_a_leader_epoch_index_of_another_segment_is_told(epochs: dict[int, int]) -> None:
    tier, segments = await three_segments()
    indexes = tier.storage.indexes[segments[2].remote_log_segment_id.id]
    indexes[IndexType.LEADER_EPOCH] = format_leader_epochs(epochs)

    found, error = await read(tier)

    assert found == []
    assert isinstance(error, CorruptRemoteData)
    assert f"leader-epoch index of {segments[2].remote_log_segment_id}" in str(error)


async def test_offsets_that_compaction_took_are_no_hole() -> None:
    tier, log = WrittenTier(), WrittenLog()
    log.append(10)
    log.append(10)
    whole = log.batches[0]
    records = [(1, b"k", b"v")] * 3
    gaps = encoded(0, 0, records, deltas=(1, 4, 9))
    log.batches[0] = whole._replace(data=gaps)
    await tier.copy(log, 0, 20)

    assert await read(tier) == ([1, 4, 9, *range(10, 20)], None)
    assert await read(tier, 5) == ([9, *range(10, 20)], None)


async def test_nor_are_whole_batches_at_a_segments_end_or_where_a_lineage_parts() -> None:
    tier, log = WrittenTier(), WrittenLog()
    log.fill(4, 5)
    compacted = log.copy()
    del compacted.batches[1]
    await tier.copy(compacted, 0, 20)
    log.elect(3, 10)
    log.fill(3, 5)
    del log.batches[-1]
    await tier.copy(log, 10, 25)

    assert await read(tier) == ([*range(5), *range(10, 20)], None)
    assert await read(tier, 7) == (list(range(10, 20)), None)
    assert await read(tier, 22) == ([], None)
