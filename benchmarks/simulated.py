"""How fast the simulator is, with all of its checkers."""

import gc
import statistics
import time

from tierledger.benchmarks.bench import Bench
from tierledger.simulation.service.plan import calm, drawn
from tierledger.simulation.service.verdict import judge, ran, verdict_of

SMALL_PER_LARGE = 5
"""About how many times as long a large world takes."""


async def world(bench: Bench) -> None:
    """Calls per second of processor time, in a world of the service without faults."""
    for turn in bench.turns("world"):
        begun = time.process_time()
        world = ran(calm(turn + 1, calls=bench["simulated"]))
        run = time.process_time()
        verdict = verdict_of(world)
        seconds = time.process_time() - begun
        checking = (time.process_time() - run) / seconds
        world.loop.discard()
        assert not verdict.violations, verdict.violations
        bench.note(rate=verdict.calls / seconds, checking=checking)


async def worlds(bench: Bench) -> None:
    """Small worlds and large ones, from drawing the seed to the verdict."""
    for size, times in (("small", SMALL_PER_LARGE), ("large", 1)):
        seeds = bench["worlds"] * times
        gc.collect()
        gc.freeze()  # As campaigns do: skips older objects.
        for turn in bench.turns(f"worlds, {size}"):
            begun = time.process_time()
            verdicts = [
                judge(drawn(seed, small=size == "small"))
                for seed in range(turn * seeds, (turn + 1) * seeds)
            ]
            seconds = time.process_time() - begun
            virtual_s = sum(one.virtual_s for one in verdicts)
            bench.note(**{
                size: seeds / seconds,
                f"{size}_pace": virtual_s / seconds,
                f"{size}_calls": statistics.median(one.calls for one in verdicts),
                f"{size}_changes": statistics.median(one.changes for one in verdicts),
            })  # fmt: skip
