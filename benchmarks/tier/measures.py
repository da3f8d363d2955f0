"""The remote tier: reading, scrubbing, retention, and the index cache."""

import itertools
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.services import led, new_partition, on_ray, served, unclaimed
from tierledger.benchmarks.tier.logs import WrittenLog, write_log
from tierledger.benchmarks.workload import BROKER, OFFSETS_PER_SEGMENT, PARTITION
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.events.errors import RejectedError, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.copying.task import CopyTask
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.layouts.listed_objects import names_of
from tierledger.tiering.layouts.read_only_storage import ReadOnlyStorageManager
from tierledger.tiering.layouts.tier_url import Layout, open_tier
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.metrics.tier_metrics import TierMetrics
from tierledger.tiering.reader.reader import RemoteLogReader
from tierledger.tiering.retention.expiration_task import ExpirationTask, Retention
from tierledger.tiering.scrub.progress import Progress
from tierledger.tiering.scrub.scrubber import Scrubber
from tierledger.tiering.scrub.segment_source import CatalogSegments

SEGMENTS = 8
MIB = 1 << 20
TIP = new_partition("tiered")

SEGMENT_BYTES = 1 << 30
"""The size of each segment of the workload."""

RUNS = 20
HITS = 50_000
ENTRIES_PER_INDEX = 1_000


async def read(bench: Bench) -> None:
    """MiB of the log, and of its records' values, per second and core."""
    folder = bench.new_store("tier-read").with_suffix("")
    async with copied(bench, folder) as (written, reader):
        for _ in bench.turns("tier: reading"):
            with bench.rated("raw", written.size_in_bytes / MIB, time.process_time):
                size = sum([len(batch.data) async for batch in reader().batches()])
            assert size == written.size_in_bytes, "all of it was read"
            with bench.rated("decoded", written.value_bytes / MIB, time.process_time):
                size = sum([len(one.value or b"") async for one in reader().records()])
            assert size == written.value_bytes, "all of it was read"


async def scrub(bench: Bench) -> None:
    """MiB of the tier per second, every byte and batch, in a process that does nothing else."""
    folder = bench.new_store("tier-scrub").with_suffix("")
    async with copied(bench, folder) as (written, _):
        pass
    options = StoreOptions(url_of(folder / "ledger.sqlite"))
    async with opened_catalog(options) as catalog:
        partitions = await chosen_partitions(catalog, None, None)
        for _ in bench.turns("tier: scrubbing"):
            progress = Progress({})
            async with open_tier(f"dir:{folder / 'tier'}") as storage:
                scrubber = Scrubber(
                    CatalogSegments(catalog, partitions),
                    storage,
                    names_of(Layout.LEDGER, ""),
                    progress,
                    bytes_per_second=None,
                )
                begun = time.perf_counter()
                async for _ in scrubber.run():
                    pass
                seconds = time.perf_counter() - begun
            bench.note(scrubbed=progress.bytes / MIB / seconds)
            assert progress.segments == written.segments, "all of it was read"
            assert not progress.findings, "nothing is damaged"


