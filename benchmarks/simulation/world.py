"""How many calls a simulated world makes in a second of one core, with all of its checkers."""

import statistics
import time

from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.simulation.service.plan import calm
from tierledger.simulation.service.verdict import ran, verdict_of

CALLS_PER_S_MIN = 10_000.0


async def measure(bench: Bench) -> list[Figure]:
    """Calls per second of processor time, in a world without faults."""
    scale = bench.scale
    rates, shares = [], []
    for turn in bench.turns("world:"):
        begun = time.process_time()
        world = ran(calm(turn + 1, calls_max=scale.simulated))
        run = time.process_time()
        verdict = verdict_of(world)
        seconds = time.process_time() - begun
        world.loop.discard()
        assert not verdict.violations, verdict.violations
        rates.append(verdict.calls / seconds)
        shares.append((time.process_time() - run) / seconds)
    detail = f"{statistics.median(shares):.0%} of it checking"
    goal = Goal(CALLS_PER_S_MIN, at_least=True)
    return [median("world: simulated calls", rates, "calls/s", goal, detail)]
