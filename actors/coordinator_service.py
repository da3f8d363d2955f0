"""The coordinator at work: takes requests, keeps its log, and has hosts do what it says.

Everything it decides is in `coordinator` and `coordinator_placement`; everything it knows is in
its log. It may die at any line: the next one reads the log, asks which hosts live, and repeats
the standing work.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from tierledger.actors import coordinator as rules
from tierledger.actors import coordinator_placement as placement
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator_door import (
    checked_announcement,
    checked_broker,
    checked_key,
)
from tierledger.actors.coordinator_events import (
    ITEMS_MAX,
    Announcement,
    Registered,
    Route,
)
from tierledger.actors.coordinator_fleet import BACKOFF_MIN_S, Fleet, Running
from tierledger.actors.coordinator_log import CoordinatorLog
from tierledger.actors.coordinator_placement import PARTITIONS_PER_HOST, WRITER
from tierledger.actors.coordinator_report import coordinator_report
from tierledger.actors.coordinator_requests import Decide, Requests
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.actors.refusals import Refusal, leader_refused
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    NotReady,
    RemoteStorageError,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierledger.actors.coordinator_events import CoordinatorBody
    from tierledger.actors.coordinator_state import CoordinatorState
    from tierledger.actors.ports import Clock, HostHandle, HostLauncher
    from tierledger.events.commands import Claim
    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe

START_WAIT_S = 10.0
"""How long a coordinator that starts waits for all of its hosts; one of them is enough."""

START_PAUSE_S = 0.02

LOG_INTERVAL_S = 2.0
"""How often a coordinator looks for what another one has appended; one read of the store."""

_log = structlog.get_logger("tierledger.coordinator")


class CoordinatorService:
    """Made on a running loop; `start` before anything else."""

    def __init__(  # noqa: PLR0913 - What a coordinator is made of, all by name.
        self,
        *,
        cluster_id: str,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        launcher: HostLauncher,
        clock: Clock,
        hosts: int = 1,
        partitions_per_host: int = PARTITIONS_PER_HOST,
        identity: bytes | None = None,
        backend: MetadataStorageBackend | None = None,
        reader: MetadataStorageBackend | None = None,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        """What a coordinator is made of; `start` brings it up.

        Args:
            cluster_id: Whose log it keeps.
            keys: Names the log's batches.
            serde: Turns them into bytes.
            launcher: Starts, finds and ends hosts.
            clock: For the time in the log.
            hosts: How many are started, whatever they have to serve.
            partitions_per_host: Room of each.
            identity: Tells this coordinator's appends from another's.
            backend: The store, where many may write; none: `host-0` writes for all.
            reader: In that case, the store for reading, where it can be opened here.
            give_up: Ends the process, or what stands for it, after a failure nobody foresaw.
        """
        self.give_up = give_up
        self._launcher = launcher
        self._keys = keys
        self._clock = clock
        self._hosts_wanted = hosts
        self._partitions_per_host = partitions_per_host
        self._backend = backend or HostedBackend(self._writer, reader)
        self._can_read = backend is not None or reader is not None
        self._log = CoordinatorLog(cluster_id, keys, serde, clock, self._backend, identity)
        self._requests = Requests(self._log)
        writer = WRITER if backend is None else None
        self._fleet = Fleet(launcher, self, writer, clock)
        self._heard_ms: dict[str, int] = {}
        self._behind: dict[str, tuple[PartitionKey, ...]] = {}
        self._has_room = True
        self._adopting: dict[str, str] = {}
        """Host to the process that somebody else started, or this coordinator found."""
        self._given_up: dict[str, str] = {}
        self._losing: list[str] = []
        """Processes whose end is being noted."""

    @property
    def _state(self) -> CoordinatorState:
        return self._log.state

    async def start(self) -> None:
        """Start the hosts, read the log, and let everybody take up what they had.

        Raises:
            StoreRefused: The store cannot be opened.
        """
        if self._can_read:
            await self._log.read_on()
        writer = await self._writer_found() if self._fleet.writer else None
        await self._log.read_on()
        self._log.take_work()  # What it led to is repeated as standing work.
        self._fleet.spawn(self._work())
        self._fleet.spawn(self._keep_reading())
        names = [name for name in self._state.hosts if writer is None or name != writer.name]
        if writer is not None:
            await self._take_on(writer)
        await asyncio.gather(*(self._adopt(name) for name in names))
        self._requests.nudge()  # To place what finds its hosts gone, and to start others.
        self._supply()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_WAIT_S):
                while len(self._state.hosts) < self._hosts_wanted:  # noqa: ASYNC110
                    await asyncio.sleep(START_PAUSE_S)

    async def close(self) -> None:
        """Stop watching; hosts are left to whoever launched them."""
        await self._fleet.close()
        self._requests.abandon(NotReady("the coordinator is being closed"))

    async def _writer(self) -> HostHandle:
        running = self._fleet.running.get(WRITER)
        if running is None:
            raise StorageUnavailable("the host that writes is being replaced")
        return running.handle

    # Requests.

    async def register(self, broker_id: int, request: bytes, after: int) -> Registered:
        """A new incarnation for `broker_id`, greater than all before; durable.

        A repeat of `request` gets the same one. It gets none, and hears of the newest, if that
        is not `after`: whoever asks repeats with that, as long as it still wants to speak.

        Raises:
            InvalidArgument: The broker's id is none; nothing changed.
        """
        checked_broker(broker_id)
        given: list[Registered] = []

        def decide(state: CoordinatorState) -> list[CoordinatorBody]:
            bodies = rules.register(state, broker_id, request, after)
            is_new = Registered(after + 1, is_given=True)
            given[:] = [is_new if bodies else rules.registered(state, broker_id, request)]
            return bodies

        await self._requests.put(decide)
        return given[0]

    async def announce(self, announcement: Announcement) -> list[Claim]:
        """Which claim counts for each leader, then each follower: an earlier one if repeated.

        The announcement is durable when this returns; hosts hear of it soon after.

        Raises:
            InvalidArgument: An item cannot be carried out, the message names it, or there are
                more than `ITEMS_MAX`; nothing changed.
            Fenced: The broker has registered or announced something newer; nothing changed.
            Overloaded: Too much waits; nothing changed.
        """
        given = checked_announcement(announcement)
        for item in rules.outranked(self._state, given):
            tip = PartitionKey(item[0], item[1]).named(item[2])
            _log.warning("alarm", kind="Fenced", partition=str(tip), broker=given.broker_id)

        def decide(draft: CoordinatorState) -> list[CoordinatorBody]:
            bodies = rules.announce(draft, given)
            rules.hear(draft, given)
            return bodies

        await self._requests.put(decide, sum(map(len, given[3:6])))
        return rules.hear(self._state, given)

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        """Where each partition is served now; a partition with a log is known for ever.

        Raises:
            InvalidArgument: A key is none.
        """
        routes, slices = [], Slices()
        for key in map(checked_key, keys):
            await slices.breathe()
            route = self._state.route(key)
            if not route.known:
                prefix = self._keys.log(key.named(""))
                route = route._replace(
                    known=bool(await self._backend.get_like(prefix, limit=1))
                )
            routes.append(route)
        return routes

    async def hosts(self) -> dict[str, str]:
        """The hosts that are believed to live, and where each is found."""
        running = self._fleet.running
        return {name: running[name].address for name in sorted(running)}

    async def doors(self) -> dict[str, str]:
        """Where the processes that live listen, by address."""
        running = self._fleet.running.values()
        return {one.address: one.door for one in running if one.door is not None}

    def listening(self) -> tuple[tuple[str, str, str], ...]:
        """The same for the service's record: address, door and process of each."""
        running = [one for _, one in sorted(self._fleet.running.items())]
        return tuple((one.address, one.door, one.process) for one in running if one.door)

    @property
    def backend(self) -> MetadataStorageBackend:
        """The store, as this coordinator writes to it."""
        return self._backend

    async def status(self) -> dict[str, Any]:
        """Hosts, partitions and brokers as the coordinator knows them."""
        now_ms, starting = self._clock.now_ms(), list(self._fleet.starting)
        aside = [*self._state.set_aside.values(), *self._fleet.set_aside()]
        return coordinator_report(self._state, self._heard_ms, now_ms, starting, aside)

    async def _work(self) -> None:
        while True:
            requests = await self._requests.take()
            await self._requests.carry_out(requests)
            self._tell()
            try:
                await self._place()
            except Exception as error:  # noqa: BLE001 - Requests must be answered all the same.
                # The next ping of any host comes back to it.
                _log.warning("nothing was placed", error=repr(error))
            for request in requests:
                request.settle()

    async def _place(self) -> None:
        behind = {key for keys in self._behind.values() for key in keys}
        while bodies := placement.place(self._state, self._partitions_per_host, behind):
            state = self._state
            position = state.next_position
            _, stored = self._log.encoded(bodies, position, state.chain_hash)
            await self._log.append(stored, position)
            self._tell()
        self._supply()

    async def _keep_reading(self) -> None:
        """Follow what another coordinator does, which tells nobody but the log and its hosts.

        Who appends nothing itself would know nothing of it, and not understand what hosts say.
        """
        while True:
            await asyncio.sleep(LOG_INTERVAL_S)
            with contextlib.suppress(RemoteStorageError):  # The next look finds it.
                if await self._log.read_on():
                    self._requests.nudge()

    def _tell(self) -> None:
        works = self._log.take_work()
        for name in list(self._state.hosts):
            self._follow_the_log(name)
        self._fleet.tell(works)

    # Hosts.

    async def _writer_found(self) -> Running:
        """The writing host, running; started if it does not."""
        former = self._state.hosts.get(WRITER)
        running = await self._find(WRITER)
        if running is None:
            address = self._state.addresses.get(WRITER)
            following = placement.next_address(self._state, WRITER)
            if address is not None:
                self._launcher.prepare(following)
                await self._launcher.end(address, former)
            running = await self._fleet.launch(WRITER, following)
        self._fleet.add(running)
        return running

    async def _find(self, name: str) -> Running | None:
        address = self._state.addresses.get(name)
        if address is None:
            return None
        return await self._fleet.find(name, address, self._state.hosts[name])

    async def _take_on(self, running: Running) -> None:
        """Let a host that lived before this coordinator take up, or go on with, its work."""
        if self._fleet.running.get(running.name) is not running:
            self._fleet.add(running)
        if self._state.hosts.get(running.name) == running.process:
            seats, slices = list(self._state.seats.get(running.name, ())), Slices()
            for first in range(0, len(seats), ITEMS_MAX):
                some = seats[first : first + ITEMS_MAX]
                self._fleet.tell([rules.standing_work(self._state, running.name, some)])
                await slices.breathe()
        else:
            await self.joined(running)

    def _follow_the_log(self, name: str) -> None:
        """Another coordinator may have replaced a host; use what it started."""
        running = self._fleet.running.get(name)
        process = self._state.hosts[name]
        if running is not None and running.process != process and self._is_older(running):
            self._fleet.drop(running)
            running = None
        if running is not None or name in self._fleet.starting:
            return
        if process == self._given_up.get(name):
            # That it had started came to the log after its end.
            self._fleet.spawn(self._give_up(name, process))
        elif process != self._adopting.get(name):
            self._fleet.spawn(self._adopt(name))

    def _is_older(self, running: Running) -> bool:
        """Whether the log knows a later process of that host."""
        address = self._state.addresses.get(running.name)
        return address is not None and _number(address) > _number(running.address)

    async def _adopt(self, name: str) -> None:
        """Take over a host that this coordinator did not start, or note that it is gone."""
        if name not in self._state.hosts:
            return  # Another coordinator noted its end meanwhile.
        process, address = self._state.hosts[name], self._state.addresses[name]
        self._adopting[name] = process
        try:
            running = await self._find(name)
        finally:
            self._adopting.pop(name, None)  # Another look at the same host was faster.
        if self._state.hosts.get(name) != process or name in self._fleet.running:
            return
        if running is not None:
            await self._take_on(running)
        else:
            self._given_up[name] = process
            self._fleet.spawn(self._fleet.end(address, process))
            await self._lost(name, process)

    def _supply(self) -> None:
        """Start the hosts that should be there and are not."""
        busy = [*self._fleet.starting, *self._fleet.running]
        starting = [name for name in busy if name not in self._state.hosts]
        for name in placement.hosts_wanted(
            self._state, self._hosts_wanted, self._partitions_per_host, starting
        ):
            self._fleet.start(name)
        has_room = len(self._state.hosts) + len(starting) < placement.HOSTS_MAX
        if self._has_room and not has_room and self._state.unplaced:
            count = len(self._state.unplaced)
            _log.error("alarm", kind="NoRoom", hosts=placement.HOSTS_MAX, unplaced=count)
        self._has_room = has_room

    async def _lost(self, name: str, process: str) -> None:
        await self._note(lambda state: rules.host_lost(state, name, process))

    async def _note(self, decide: Decide) -> None:
        """Take note of what a host's word comes to; what fails comes again with the next."""
        if not decide(self._state):
            return  # As nearly always: known already.
        try:
            await self._requests.put(decide)
        except RemoteStorageError as error:
            _log.warning("a host's word is not noted yet", error=str(error))

    # What the fleet tells.

    def address_for(self, name: str, failures: int) -> str:
        return placement.next_address(self._state, name, failures)

    async def joined(self, running: Running) -> None:
        name, process, address = running.name, running.process, running.address
        await self._note(lambda state: rules.host_started(state, name, process, address))

    async def heard(self, running: Running, said: dict[str, Any]) -> None:
        name = running.name
        self._heard_ms[name] = self._clock.now_ms()
        self._behind[name] = tuple(PartitionKey(*key) for key in said.get("behind", ()))
        if self._state.hosts.get(name) != running.process:
            if self._is_older(running):
                self._fleet.drop(running)
                return
            await self.joined(running)
        for key, assignment in said["lost"]:
            await self._note(partial(_lost_leader, name, PartitionKey(*key), assignment))
        for key, refusal in said.get("refused", ()):
            word = Refusal(*refusal)
            await self._note(partial(_refused_leader, name, PartitionKey(*key), word))
        if self._state.unplaced or (self._state.together and len(self._state.hosts) > 1):
            self._requests.nudge()

    async def gone(self, running: Running) -> None:
        await self._give_up(running.name, running.process)

    async def _give_up(self, name: str, process: str) -> None:
        """Note that a process is gone, for as long as that takes."""
        self._given_up[name] = process
        if process in self._losing:
            return
        self._losing.append(process)
        try:
            while self._state.hosts.get(name) == process:
                await self._lost(name, process)
                if self._state.hosts.get(name) == process:
                    await asyncio.sleep(BACKOFF_MIN_S)
        finally:
            self._losing.remove(process)


def _lost_leader(
    host: str, key: PartitionKey, assignment: int, state: CoordinatorState
) -> list[CoordinatorBody]:
    return rules.leader_lost(state, key, assignment, host)


def _refused_leader(
    host: str, key: PartitionKey, refusal: Refusal, state: CoordinatorState
) -> list[CoordinatorBody]:
    return leader_refused(state, key, refusal, host)


def _number(address: str) -> int:
    number = address.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0
