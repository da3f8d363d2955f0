"""Whether commits cost more in a large partition: deciding, encoding, storing, applying."""

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.report import Figure, Sided, ratio
from tierledger.benchmarks.scale import Bench
from tierledger.events.commands import Command

RATIO_MAX = 1.5

KINDS = ("add", "finish", "delete at the head", "overlap in the middle")


class Cost(NamedTuple):
    """Microseconds of one commit, with and without the step that makes it durable."""

    whole: float
    rules: float


async def measure(bench: Bench) -> list[Figure]:
    """For each kind of commit the cost in the large partition relative to the small one."""
    scale = bench.scale
    sizes = (scale.segments, scale.small)
    costs: dict[tuple[str, int], list[Cost]] = {
        (kind, segments): [] for kind in KINDS for segments in sizes
    }
    ledgers = [await bench.ledger(segments) for segments in sizes]
    bench.say(f"commit: {scale.commits} of each kind and size")
    try:
        for turn in range(scale.commits):  # In turns, so that both use the same disk.
            for segments, ledger in zip(sizes, ledgers, strict=True):
                for kind, commands in zip(KINDS, commits(ledger, turn), strict=True):
                    costs[kind, segments].append(await timed(ledger, commands))
    finally:
        for ledger in ledgers:
            await ledger.close()
    return [figure for kind in KINDS for figure in _figures(kind, *sizes, costs)]


def _figures(
    kind: str, large: int, small: int, costs: dict[tuple[str, int], list[Cost]]
) -> list[Figure]:
    def side(segments: int, field: int) -> Sided:
        return Sided(
            segments, statistics.median(cost[field] for cost in costs[kind, segments]), "µs"
        )

    return [
        ratio(f"commit: {kind}, large to small", side(large, 0), side(small, 0), RATIO_MAX),
        ratio(f"commit: {kind}, all but the store", side(large, 1), side(small, 1), None),
    ]


def commits(ledger: Ledger, turn: int) -> list[Sequence[Command]]:
    """One commit of each kind; they do not change the partition's size, but for overlaps."""
    workload, head, tail = ledger.workload, ledger.head, ledger.tail
    middle = (head + tail) // 2 + turn
    return [
        [workload.add(tail)],
        [workload.finish(tail)],
        workload.delete(head),
        [workload.add_overlapping(middle), workload.finish_overlapping(middle)],
    ]


async def timed(ledger: Ledger, commands: Sequence[Command]) -> Cost:
    """Commit `commands`; returns the cost."""
    begun = time.perf_counter()
    events, encoded = ledger.prepared(commands)
    prepared = time.perf_counter()
    await ledger.store(encoded)
    stored = time.perf_counter()
    ledger.apply(events, encoded)
    applied = time.perf_counter()
    return Cost((applied - begun) * 1e6, (prepared - begun + applied - stored) * 1e6)
