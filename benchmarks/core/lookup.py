"""The cost of a read on a loaded state: a lookup, and a size, which must not grow."""

import statistics
import time
from random import Random

from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.report import Figure, Goal, Sided, median, ratio
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.workload import LEADER_EPOCHS, OFFSETS_PER_SEGMENT
from tierledger.events.partition import answers

LOOKUP_US_MAX = 5.0
SIZE_RATIO_MAX = 1.5
SEED = 20261121


async def measure(bench: Bench) -> list[Figure]:
    """Microseconds of a lookup, and how the cost of a size grows with the partition."""
    scale = bench.scale
    lookups: list[float] = []
    sizes: dict[int, list[float]] = {}
    for segments in (scale.segments, scale.small):
        ledger = await bench.ledger(segments)
        bench.say(f"lookup: {segments:,} segments")
        try:
            if segments == scale.segments:
                places = random_places(ledger, scale.lookups)
                looked_up(ledger, places)  # Unpacks the pages, as first reads do.
                lookups = [looked_up(ledger, places) for _ in range(scale.repetitions)]
            sizes[segments] = [sized(ledger, scale.lookups) for _ in range(scale.repetitions)]
        finally:
            await ledger.close()
    large, small = (
        Sided(segments, statistics.median(taken), "µs") for segments, taken in sizes.items()
    )
    detail = f"random offsets of {scale.segments:,} segments"
    return [
        median("lookup", lookups, "µs", Goal(LOOKUP_US_MAX), detail),
        ratio("remote_log_size, large to small", large, small, SIZE_RATIO_MAX),
    ]


def random_places(ledger: Ledger, count: int) -> list[tuple[int, int]]:
    """Leader epochs and offsets, each held by some segment."""
    random = Random(SEED)
    first, end = ledger.head * OFFSETS_PER_SEGMENT, ledger.tail * OFFSETS_PER_SEGMENT
    offsets = (random.randrange(first, end) for _ in range(count))
    return [(ledger.workload.epoch_at(offset), offset) for offset in offsets]


def looked_up(ledger: Ledger, places: list[tuple[int, int]]) -> float:
    """Microseconds per lookup."""
    state, lookup = ledger.state, answers.lookup
    begun = time.process_time()
    found = [lookup(state, epoch, offset) for epoch, offset in places]
    taken = time.process_time() - begun
    assert None not in found, "some segment holds each offset"
    return taken / len(places) * 1e6


def sized(ledger: Ledger, count: int) -> float:
    """Microseconds per size, over all leader epochs in turn."""
    state, size = ledger.state, answers.remote_log_size
    rounds = count // LEADER_EPOCHS
    epochs = sorted(state.epochs)
    begun = time.process_time()
    for _ in range(rounds):
        for epoch in epochs:
            size(state, epoch)
    return (time.process_time() - begun) / (rounds * len(epochs)) * 1e6
