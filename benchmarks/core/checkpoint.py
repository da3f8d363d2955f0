"""Whether a checkpoint costs as much as its changes, or as the whole partition."""

import statistics
import time

from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.report import Figure, Sided, ratio
from tierledger.benchmarks.scale import Bench

RATIO_MAX = 3.0


async def measure(bench: Bench) -> list[Figure]:
    """Cost of a checkpoint after the same changes, in a large and in a smaller partition."""
    scale = bench.scale
    sizes = (scale.segments, scale.medium)
    ledgers = [await bench.ledger(segments) for segments in sizes]
    taken: dict[int, list[float]] = {segments: [] for segments in sizes}
    try:
        for ledger in ledgers:
            await ledger.checkpoint()
        for _ in bench.turns("checkpoint:"):
            for segments, ledger in zip(sizes, ledgers, strict=True):
                await ledger.turn_over(scale.tail)
                taken[segments].append(await timed(ledger))
    finally:
        for ledger in ledgers:
            await ledger.close()
    large, small = (
        Sided(segments, statistics.median(taken[segments]), "ms") for segments in sizes
    )
    name = f"checkpoint after {scale.tail:,} changes, large to smaller"
    return [ratio(name, large, small, RATIO_MAX)]


async def timed(ledger: Ledger) -> float:
    """Milliseconds to plan a checkpoint and make it durable."""
    begun = time.perf_counter()
    await ledger.checkpoint()
    return (time.perf_counter() - begun) * 1e3
