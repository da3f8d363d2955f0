"""How many worlds of state machines one core runs in a second, with all of their checkers."""

import gc
import statistics
import time

from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.simulation.checkers.verdict import Verdict
from tierledger.simulation.machines.scenario.drawing import drawn
from tierledger.simulation.machines.verdict import judge

SMALL_PER_S_MIN = 250.0
LARGE_PER_S_MIN = 80.0
SIMULATED_MIN = 1000.0
"""Seconds of virtual time per second of the processor's."""

SMALL_PER_LARGE = 5
"""About how many times as long a large world takes."""


async def measure(bench: Bench) -> list[Figure]:
    """Small worlds and large ones, from drawing the seed to the verdict."""
    figures = []
    for name, small, goal in (
        ("small", True, SMALL_PER_S_MIN),
        ("large", False, LARGE_PER_S_MIN),
    ):
        seeds = bench.scale.worlds * (SMALL_PER_LARGE if small else 1)
        rates, ratios = [], []
        verdicts: list[Verdict] = []
        gc.collect()
        gc.freeze()  # As campaigns do: skips older objects.
        for turn in bench.turns(f"machines: {name},"):
            begun = time.process_time()
            verdicts = [
                judge(drawn(seed, small=small))
                for seed in range(turn * seeds, (turn + 1) * seeds)
            ]
            seconds = time.process_time() - begun
            rates.append(seeds / seconds)
            ratios.append(sum(one.virtual_s for one in verdicts) / seconds)
        calls = statistics.median(one.calls for one in verdicts)
        changes = statistics.median(one.changes for one in verdicts)
        detail = f"median of {calls:.0f} calls, {changes:.0f} leadership changes"
        figures += [
            median(
                f"machines: {name} worlds", rates, "seeds/s",
                Goal(goal, at_least=True), detail,
            ),
            median(
                f"machines: {name}, virtual to real time", ratios, ": 1",
                Goal(SIMULATED_MIN, at_least=True),
            ),
        ]  # fmt: skip
    return figures
