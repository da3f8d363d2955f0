"""Measures everything in one run, and says which goals are reached."""

import argparse
import asyncio
import gc
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from rich.console import Console

from tierledger.benchmarks.bench import POSTGRESQL, QUICK, SQLITE, Bench, Place
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.report import Figure, figures, json_line, table
from tierledger.benchmarks.scenarios import ON_STORES, SCENARIOS
from tierledger.cli.complete_file import complete_file
from tierledger.cli.log_setup import log_to_stderr
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.s3_server import S3Server


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    log_to_stderr()
    begun = time.monotonic()
    found: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory(prefix="tierledger-bench-") as folder:
            part = QUICK if options.quick else 1
            bench = Bench(part, Path(folder), progress(begun))
            found.extend(measured(bench, options.name))
    finally:
        # Also the figures measured before a scenario failed or was interrupted.
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(found))
        console.print(summary(found, time.monotonic() - begun), highlight=False)
        if options.json is not None:
            with complete_file(options.json, overwrite=True) as file:
                file.writelines(f"{json_line(figure)}\n".encode() for figure in found)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tierledger.benchmarks", description=__doc__)
    made.add_argument(
        "name", nargs="*", choices=[*SCENARIOS, []], help="which parts; default all"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write one line per figure")
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    return made


def measured(bench: Bench, names: Collection[str] = ()) -> Iterator[Figure]:
    """The figures of the named scenarios, or of all, as soon as each is done."""
    for name, (measure, rows) in SCENARIOS.items():
        if names and name not in names:
            continue
        with places(bench, name) as each:
            for bench.place in each:
                bench.samples.clear()
                asyncio.run(measure(bench))
                gc.collect()  # Not on the next scenario's time.
                facts = {**bench.sizes, "store": bench.place.kind}
                yield from figures(rows, bench.samples, facts)


@contextmanager
def places(bench: Bench, name: str) -> Iterator[list[Place]]:
    """The stores that a scenario is measured on, each new; or its own, which has no name."""
    kinds = ON_STORES.get(name)
    if kinds is None:
        yield [Place("", "")]
        return
    with ExitStack() as servers:
        yield [
            Place(kind, _new_place(bench, kind, name, servers))
            for kind in kinds
            if kind in bench.stores
        ]


def _new_place(bench: Bench, kind: str, name: str, servers: ExitStack) -> str:
    if kind == SQLITE:
        return url_of(bench.new_store(f"on-{name}"))
    if kind == POSTGRESQL:
        return servers.enter_context(PostgresServer()).database()
    server = servers.enter_context(S3Server())
    servers.enter_context(mock.patch.dict(os.environ, server.environment()))
    return f"slatedb:{server.place()}"


def progress(begun: float) -> Callable[[str], None]:
    """A function that prints on stderr what is going on, with the seconds since `begun`."""

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:5.0f} s  {text}", file=sys.stderr, flush=True)

    return say


def summary(found: Sequence[Figure], seconds: float) -> str:
    """How many goals are reached, and on which machine."""
    verdicts = [one.verdict for one in found if one.goal is not None]
    where = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    return (
        f"{verdicts.count('reached')} of {len(verdicts)} goals reached, in {seconds:.0f} s "
        f"({where}, {time.strftime('%Y-%m-%d')})"
    )


if __name__ == "__main__":
    main()
