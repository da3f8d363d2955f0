"""How long a service on Ray takes to lead many partitions that are announced at once."""

import time

from tierledger.benchmarks.on_ray import new_partitions, on_ray, stores
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import led

SECONDS_MAX = 5.0


async def measure(bench: Bench) -> list[Figure]:
    """Seconds from the announcement until all partitions are ready on one host; all are new."""
    scale = bench.scale
    figures: list[Figure] = []
    with stores(bench, "ray-announce") as urls:
        for kind, url in urls:
            taken = []
            async with on_ray(url) as service:
                manager = await service.manager(1)
                for turn in bench.turns(f"announcing, {kind}:"):
                    tips = new_partitions(f"announced-{turn}", scale.announced)
                    begun = time.perf_counter()
                    await led(manager, tips)
                    taken.append(time.perf_counter() - begun)
                    await manager.on_stop_partitions(tips)
                    await service.all_released()
            figures.append(
                median(
                    f"ray, {kind}: {scale.announced:,} partitions until ready",
                    taken,
                    "s",
                    Goal(SECONDS_MAX),
                )
            )
    return figures
