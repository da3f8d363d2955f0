"""One fault or a few on a service that brokers use, judged by all checkers."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tierledger.actors.discovery.connecting import connect
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.live.chaos.faults import Chaos
from tierledger.simulation.live.plan import LivePlan
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.ray_faults import LiveService
from tierledger.simulation.live.run import LiveRun
from tierledger.simulation.live.verdict import LiveVerdict, recorded, verdict_of
from tierledger.simulation.record.file import record_as_lines

OK_WRITES_MIN = 10
"""Of a few seconds; there are usually some hundreds."""


class Target(NamedTuple):
    """A service, its server if its store has one, and where histories go."""

    service: LiveService
    postgres: PostgresServer | None
    folder: Path


def plan(seed: int) -> LivePlan:
    """Small and busy; each seed has partitions of its own."""
    return LivePlan(seed, brokers=2, partitions=4, calls_per_s=60.0, change_every_s=1.5)


async def struck(target: Target, faults: Sequence[str], seed: int) -> tuple[LiveVerdict, Chaos]:
    """The outcome of a run of brokers during which `faults` strike."""
    run = LiveRun(plan(seed), target.service.settings, connect)
    chaos = Chaos(target.service, run, target.postgres)
    try:
        await run.start()
        for fault in faults:
            await chaos.strike(fault)
        for tip in run.tips:
            run.controller.elect(tip)
        await run.heal()
    finally:
        await run.stop()
    minimums = Minimums(OK_WRITES_MIN, 1, 1, len(faults), frozenset(faults))
    record = await recorded(run, f"{faults}, seed {seed}", minimums)
    verdict = verdict_of(run, record, chaos.strikes)
    history = target.folder / f"{seed}.jsonl"
    history.write_bytes(b"".join(record_as_lines(record)))
    found = [f"{one.checker}: {one.message}" for one in verdict.violations]
    assert found == [], f"{found}; the history is in {history}"
    return verdict, chaos
