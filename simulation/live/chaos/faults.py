"""Real faults on a real service: each is caused, undone, and waited for to heal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tierledger.actors.calls import LEADER, PartitionKey, PartitionsCall
from tierledger.actors.client.restarting import restarted
from tierledger.actors.coordinator.placement import WRITER
from tierledger.actors.coordinator.replacing import THE_COORDINATOR
from tierledger.actors.processes import parent_of
from tierledger.events.errors import NotReady, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.live.chaos.postgres import freeze_in_commit, set_read_only
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.processes import is_running
from tierledger.simulation.live.run import LiveRun
from tierledger.simulation.live.verdict import Strike
from tierledger.simulation.machines.scenario.streams import stream

if TYPE_CHECKING:
    from tierledger.simulation.live.ray_faults import HostFacts, LiveService

RECOVERY_S = 60.0
"""Within this time every partition must be written to again."""

ZOMBIE_S = 1.5
"""How long a thawed host runs beside its successor."""

COMMIT_ATTEMPTS = 5
"""Attempts to freeze a host within a commit."""

OUTAGE_S = (2.0, 4.0)
"""How long a store is unavailable."""


class NoVictim(Exception):
    """No process is there at the moment that the fault could strike."""


class Chaos:
    """Causes faults in a service that the brokers of a run use."""

    def __init__(
        self,
        service: LiveService,
        run: LiveRun,
        postgres: PostgresServer | None = None,
    ) -> None:
        self.strikes: list[Strike] = []
        self.zombies = 0
        """Hosts and coordinators that ran on beside their successors."""
        self._service = service
        self._run = run
        self._postgres = postgres
        self._random = stream(run.plan.seed, "faults")
        self._drawn: set[str] = set()

    def faults(self) -> list[str]:
        """The faults that can strike this service."""
        always = [*ALWAYS, *CABLED] if self._service.has_cables else [*ALWAYS]
        if self._postgres is not None:
            return [*always, *POSTGRES]
        has_one_writer = self._service.settings.connector().has_one_writer
        return [*always, *SQLITE] if has_one_writer else always

    def draw(self) -> str:
        """Draw the next fault: each comes once before any is repeated."""
        faults = self.faults()
        fresh = [one for one in faults if one not in self._drawn] or faults
        drawn = self._random.choices(fresh, [WEIGHTS.get(one, 3) for one in fresh])[0]
        self._drawn.add(drawn)
        return drawn

    async def strike(self, fault: str) -> Strike | None:
        """Cause the fault; returns once every partition is written to again. None: no victim.

        Raises:
            TimeoutError: A partition is not written to again.
        """
        began = self._run.now_ns()
        try:
            victim = await STRIKES[fault](self)
        except NoVictim:
            return None
        undone = self._run.now_ns()
        self._run.note(fault, victim)
        try:
            await self._run.written_since(undone, RECOVERY_S)
        finally:
            strike = Strike(fault, victim, began, self._run.now_ns())
            self.strikes.append(strike)
        return strike

    # Processes that die.

    async def kill_host(self) -> str:
        host = self._random.choice(await self._hosts())
        os.kill(host.pid, signal.SIGKILL)
        return _short(host.process)

    async def kill_coordinator(self) -> str:
        process, pid = await self._service.coordinator()
        os.kill(pid, signal.SIGKILL)
        return _short(process)

    async def replace_process(self) -> str:
        """Have a host, or the coordinator, replaced in good order, as for an upgrade."""
        name = self._random.choice(
            [*(one.name for one in await self._hosts()), THE_COORDINATOR]
        )
        coordinator = (await self._service.connection()).coordinator
        async for one in restarted(coordinator, RECOVERY_S, [name]):
            assert one.process == name, "nothing else was asked for"
        return name

    async def kill_raylet(self) -> str:
        raylet = self._random.choice(self._service.raylets())
        await self._service.replace_node(raylet)
        return f"raylet {raylet}"

    async def kill_everything(self) -> str:
        await self._service.kill_everything()
        await self._run.interrupt()
        await self._service.leave()
        await self._service.start()
        self._run.resume()
        return "all processes"

    # Processes that freeze.

    async def freeze_host(self) -> str:
        """Freeze a host and its raylet, so that nothing can end it: it returns as a zombie."""
        host, tips = await self._out_of_reach()
        self._service.freeze(host)
        await self._outlive(host, tips)
        return _short(host.process)

    async def freeze_raylet(self) -> str:
        """Freeze a raylet: its node counts as dead, but its hosts run on without knowing it."""
        host, tips = await self._out_of_reach()
        raylet = host.raylet
        os.kill(raylet, signal.SIGSTOP)
        try:
            await self._service.given_up(host)
            await self._run.written_since(self._run.now_ns(), RECOVERY_S, tips)
            if is_running(host.pid):
                self.zombies += 1
            await asyncio.sleep(ZOMBIE_S)
        finally:
            await self._service.replace_node(raylet)
        return f"raylet {raylet}"

    async def freeze_in_commit(self) -> str:
        """Freeze a host as `freeze_host` does, while the store carries out a write of it."""
        assert self._postgres is not None, "only struck on PostgreSQL"
        url = self._run.settings.storage["metadata.storage.url"]
        for _ in range(COMMIT_ATTEMPTS):
            host, tips = await self._out_of_reach()
            if await asyncio.to_thread(freeze_in_commit, url, host.pid, [host.raylet]):
                await self._outlive(host, tips)
                return _short(host.process)
        raise NoVictim

    async def freeze_coordinator(self) -> str:
        """Freeze a coordinator, with its raylet too if its node is not the head."""
        service = self._service
        process, pid = await service.coordinator()
        raylet = parent_of(pid)
        is_far = raylet in service.raylets()
        for one in [raylet, pid] if is_far else [pid]:
            os.kill(one, signal.SIGSTOP)
        try:
            await service.other_coordinator(process)
            if is_far:
                os.kill(pid, signal.SIGCONT)
                self.zombies += 1
                await asyncio.sleep(ZOMBIE_S)
        finally:
            if is_far:
                await service.replace_node(raylet)
        return _short(process)

    async def freeze_writer(self) -> str:
        """Freeze the writer; the service ends it by its pid, as only one may write the file."""
        host = next((one for one in await self._hosts() if one.name == WRITER), None)
        if host is None:
            raise NoVictim
        os.kill(host.pid, signal.SIGSTOP)
        await self._service.all_serve(but=host.process)
        return _short(host.process)

    # A door that clients do not reach.

    async def shut_door(self) -> str:
        """Shut a door that brokers use, until others lead what its host led; the host lives on.

        Raises:
            NotReady: The host was ended.
            TimeoutError: What it led is not written to.
        """
        service = self._service
        for host in await self._hosts():
            if tips := await self._led_by(host):
                break
        else:
            raise NoVictim
        cable = service.cables[int(host.name.rpartition("-")[2])]
        cable.shut()
        try:
            await self._run.written_since(self._run.now_ns(), RECOVERY_S, tips)
            if not is_running(host.pid):
                raise NotReady(f"{host.process} was ended, though it answers pings")
        finally:
            cable.open()
        return _short(host.process)

    async def _outlive(self, host: HostFacts, tips: list[TopicIdPartition]) -> None:
        """Wait until other hosts lead what `host` led, then let it run beside them a while."""
        raylet = host.raylet
        try:
            await self._run.written_since(self._run.now_ns(), RECOVERY_S, tips)
            self._service.thaw(host)
            self.zombies += 1
            await asyncio.sleep(ZOMBIE_S)
        finally:
            await self._service.replace_node(raylet)

    async def _hosts(self) -> list[HostFacts]:
        hosts = await self._service.hosts()
        if not hosts:
            raise NoVictim
        return hosts

    async def _out_of_reach(self) -> tuple[HostFacts, list[TopicIdPartition]]:
        """A host that leads partitions of this run and that no coordinator can end by pid."""
        found = await self._service.leader_elsewhere(self._led_by)
        if found is None:
            raise NoVictim
        return found

    async def _led_by(self, host: HostFacts) -> list[TopicIdPartition]:
        """The partitions of this run that a host leads; none if it does not answer."""
        connection = await self._service.connection()
        try:
            served = await connection.host(host.address).ask(PartitionsCall())
        except RemoteStorageError:
            return []
        led = [
            TopicIdPartition(Uuid.parse(one["topic_id"]), one["partition"], one["topic"])
            for one in served
            if one["role"] == LEADER
        ]
        ours = {PartitionKey.of(tip): tip for tip in self._run.tips}
        return [ours[PartitionKey.of(tip)] for tip in led if PartitionKey.of(tip) in ours]

    # A store that is unavailable.

    async def freeze_postgres(self) -> str:
        server = self._server()
        server.freeze()
        try:
            await self._outage()
        finally:
            server.thaw()
        return "PostgreSQL"

    async def kill_postgres(self) -> str:
        server = self._server()
        server.kill()
        await self._outage()
        await asyncio.to_thread(server.start)
        return "PostgreSQL"

    async def read_only_postgres(self) -> str:
        server = self._server()
        await asyncio.to_thread(set_read_only, server, on=True)
        try:
            await self._outage()
        finally:
            await asyncio.to_thread(set_read_only, server, on=False)
        return "PostgreSQL"

    def _server(self) -> PostgresServer:
        assert self._postgres is not None, "only struck on PostgreSQL"
        return self._postgres

    async def _outage(self) -> None:
        await asyncio.sleep(self._random.uniform(*OUTAGE_S))


ALWAYS = (
    "kill host",
    "kill coordinator",
    "kill raylet",
    "kill everything",
    "replace process",
    "freeze host",
    "freeze coordinator",
    "freeze raylet",
)
CABLED = ("shut door",)
"""Faults of a service with cables (`LiveService.cables`)."""

SQLITE = ("freeze writer",)
POSTGRES = (
    "freeze in commit",
    "freeze PostgreSQL",
    "kill PostgreSQL",
    "read-only PostgreSQL",
)

WEIGHTS = {"kill everything": 1, "freeze coordinator": 1, "freeze raylet": 1}
"""Weights of faults, 3 by default: these take longest to recover from."""

STRIKES: dict[str, Callable[[Chaos], Awaitable[str]]] = {
    "kill host": Chaos.kill_host,
    "kill coordinator": Chaos.kill_coordinator,
    "kill raylet": Chaos.kill_raylet,
    "kill everything": Chaos.kill_everything,
    "replace process": Chaos.replace_process,
    "freeze host": Chaos.freeze_host,
    "freeze coordinator": Chaos.freeze_coordinator,
    "freeze raylet": Chaos.freeze_raylet,
    "shut door": Chaos.shut_door,
    "freeze writer": Chaos.freeze_writer,
    "freeze in commit": Chaos.freeze_in_commit,
    "freeze PostgreSQL": Chaos.freeze_postgres,
    "kill PostgreSQL": Chaos.kill_postgres,
    "read-only PostgreSQL": Chaos.read_only_postgres,
}


def _short(process: str) -> str:
    """A process's own name, without its node, and its pid."""
    return f"{process.rsplit('/', 3)[0]}, pid {process.rpartition('/')[2]}"
