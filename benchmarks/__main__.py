"""Measures everything in one run, and says which goals are reached."""

import argparse
import asyncio
import gc
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from tierledger.benchmarks.core import (
    checkpoint,
    cli_lookup,
    cold_start,
    commit,
    lookup,
    replay,
)
from tierledger.benchmarks.feed import measure as feed
from tierledger.benchmarks.kafka import calls as kafka_calls
from tierledger.benchmarks.kafka import replicas as kafka_replicas
from tierledger.benchmarks.ray import announce as ray_announce
from tierledger.benchmarks.ray import failover
from tierledger.benchmarks.ray import followers as ray_followers
from tierledger.benchmarks.report import Figure, json_line, table, verdict
from tierledger.benchmarks.scale import QUICK, Bench, Scale
from tierledger.benchmarks.service import door as door_calls
from tierledger.benchmarks.service import neighbour, steps, throughput
from tierledger.benchmarks.simulation import machines, world
from tierledger.benchmarks.spark import imports as spark_import
from tierledger.benchmarks.spark import retention as spark_retention
from tierledger.benchmarks.spark import scan as spark_scan
from tierledger.benchmarks.spark import tables as spark_tables
from tierledger.benchmarks.tier import index_cache as tier_index_cache
from tierledger.benchmarks.tier import read as tier_read
from tierledger.benchmarks.tier import requests as tier_requests
from tierledger.benchmarks.tier import retention as tier_retention
from tierledger.benchmarks.tier import scrub as tier_scrub
from tierledger.cli.complete_file import complete_file
from tierledger.cli.log_setup import log_to_stderr

PARTS: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    "replay": replay.measure,
    "lookup": lookup.measure,
    "commit": commit.measure,
    "checkpoint": checkpoint.measure,
    "cold-start": cold_start.measure,
    "cli-lookup": cli_lookup.measure,
    "neighbour": neighbour.measure,
    "steps": steps.measure,
    "feed": feed.measure,
    "service": throughput.measure,
    "door": door_calls.measure,
    "followers": ray_followers.measure,
    "announce": ray_announce.measure,
    "failover": failover.measure,
    "world": world.measure,
    "machines": machines.measure,
    "kafka-calls": kafka_calls.measure,
    "kafka-one": kafka_replicas.measure_one,
    "kafka-many": kafka_replicas.measure_many,
    "spark-scan": spark_scan.measure,
    "spark-tables": spark_tables.measure,
    "spark-import": spark_import.measure,
    "spark-retention": spark_retention.measure,
    "tier-index-cache": tier_index_cache.measure,
    "tier-read": tier_read.measure,
    "tier-requests": tier_requests.measure,
    "tier-retention": tier_retention.measure,
    "tier-scrub": tier_scrub.measure,
}
"""The order of the parts, whichever are asked for: the service keeps the partition for good."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    log_to_stderr()
    begun = time.monotonic()
    figures: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory(prefix="tierledger-bench-") as folder:
            bench = Bench(QUICK if options.quick else Scale(), Path(folder), progress(begun))
            figures.extend(measured(bench, options.name))
    finally:
        # Also the figures measured before a part failed or was interrupted.
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(figures))
        console.print(summary(figures, time.monotonic() - begun), highlight=False)
        if options.json is not None:
            with complete_file(options.json, overwrite=True) as file:
                file.writelines(f"{json_line(figure)}\n".encode() for figure in figures)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tierledger.benchmarks", description=__doc__)
    made.add_argument("name", nargs="*", choices=[*PARTS, []], help="which parts; default all")
    made.add_argument("--json", type=Path, metavar="FILE", help="write one line per figure")
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    return made


def measured(bench: Bench, names: Collection[str] = ()) -> Iterator[Figure]:
    """The figures of the named parts, or of all, each part's as soon as it is done."""
    for name, measure in PARTS.items():
        if not names or name in names:
            yield from asyncio.run(_finished(measure(bench)))
            gc.collect()  # Not on the next part's time.


async def _finished(figures: Awaitable[list[Figure]]) -> list[Figure]:
    return await figures


def progress(begun: float) -> Callable[[str], None]:
    """A function that prints on stderr what is going on, with the seconds since `begun`."""

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:5.0f} s  {text}", file=sys.stderr, flush=True)

    return say


def summary(figures: Sequence[Figure], seconds: float) -> str:
    """How many goals are reached, and on which machine."""
    verdicts = [verdict(figure) for figure in figures if figure.goal is not None]
    where = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    return (
        f"{verdicts.count('reached')} of {len(verdicts)} goals reached, in {seconds:.0f} s "
        f"({where}, {time.strftime('%Y-%m-%d')})"
    )


if __name__ == "__main__":
    main()
