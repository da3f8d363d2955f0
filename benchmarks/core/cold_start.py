"""How soon a large partition serves after a start, and how much memory it takes.

Run as a program on a store, this module is the fresh process that is measured.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tierledger.benchmarks.ledger import open_for_reading, partition_reader
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench

SECONDS_MAX = 3.0
BYTES_PER_SEGMENT_MAX = 400

MEMORY_FILE = Path("/proc/self/status")
"""Where Linux lists a process's memory; elsewhere the figure is left out."""


class ColdStart(NamedTuple):
    """The result of one start in a fresh process."""

    seconds: float
    segments: int
    events_behind: int
    grown_bytes: int | None


async def measure(bench: Bench) -> list[Figure]:
    """Seconds until the state is whole and verified, and bytes per segment."""
    scale = bench.scale
    path = await bench.store(scale.segments)
    await leave_tail(bench)
    starts = [
        await asyncio.to_thread(in_fresh_process, path) for _ in bench.turns("cold start:")
    ]
    detail = f"{starts[0].segments:,} segments, {starts[0].events_behind:,} events behind"
    seconds = [start.seconds for start in starts]
    figures = [median("cold start", seconds, "s", Goal(SECONDS_MAX), detail)]
    grown = [start.grown_bytes for start in starts if start.grown_bytes is not None]
    if grown:
        each = statistics.median(grown) / starts[0].segments
        goal = Goal(BYTES_PER_SEGMENT_MAX)
        figures.append(Figure("cold start: memory per segment", each, "bytes", goal))
    return figures


async def leave_tail(bench: Bench) -> None:
    """Checkpoint the large partition, then leave events behind it."""
    ledger = await bench.ledger(bench.scale.segments)
    try:
        await ledger.checkpoint()
        await ledger.turn_over(bench.scale.tail)
    finally:
        await ledger.close()


def in_fresh_process(path: Path) -> ColdStart:
    """The result of one start, alone in its process."""
    done = subprocess.run(
        [sys.executable, "-m", "tierledger.benchmarks.core.cold_start", str(path)],
        check=True,
        stdout=subprocess.PIPE,
    )
    return ColdStart(*json.loads(done.stdout))


async def start(path: Path) -> ColdStart:
    """Load the partition in the store at `path`: checkpoint and tail, both verified."""
    before = resident_bytes()
    begun = time.perf_counter()
    reader = partition_reader(await open_for_reading(path))
    stored = await reader.checkpoints.read_partition()
    assert stored is not None, "the store was given a checkpoint"
    loaded = await reader.state()
    seconds = time.perf_counter() - begun
    after = resident_bytes()
    assert not reader.notes, "the checkpoint verified"
    await reader.backend.close()
    events_behind = loaded.state.next_position - stored[1].next_position
    grown = None if before is None or after is None else after - before
    return ColdStart(seconds, len(loaded.state.rows), events_behind, grown)


def resident_bytes() -> int | None:
    """The resident memory of this process in bytes; none where it is unknown."""
    if not MEMORY_FILE.exists():
        return None
    lines = MEMORY_FILE.read_text().splitlines()
    kibibytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kibibytes) * 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(start(Path(sys.argv[1])))))
