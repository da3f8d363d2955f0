"""A retention run over a large partition without due segments, with a service on Ray."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.on_ray import on_ray
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led
from tierledger.benchmarks.workload import BROKER, OFFSETS_PER_SEGMENT, PARTITION, Workload
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.metrics.tier_metrics import TierMetrics
from tierledger.tiering.retention.expiration_task import ExpirationTask, Retention

SEGMENT_BYTES = 1 << 30
"""The size of each segment of the workload."""

RUNS = 20


async def measure(bench: Bench) -> list[Figure]:
    """Milliseconds of a run: by size, by time, and where only a list of segments tells."""
    count = bench.scale.tier_segments
    store = await bench.store(count)
    log = BenchedLog(PARTITION, _leader_epochs(count), count * OFFSETS_PER_SEGMENT + 10)
    size = (count + 1) * SEGMENT_BYTES
    kept = {
        "by size and time": Retention(retention_ms=1 << 45, retention_bytes=size),
        "by time": Retention(retention_ms=1 << 45),
    }
    figures = []
    async with on_ray(f"sqlite:{store}") as service, open_tier("memory:") as storage:
        manager = await service.manager(BROKER)
        await led(manager, [PARTITION])
        deletions = CountedDeletions(manager, storage, WallClock(), BROKER, TierMetrics())
        for name, retention in kept.items():
            bench.say(f"retention {name}")
            task = ExpirationTask(log, deletions, retention, frozenset)
            waited = []
            for _ in range(RUNS):
                begun = time.perf_counter()
                result = await task.run_once()
                waited.append((time.perf_counter() - begun) * 1e3)
                assert not result.deleted, "nothing is due"
            title = f"retention, SQLite: {count:,} segments, nothing due {name}"
            figures.append(median(title, waited, "ms", Goal(50)))
        begun = time.perf_counter()
        listed = [one async for one in manager.list_remote_log_segments(PARTITION)]
        took = (time.perf_counter() - begun) * 1e3
        assert len(listed) == count
        figures.append(
            Figure("retention, SQLite: the same partition listed whole, once", took, "ms")
        )
    return figures


def _leader_epochs(count: int) -> dict[int, int]:
    workload = Workload(count, Claim(0, 0, 0))
    found: dict[int, int] = {}
    for number in range(count):
        for epoch, start in workload.epochs_of(number).items():
            found.setdefault(epoch, start)
    return found


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
