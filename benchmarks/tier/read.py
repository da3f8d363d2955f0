"""A sequential read of a log that a copy task has put into a directory."""

import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led, new_partition, served
from tierledger.benchmarks.tier.logs import WrittenLog, write_log
from tierledger.benchmarks.workload import BROKER
from tierledger.events.identifiers import Uuid
from tierledger.tiering.copying.task import CopyTask
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.metrics.tier_metrics import TierMetrics
from tierledger.tiering.reader.reader import RemoteLogReader

SEGMENTS = 8
MIB = 1 << 20
TIP = new_partition("tiered")


async def measure(bench: Bench) -> list[Figure]:
    """MiB of the log, and of its records' values, per second and core."""
    folder = bench.new_store("tier-read").with_suffix("")
    bench.say("tier: writing and copying a log")
    written = write_log(folder / "tiered-0", SEGMENTS, bench.scale.tier_bytes // SEGMENTS)
    raw, decoded = [], []
    async with copied(folder, written) as (reader, copy_seconds):
        for _ in bench.turns("tier: reading"):
            begun = time.process_time()
            size = 0
            async for batch in reader().batches():
                size += len(batch.data)
            raw.append(size / MIB / (time.process_time() - begun))
            assert size == written.size_in_bytes, "all of it was read"
            begun = time.process_time()
            size = 0
            async for record in reader().records():
                size += len(record.value or b"")
            decoded.append(size / MIB / (time.process_time() - begun))
            assert size == written.value_bytes, "all of it was read"
    what = f"{written.size_in_bytes / MIB:,.0f} MiB of log, {written.records:,} records"
    copy = written.size_in_bytes / MIB / copy_seconds
    return [
        Figure("tier: copied by the copy task, directory", copy, "MiB/s", None, what),
        median("tier: sequential read, raw", raw, "MiB/s", Goal(300, at_least=True)),
        median(
            "tier: the same decoded, values of 1 KiB",
            decoded,
            "MiB/s",
            Goal(100, at_least=True),
        ),
    ]


@asynccontextmanager
async def copied(
    folder: Path, written: WrittenLog
) -> AsyncIterator[tuple[Callable[[], RemoteLogReader], float]]:
    """A function that opens readers of the log in the tier, and the seconds of the copying."""
    numbers = itertools.count(1)
    tier = folder / "tier"
    tier.mkdir()
    async with (
        served(folder / "ledger.sqlite") as manager,
        open_tier(f"dir:{tier}") as storage,
    ):
        await led(manager, [TIP])
        log = await LogDirectory.open(folder / "tiered-0", TIP)
        deletions = CountedDeletions(manager, storage, WallClock(), BROKER, TierMetrics())
        task = CopyTask(
            log, storage, deletions, lambda: Uuid(next(numbers).to_bytes(16, "big"))
        )
        begun = time.perf_counter()
        done = await task.run_once()
        took = time.perf_counter() - begun
        assert done.segments == written.segments, "all of it was copied"
        yield lambda: RemoteLogReader(manager, storage, TIP), took
