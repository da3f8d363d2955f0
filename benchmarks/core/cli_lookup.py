"""How long `tierledger lookup` takes on a large partition when no service runs."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tierledger.benchmarks.core.cold_start import leave_tail
from tierledger.benchmarks.ledger import store_settings
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.workload import CLUSTER, OFFSETS_PER_SEGMENT, PARTITION, Workload
from tierledger.events.commands import Claim

SECONDS_MAX = 0.5

NOTHING = ("-c", "pass")
COMMAND = ("-m", "tierledger.cli.main")


async def measure(bench: Bench) -> list[Figure]:
    """Seconds of the whole process, and of a process that does nothing."""
    scale = bench.scale
    path = await bench.store(scale.segments)
    await leave_tail(bench)
    workload = Workload(scale.segments, Claim(0, 0, 0))
    taken, idle = [], []
    for turn in bench.turns("command line:"):
        offset = (scale.segments // 2 + 1000 * turn) * OFFSETS_PER_SEGMENT
        arguments = lookup_arguments(path, workload.epoch_at(offset), offset)
        taken.append(await asyncio.to_thread(timed, [*COMMAND, *arguments]))
        idle.append(await asyncio.to_thread(timed, NOTHING))
    detail = f"{scale.segments:,} segments, {scale.tail:,} events behind the checkpoint"
    return [
        median("tierledger lookup, a new process", taken, "s", Goal(SECONDS_MAX), detail),
        median("a Python process that does nothing", idle, "s"),
    ]


def lookup_arguments(path: Path, epoch: int, offset: int) -> list[str]:
    where = [PARTITION.topic, str(PARTITION.partition), str(epoch), str(offset)]
    (store,) = store_settings(path).values()
    return ["lookup", *where, "--store", store, "--cluster", CLUSTER]


def timed(arguments: Sequence[str]) -> float:
    """Seconds that Python takes with `arguments`, which must succeed."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun
