"""A storm on a real service: brokers work on it while its processes are killed and frozen.

Starts PostgreSQL if asked to, a Ray cluster of several nodes, and `serve`. Brokers call the
service while faults strike, until all is healed. Keeps everything needed to judge the calls.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from tierledger.actors.discovery.connecting import connect
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.events.partition.decide import Limits
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.live.chaos.faults import CABLED, POSTGRES, SQLITE, STRIKES, Chaos
from tierledger.simulation.live.memory import MemoryWatch
from tierledger.simulation.live.plan import LivePlan
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.ray_faults import LiveService
from tierledger.simulation.live.run import LiveRun
from tierledger.simulation.live.verdict import LiveVerdict, recorded, verdict_of
from tierledger.simulation.machines.scenario.streams import stream
from tierledger.simulation.record.record import RunRecord
from tierledger.storage.connector import URL_SETTING
from tierledger.storage.locate import StoreUrl, parse_store_url

POSTGRESQL_OF_OUR_OWN, SQLITE_OF_OUR_OWN = "postgresql", "sqlite"
"""Stores that are created for one storm, and removed after it."""

NODES_MIN = 2
"""Faults strike Ray's first node only together with all others, so more are needed."""

PAUSE_S = (1.0, 4.0)
"""The pause between the end of one fault and the next."""

WRITES_PER_MINUTE = 100
CHANGES_PER_MINUTE = 3
FAULTS_PER_MINUTE = 1
"""What a run must have seen at least, so that finding nothing means something."""


@dataclass(frozen=True, slots=True)
class Storm:
    """What happens in a storm, and to which service.

    Attributes:
        plan: What brokers do.
        minutes: How long faults strike; healing and checking come after that.
        store: `POSTGRESQL_OF_OUR_OWN`, `SQLITE_OF_OUR_OWN`, or a store's URL. In an existing
            store, a cluster with a new name is added, and stays.
        hosts: How many host processes `serve` starts.
        nodes: How many raylets the Ray cluster has; all but the first are struck.
        faults: The faults that strike; none: all that fit the store, but for those that need
            cables in front of the doors.
        tombstone_retention_ms: How long ids of deleted segments are remembered.
    """

    plan: LivePlan
    minutes: float
    store: str = SQLITE_OF_OUR_OWN
    hosts: int = 3
    nodes: int = 3
    faults: tuple[str, ...] = ()
    tombstone_retention_ms: int = Limits().tombstone_retention_ms

    def __post_init__(self) -> None:
        if self.nodes < NODES_MIN:
            raise InvalidArgument(f"expected at least {NODES_MIN} nodes, got {self.nodes}")
        of_one_store = {*POSTGRES, *SQLITE}
        if self.store == POSTGRESQL_OF_OUR_OWN:
            of_one_store -= set(POSTGRES)
        elif self.store == SQLITE_OF_OUR_OWN or self._url().scheme == "sqlite":
            of_one_store -= set(SQLITE)
        elif self._url().scheme == "memory":
            raise InvalidArgument("expected a store that several processes see, got memory:")
        for fault in self.faults:
            if fault not in STRIKES:
                raise InvalidArgument(f"no fault {fault!r}; there are {', '.join(STRIKES)}")
            if fault in of_one_store:
                raise InvalidArgument(f"{fault!r} cannot happen to {self.shown_store}")

    def _url(self) -> StoreUrl:
        return parse_store_url(self.store)

    @property
    def shown_store(self) -> str:
        """The store, without passwords."""
        if self.store in (POSTGRESQL_OF_OUR_OWN, SQLITE_OF_OUR_OWN):
            return self.store
        return self._url().public

    @property
    def minimums(self) -> Minimums:
        def at_least(per_minute: int) -> int:
            return max(1, int(per_minute * self.minutes))

        return Minimums(
            ok_writes=at_least(WRITES_PER_MINUTE),
            ok_reads=1,
            leadership_changes=at_least(CHANGES_PER_MINUTE),
            faults=at_least(FAULTS_PER_MINUTE),
            fault_notes=frozenset(STRIKES),
        )


class StormOutcome(NamedTuple):
    """The result of a storm."""

    verdict: LiveVerdict
    record: RunRecord


class StormProgress(Protocol):
    """Where a storm reports its progress."""

    def say(self, text: str) -> None:
        """Report that something happened."""

    def at(self, seconds: float, text: str) -> None:
        """Report the seconds that have passed, and what is going on."""


def storm_on(storm: Storm, progress: StormProgress) -> StormOutcome:
    """Run a storm and judge it; no process is left running.

    Raises:
        NotReady: PostgreSQL or `serve` did not start; the message quotes their logs.
        InvalidArgument: A store's URL is wrong.
    """
    with _target(storm.store) as target:
        return asyncio.run(_run(storm, target, progress))


class _Target(NamedTuple):
    """A store to run on, and its server if faults can strike that."""

    url: str
    postgres: PostgresServer | None


@contextmanager
def _target(store: str) -> Iterator[_Target]:
    if store == POSTGRESQL_OF_OUR_OWN:
        with _postgres() as server:
            yield _Target(server.database(), server)
    elif store == SQLITE_OF_OUR_OWN:
        with tempfile.TemporaryDirectory(prefix="tierledger-live-") as folder:
            yield _Target(f"sqlite:{folder}/store.sqlite", None)
    else:
        yield _Target(str(parse_store_url(store)), None)


@contextmanager
def _postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.__enter__()
    except RuntimeError as error:
        raise NotReady(str(error)) from error
    try:
        yield server
    finally:
        server.remove()


async def _run(storm: Storm, target: _Target, progress: StormProgress) -> StormOutcome:
    _end_in_order()
    # An existing store may hold an earlier run of the same seed.
    cluster_id = f"live-{storm.plan.seed}-{time.time_ns():x}"
    limits = Limits(tombstone_retention_ms=storm.tombstone_retention_ms)
    settings = ServiceSettings(
        cluster_id, {URL_SETTING: target.url}, limits=limits, hosts=storm.hosts
    )
    total_s = storm.minutes * 60
    with tempfile.TemporaryDirectory(prefix="tierledger-live-log-") as folder:
        has_cables = not {*CABLED}.isdisjoint(storm.faults)
        service = LiveService(settings, Path(folder), nodes=storm.nodes, has_cables=has_cables)
        try:
            progress.at(0, "starting")
            await service.start()
            _end_in_order()  # Again: Ray sets handlers of its own while it starts.
            run = LiveRun(storm.plan, settings, connect)
            chaos = Chaos(service, run, target.postgres)
            memory = MemoryWatch(service)
            watching = asyncio.create_task(memory.watch())
            try:
                await _strike(run, chaos, storm, progress)
            finally:
                watching.cancel()
        finally:
            progress.at(total_s, "stopping the service")
            await service.stop()
        progress.at(total_s, "checking")
        origin = f"simulate live --seed {storm.plan.seed} on {storm.shown_store}"
        record = await recorded(run, origin, storm.minimums)
        verdict = verdict_of(run, record, chaos.strikes, memory.growth())
        return StormOutcome(verdict, record)


def _end_in_order() -> None:
    """Let SIGTERM do what SIGINT does: what was started ends before this process does."""
    task = asyncio.current_task()
    assert task is not None, "it runs as one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _strike(run: LiveRun, chaos: Chaos, storm: Storm, progress: StormProgress) -> None:
    """Faults, one after the other, until the time is over; then all of them end."""
    try:
        try:
            await run.start()
        except TimeoutError as error:  # The service never was well.
            run.failures.append(error)
            return
        await _faults(run, chaos, storm, progress)
        progress.at(storm.minutes * 60, "healing")
        await run.heal()
    finally:
        await run.stop()


async def _faults(run: LiveRun, chaos: Chaos, storm: Storm, progress: StormProgress) -> None:
    random = stream(run.plan.seed, "storm")
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < storm.minutes * 60:
        fault = random.choice(storm.faults) if storm.faults else chaos.draw()
        progress.at(elapsed, f"{len(chaos.strikes)} faults; {fault}")
        try:
            strike = await chaos.strike(fault)
        except TimeoutError as error:
            run.failures.append(error)
            progress.say(f"{elapsed:5.0f} s  {fault}: {error}")
            return
        if strike is not None:
            took_s = (strike.ended_ns - strike.began_ns) / 1e9
            progress.say(f"{elapsed:5.0f} s  {fault}: {strike.victim} ({took_s:.1f} s)")
        await asyncio.sleep(random.uniform(*PAUSE_S))
