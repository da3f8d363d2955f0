"""Segments that are legal and rare: no bytes, no producer snapshot, no timestamps."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.models.cli.command_line import invoke
from tests.models.storage.stored_partitions import TIP
from tests.models.tiering import tier_trace
from tests.models.tiering.copy_world import copy_task
from tests.models.tiering.damaged_tier import DamagedTier, TierSegments, payments
from tests.models.tiering.memory_metadata import MemoryLedger
from tests.models.tiering.odd_segments import OddSegment, write_odd_tier
from tests.models.tiering.raw_batches import fields, raw_batch
from tests.models.tiering.tier_trace import TieredSegment
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.producer_snapshot import format_producer_snapshot
from tierledger.tiering.layouts.tier_url import Layout, open_tier
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader
from tierledger.tiering.scrub.progress import Progress
from tierledger.tiering.scrub.scrubber import Scrubber

LAYOUTS = pytest.mark.parametrize("layout", list(Layout))
COMMITTED = IsolationLevel.READ_COMMITTED


def emptied(segment: TieredSegment) -> TieredSegment:
    """The segment as compaction may leave it: its offsets, and no record."""
    indexes = {
        **segment.indexes,
        IndexType.OFFSET: b"",
        IndexType.TIMESTAMP: b"",
        IndexType.PRODUCER_SNAPSHOT: format_producer_snapshot([]),
    }
    indexes.pop(IndexType.TRANSACTION, None)
    metadata = replace(segment.metadata, segment_size_in_bytes=0, txn_index_empty=True)
    return segment._replace(metadata=metadata, indexes=indexes, log=b"")


@LAYOUTS
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "second", "last"])
async def test_a_segment_of_no_bytes_is_read_past_and_nothing_is_wrong_with_it(
    layout: Layout, number: int, tmp_path: Path
) -> None:
    segments = list(tier_trace.segments_of("codec-none", 0))
    segments[number] = emptied(segments[number])
    empty = segments[number].metadata
    tier = await DamagedTier.written(layout, tmp_path, segments)
    end = segments[-1].metadata.end_offset + 1
    expected = [one for one in range(end) if not empty.start_offset <= one <= empty.end_offset]

    reader = await tier.reader()
    found = [one.offset async for one in reader.records()]
    behind = [one.offset async for one in reader.records(empty.start_offset + 1, COMMITTED)]

    assert found == expected
    assert behind == [one for one in expected if one > empty.start_offset]
    assert await reader.from_timestamp(0) == expected[0]
    assert await tier.audited() == {}
    progress = Progress({})
    async for _ in Scrubber(
        TierSegments(tier), tier.storage(), tier.names, progress, bytes_per_second=None
    ).run():
        pass
    assert (progress.segments, progress.findings, progress.unread) == (5, [], [])


async def test_our_own_copy_of_a_segment_of_no_bytes_is_read_past(tmp_path: Path) -> None:
    tip = next(one for one in tier_trace.topics() if one.topic == "codec-none")
    folder = tier_trace.local_log_directory(tmp_path, tip.topic, tip.partition)
    second = sorted(folder.glob("*.log"))[1]
    for suffix in (".log", ".index", ".timeindex"):
        second.with_suffix(suffix).write_bytes(b"")
    (tmp_path / "tier").mkdir()
    ledger, storage = MemoryLedger(), open_tier(f"dir:{tmp_path / 'tier'}")
    task = copy_task(await LogDirectory.open(folder, tip), ledger.store(tip), storage)

    assert (await task.run_once()).segments == 5
    reader = RemoteLogReader(ledger.store(tip), storage, tip)
    found = [one.offset async for one in reader.records()]

    empty = tier_trace.segments_of("codec-none", 0)[1].metadata
    assert found == [
        one for one in range(233) if not empty.start_offset <= one <= empty.end_offset
    ]


@pytest.mark.parametrize("missing", [[0], [-1], "all"], ids=str)
async def test_without_producer_snapshots_the_log_tells_what_is_committed(
    missing: list[int] | str, tmp_path: Path
) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, payments())
    right = [one async for one in (await tier.reader()).records(isolation=COMMITTED)]
    stable = await (await tier.reader()).end_offset(COMMITTED)
    segments = payments() if missing == "all" else [payments()[int(at)] for at in missing]

    for one in segments:
        name = f"{tier.names.expected(one.metadata).place}.snapshot"
        await tier.store.delete(Operation.DELETE, [name])
    reader = await tier.reader()

    assert [one async for one in reader.records(isolation=COMMITTED)] == right
    assert await reader.end_offset(COMMITTED) == stable


def test_the_commands_read_past_a_segment_of_no_bytes(tmp_path: Path) -> None:
    ten = [fields(at) for at in range(10)]
    timeless = raw_batch(20, ten, max_time=-1)
    segments = [
        OddSegment(0, 9, raw_batch(0, ten)),
        OddSegment(10, 19, b""),
        OddSegment(20, 29, timeless, {IndexType.TIMESTAMP: b""}),
    ]
    store, tier = asyncio.run(write_odd_tier(tmp_path, segments))
    asked = ["--store", store, "--tier", tier]

    read = invoke("cat", TIP.topic, TIP.partition, *asked, "--cache", tmp_path / "cache")
    scrub = invoke("scrub", *asked)
    audit = invoke("jobs", "audit", *asked, "--engine", "local")

    assert (read.exit_code, len(read.stdout.splitlines())) == (0, 20)
    assert (scrub.exit_code, audit.exit_code) == (0, 0), scrub.output + audit.output
