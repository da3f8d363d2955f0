"""Real faults on a real service, and what they did: `make chaos`, or this module run by name.

Starts PostgreSQL, a Ray cluster of several nodes and `serve`, lets brokers work on them, kills
and freezes processes meanwhile, and holds what the brokers saw against what the store holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray_service import connect
from tierledger.simulation.checkers import Minimums
from tierledger.simulation.history import write_history
from tierledger.simulation.live.chaos_faults import STRIKES, Chaos
from tierledger.simulation.live.chaos_report import as_json, print_report
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.ray_faults import LiveService
from tierledger.simulation.live.run import LivePlan, LiveRun
from tierledger.simulation.live.verdict import judge
from tierledger.simulation.service.plan import stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tierledger.simulation.live.verdict import LiveVerdict

CLUSTER_ID = "chaos"
HOSTS = 3
NODES = 3

PAUSE_S = (1.0, 4.0)
"""Between the end of one fault and the next."""

POSTGRESQL, SQLITE = "postgresql", "sqlite"

WRITES_PER_MINUTE = 100
CHANGES_PER_MINUTE = 2
FAULTS_PER_MINUTE = 1
"""What a run must have seen at least, or its silence means nothing."""


class Target(NamedTuple):
    """A store to run on, and its server if it has one that can be struck."""

    url: str
    postgres: PostgresServer | None


class Telling:
    """Shows how far a run is, on stderr."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=seconds)

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def at(self, seconds: float, text: str) -> None:
        self._progress.update(self._task, completed=seconds, description=text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 1 if anything was wrong."""
    options = parser().parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seed = int(time.time()) % 100_000 if options.seed is None else options.seed
    plan = LivePlan(
        seed,
        brokers=options.brokers,
        partitions=options.partitions,
        calls_per_s=options.rate,
        change_every_s=options.change_every,
    )
    with _target(options.store) as target, _telling(options.minutes * 60) as telling:
        telling.say(f"seed {seed} on {options.store}: {plan}")
        verdict, run = asyncio.run(_run(options, plan, target, telling))
    history = options.history
    if verdict.violations and history is None:
        history = Path(tempfile.gettempdir()) / f"tierledger-chaos-{seed}.jsonl"
    if history is not None:
        write_history(history, run.recorder.history())
    if options.json:
        Console(soft_wrap=True).print_json(json.dumps(as_json(verdict, history)), indent=None)
    else:
        print_report(verdict, history)
    if verdict.violations:
        sys.exit(1)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tierledger.simulation.live.chaos", description=__doc__
    )
    made.add_argument("--minutes", type=float, default=2.0, help="how long faults go on")
    made.add_argument(
        "--store",
        default=POSTGRESQL,
        choices=(POSTGRESQL, SQLITE),
        help=f"what to run on; {POSTGRESQL}, the default, starts a server of its own",
    )
    made.add_argument("--seed", type=int, help="of workload and faults; else a new one")
    made.add_argument("--rate", type=float, default=120.0, help="calls per second, about")
    made.add_argument("--brokers", type=int, default=3, help="how many")
    made.add_argument("--partitions", type=int, default=6, help="how many")
    made.add_argument(
        "--change-every",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="mean time between two elections",
    )
    made.add_argument(
        "--fault", action="append", choices=[*STRIKES], help="these only; may be repeated"
    )
    made.add_argument("--history", type=Path, help="write what callers saw here, in any case")
    made.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return made


@contextmanager
def _target(store: str) -> Iterator[Target]:
    if store == POSTGRESQL:
        with PostgresServer() as server:
            yield Target(server.database(), server)
    else:
        with tempfile.TemporaryDirectory(prefix="tierledger-chaos-") as folder:
            yield Target(f"sqlite:{folder}/store.sqlite", None)


@contextmanager
def _telling(seconds: float) -> Iterator[Telling]:
    columns = (TimeElapsedColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Telling(progress, seconds)


async def _run(
    options: argparse.Namespace, plan: LivePlan, target: Target, telling: Telling
) -> tuple[LiveVerdict, LiveRun]:
    _end_in_order()
    settings = ServiceSettings(CLUSTER_ID, {"metadata.storage.url": target.url}, hosts=HOSTS)
    with tempfile.TemporaryDirectory(prefix="tierledger-chaos-log-") as folder:
        service = LiveService(settings, Path(folder), nodes=NODES)
        try:
            await service.start()
            _end_in_order()  # Again: Ray sets handlers of its own while it starts.
            run = LiveRun(plan, settings, connect)
            chaos = Chaos(service, run, target.postgres)
            await _storm(run, chaos, options, telling)
        finally:
            telling.at(options.minutes * 60, "stopping the service")
            await service.stop()
        telling.at(options.minutes * 60, "checking")
        minimums = Minimums(
            ok_writes=int(WRITES_PER_MINUTE * options.minutes),
            ok_reads=1,
            leadership_changes=int(CHANGES_PER_MINUTE * options.minutes),
            faults=int(FAULTS_PER_MINUTE * options.minutes),
            fault_notes=frozenset(STRIKES),
        )
        return await judge(run, chaos.strikes, minimums), run


def _end_in_order() -> None:
    """Let SIGTERM do what SIGINT does: what was started ends before this process does."""
    task = asyncio.current_task()
    assert task is not None, "it runs as one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _storm(
    run: LiveRun, chaos: Chaos, options: argparse.Namespace, telling: Telling
) -> None:
    """Faults, one after the other, until the time is over; then all heals."""
    random = stream(run.plan.seed, "storm")
    total_s = options.minutes * 60
    try:
        await run.start()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < total_s:
            fault = random.choice(options.fault) if options.fault else chaos.draw()
            telling.at(elapsed, f"{len(chaos.strikes)} faults; {fault}")
            try:
                strike = await chaos.strike(fault)
            except TimeoutError as error:
                run.failures.append(error)
                telling.say(f"{elapsed:5.0f} s  {fault}: {error}")
                break
            if strike is not None:
                took_s = (strike.ended_ns - strike.began_ns) / 1e9
                telling.say(f"{elapsed:5.0f} s  {fault}: {strike.victim} ({took_s:.1f} s)")
            await asyncio.sleep(random.uniform(*PAUSE_S))
        telling.at(total_s, "healing")
        await run.heal()
    finally:
        await run.stop()


if __name__ == "__main__":
    main()