@asynccontextmanager
async def copied(
    bench: Bench, folder: Path
) -> AsyncIterator[tuple[WrittenLog, Callable[[], RemoteLogReader]]]:
    """A log that a copy task has put into a directory, and a function that opens readers."""
    bench.say("tier: writing and copying a log")
    written = write_log(folder / "tiered-0", SEGMENTS, bench["tier_bytes"] // SEGMENTS)
    bench.note(mib=written.size_in_bytes / MIB, records=written.records)
    numbers = itertools.count(1)
    tier = folder / "tier"
    tier.mkdir()
    async with (
        served(folder / "ledger.sqlite") as (_, manager),
        open_tier(f"dir:{tier}") as storage,
    ):
        await led(manager, [TIP])
        log = await LogDirectory.open(folder / "tiered-0", TIP)
        deletions = CountedDeletions(manager, storage, WallClock(), BROKER, TierMetrics())
        task = CopyTask(
            log, storage, deletions, lambda: Uuid(next(numbers).to_bytes(16, "big"))
        )
        with bench.rated("copied", written.size_in_bytes / MIB):
            done = await task.run_once()
        assert done.segments == written.segments, "all of it was copied"
        yield written, lambda: RemoteLogReader(manager, storage, TIP)


async def retention(bench: Bench) -> None:
    """Milliseconds of a run in which nothing is due, against a service on Ray."""
    count = bench["tier_segments"]
    store = await bench.store(count)
    starts: dict[int, int] = {}
    [workload] = unclaimed([PARTITION], count)
    for epochs in map(workload.epochs_of, range(count)):
        starts = epochs | starts
    log = BenchedLog(PARTITION, starts, count * OFFSETS_PER_SEGMENT + 10)
    size = (count + 1) * SEGMENT_BYTES
    kept = {
        "by_size_and_time": Retention(retention_ms=1 << 45, retention_bytes=size),
        "by_time": Retention(retention_ms=1 << 45),
    }
    async with on_ray(url_of(store)) as service, open_tier("memory:") as storage:
        manager = await service.manager(BROKER)
        await led(manager, [PARTITION])
        deletions = CountedDeletions(manager, storage, WallClock(), BROKER, TierMetrics())
        for name, retention in kept.items():
            bench.say(f"retention {name}")
            task = ExpirationTask(log, deletions, retention, frozenset)
            for _ in range(RUNS):
                with bench.timed(name, 1e3):
                    result = await task.run_once()
                assert not result.deleted, "nothing is due"
        with bench.timed("listed", 1e3):
            listed = [one async for one in manager.list_remote_log_segments(PARTITION)]
        assert len(listed) == count


@dataclass
class BenchedLog:
    """A local log of which all but the active segment is in the tier."""

    topic_id_partition: TopicIdPartition
    leader_epochs: Mapping[int, int]
    log_end_offset: int
    log_start_offset: int = 0

    @property
    def last_stable_offset(self) -> int:
        return self.log_end_offset

    @property
    def highest_offset_in_remote_storage(self) -> int:
        return self.log_end_offset - 11

    def segments(self) -> Sequence[LocalSegment]:
        end = self.log_end_offset
        return [LocalSegment(end - 10, end, 1000, 0, Path(f"{end - 10:020}.log"))]

    async def raise_highest_offset_in_remote_storage(self, offset: int) -> None:
        raise AssertionError(f"nothing is copied, and yet up to {offset}")

    async def raise_log_start_offset(self, offset: int) -> None:
        raise AssertionError(f"nothing is due, and yet up to {offset}")

    async def restart_at(
        self,
        offset: int,
        leader_epochs: Mapping[int, int],
        producer_snapshot: bytes,
        start: int,
    ) -> None:
        epochs, size = len(leader_epochs), len(producer_snapshot)
        raise AssertionError(f"a leader never restarts at {offset}: {start}, {epochs}, {size}")


async def index_cache(bench: Bench) -> None:
    """Microseconds of a hit; seconds of a start with the files of an earlier run."""
    [workload] = unclaimed([PARTITION], bench["tier_entries"])
    segments = [workload.add(number).metadata for number in range(bench["tier_entries"])]
    folder = bench.new_store("index-cache").with_suffix("")
    storage = SameIndexes()
    bench.say(f"index cache: loading {len(segments):,} segments")
    async with RemoteIndexCache(folder, storage) as cache:
        for segment in segments:
            await cache.get(segment)
        with bench.timed("hit", 1e6 / HITS):
            for number in range(HITS):
                await cache.lookup_offset(segments[0], number % OFFSETS_PER_SEGMENT)
    loaded = storage.requests
    for _ in bench.turns("index cache: restart"):
        begun = time.perf_counter()
        async with RemoteIndexCache(folder, storage) as cache:
            bench.note(restart=time.perf_counter() - begun)
            for segment in segments[:100]:
                await cache.get(segment)
    assert storage.requests == loaded, "a restart asks for nothing"


class SameIndexes(ReadOnlyStorageManager):
    """A tier with the same indexes for every segment, and no logs."""

    layout = "a measurement"

    def __init__(self) -> None:
        numbers = range(1, ENTRIES_PER_INDEX)
        self._indexes = {
            IndexType.OFFSET: b"".join(struct.pack(">ii", one, one * 4096) for one in numbers),
            IndexType.TIMESTAMP: b"".join(struct.pack(">qi", one, one) for one in numbers),
        }
        self.requests = 0

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        self.requests += 1
        try:
            return self._indexes[index_type]
        except KeyError:
            raise RemoteResourceNotFound(f"no {index_type.name} of any segment") from None

    @override
    def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        raise RejectedError("there are no logs here")
