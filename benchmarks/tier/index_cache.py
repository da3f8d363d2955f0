"""The index cache: a hit, and a restart with many entries."""

import struct
import time
from collections.abc import AsyncIterator

from typing_extensions import override

from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.workload import OFFSETS_PER_SEGMENT, Workload
from tierledger.events.commands import Claim
from tierledger.events.errors import RejectedError, RemoteResourceNotFound
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.layouts.read_only_storage import ReadOnlyStorageManager

LOOKUPS = 50_000
ENTRIES_PER_INDEX = 1_000


async def measure(bench: Bench) -> list[Figure]:
    """Microseconds of a hit; seconds of a start with the files of an earlier run."""
    count = bench.scale.tier_entries
    workload = Workload(count, Claim(0, 0, 0))
    segments = [workload.add(number).metadata for number in range(count)]
    folder = bench.new_store("index-cache").with_suffix("")
    storage = SameIndexes()
    bench.say(f"index cache: loading {count:,} segments")
    async with RemoteIndexCache(folder, storage) as cache:
        for segment in segments:
            await cache.get(segment)
        hit = await _hit(cache, segments[0])
    loaded = storage.requests
    starts = []
    for _ in range(bench.scale.repetitions):
        begun = time.perf_counter()
        async with RemoteIndexCache(folder, storage) as cache:
            starts.append(time.perf_counter() - begun)
            for segment in segments[:100]:
                await cache.get(segment)
    assert storage.requests == loaded, "a restart asks for nothing"
    return [
        Figure("index cache: offset lookup, hit", hit, "µs", Goal(20)),
        median(f"index cache: restart with {count:,} entries", starts, "s", Goal(2)),
    ]


async def _hit(cache: RemoteIndexCache, segment: RemoteLogSegmentMetadata) -> float:
    first = segment.start_offset
    begun = time.perf_counter()
    for number in range(LOOKUPS):
        await cache.lookup_offset(segment, first + number % OFFSETS_PER_SEGMENT)
    return (time.perf_counter() - begun) / LOOKUPS * 1e6


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
