"""The coordinator at work: takes requests one by one, keeps its log, tells hosts, watches them.

Everything it decides is in `coordinator`; everything it knows is in its log. It may die at any
line: the next one reads the log, asks which hosts live, and repeats the standing work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from tierledger.actors import coordinator as rules
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator_events import (
    COORDINATOR_CODEC,
    Announcement,
    CoordinatorBody,
    CoordinatorState,
    Route,
)
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.events.errors import CorruptLog, NotReady, OutcomeUnknown, RemoteStorageError
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.storage.backend import CreateOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierledger.actors.coordinator import HostWork
    from tierledger.actors.ports import Clock, HostHandle, HostLauncher
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe

WATCH_INTERVAL_S = 0.2
"""How often hosts are asked whether they live."""

PINGS_MISSED = 10
"""Unanswered pings (each of a second at most) after which a silent host is replaced."""

PING_TIMEOUT_S = 1.0

BATCHES_PER_READ = 500

_log = structlog.get_logger("tierledger.coordinator")


class CoordinatorService:
    """Made on a running loop; `start` before anything else."""

    def __init__(
        self,
        *,
        cluster_id: str,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        launcher: HostLauncher,
        clock: Clock,
        host_names: Sequence[str] = ("host-0",),
    ) -> None:
        self._cluster_id = cluster_id
        self._keys = keys
        self._serde = serde
        self._launcher = launcher
        self._clock = clock
        self._host_names = tuple(host_names)
        self._hosts: dict[str, HostHandle] = {}
        self._backend = HostedBackend(self._writer)
        self._state = CoordinatorState(genesis(cluster_id, b"coordinator", 0))
        self._untold: dict[str, list[HostWork]] = {}
        self._next_batch = 0
        self._turn = asyncio.Lock()  # One request at a time: each decides on all before it.
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the hosts, read the log, and let everybody take up what they had."""
        for name in self._host_names:
            self._hosts[name] = await self._launcher.launch(name)
        async with self._turn:
            await self._read_log()  # What it led to is repeated as standing work.
            for name, host in self._hosts.items():
                await self._host_joined(name, host)
            await self._place()
        self._watch = asyncio.get_running_loop().create_task(self._watch_hosts())

    async def close(self) -> None:
        """Stop watching; hosts are left to whoever launched them."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def _writer(self) -> HostHandle:
        if not self._hosts:
            raise NotReady("no host is running")
        return self._hosts[self._host_names[0]]

    # Requests.

    async def register(self, broker_id: int) -> int:
        """A new incarnation for `broker_id`, greater than all before; durable."""
        await self._request(lambda: rules.register(self._state, broker_id))
        return self._state.incarnations[broker_id]

    async def announce(self, announcement: Announcement) -> None:
        """Take an announcement: durable, and told to the hosts, when this returns.

        Raises:
            Fenced: The broker has registered or announced something newer; nothing changed.
        """
        given = Announcement(*announcement)
        for item in rules.outranked(self._state, given):
            tip = PartitionKey(item[0], item[1]).named(item[2])
            _log.warning("alarm", kind="Fenced", partition=str(tip), broker=given.broker_id)
        await self._request(lambda: rules.announce(self._state, given))

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        """Where each partition is served now; a partition with a log is known for ever."""
        routes = []
        for key in keys:
            route = self._state.route(PartitionKey(*key))
            if not route.known:
                prefix = self._keys.log(PartitionKey(*key).named(""))
                route = route._replace(
                    known=bool(await self._backend.get_like(prefix, limit=1))
                )
            routes.append(route)
        return routes

    async def status(self) -> dict[str, Any]:
        """Hosts, partitions and brokers as the coordinator knows them."""
        return {
            "position": self._state.next_position - 1,
            "hosts": dict(self._state.hosts),
            "brokers": {
                broker: {"incarnation": number, "announced": self._state.announced.get(broker)}
                for broker, number in sorted(self._state.incarnations.items())
            },
            "partitions": len(self._state.partitions),
        }

    async def _request(self, decide: Callable[[], list[CoordinatorBody]]) -> None:
        async with self._turn:
            while True:
                refusal: RemoteStorageError | None = None
                bodies: list[CoordinatorBody] = []
                try:
                    bodies = decide()
                except RemoteStorageError as error:
                    refusal = error
                if bodies and await self._append(bodies):
                    break
                # What appends nothing is a read: it may be said at the end of the log only.
                if not bodies and not await self._reads_on():
                    if refusal is not None:
                        raise refusal
                    return
            await self._place()

    async def _place(self) -> None:
        while bodies := rules.place(self._state):
            if await self._append(bodies):
                return

    # The log.

    async def _reads_on(self) -> bool:
        """Whether another coordinator has written meanwhile; that is taken over then."""
        known = self._next_batch
        await self._tell(await self._read_log())
        return self._next_batch > known

    async def _read_log(self) -> list[HostWork]:
        """Read on to the end of the log; what hosts have to be told because of it."""
        prefix, key_of = self._keys.coordinator_log(), self._keys.coordinator_batch
        works: list[HostWork] = []
        while True:
            number = self._next_batch
            after = key_of(number - 1) if number else None
            found = await self._backend.get_like(prefix, after=after, limit=BATCHES_PER_READ)
            for expected, (key, value) in enumerate(found, number):
                if key != key_of(expected):
                    raise CorruptLog(f"coordinator: expected batch {expected}, got {key}")
                works += self._evolve(value)
            if len(found) < BATCHES_PER_READ:
                return works

    def _evolve(self, value: bytes) -> list[HostWork]:
        state = self._state
        first, _, stored = self._serde.deserialize("batch", value)
        events, state.chain_hash = COORDINATOR_CODEC.decode(
            stored, state.next_position, state.chain_hash
        )
        if first != events[0].position:
            raise CorruptLog(f"coordinator: batch {self._next_batch} starts at {first}")
        self._next_batch += 1
        return [work for event in events for work in rules.evolve(state, event)]

    async def _append(self, bodies: list[CoordinatorBody]) -> bool:
        """Make `bodies` durable and act on them; false if another coordinator was first."""
        value = self._encode(bodies)
        key = self._keys.coordinator_batch(self._next_batch)
        try:
            (outcome,) = await self._backend.create_each([(key, value)])
        except OutcomeUnknown:
            outcome = CreateOutcome.EXISTS
        if outcome is CreateOutcome.EXISTS:
            stored = await self._read_slot(key)
            if stored is None:
                return await self._append(bodies)
            if stored != value:
                await self._reads_on()  # Who wrote it may have died before telling anybody.
                return False
        await self._tell(self._evolve(value))
        return True

    async def _read_slot(self, key: str) -> bytes | None:
        while True:
            try:
                return await self._backend.get(key)
            except (OutcomeUnknown, NotReady):
                await self._revive_writer()

    def _encode(self, bodies: list[CoordinatorBody]) -> bytes:
        position, previous = self._state.next_position, self._state.chain_hash
        stored = []
        for offset, body in enumerate(bodies):
            event = Event(position + offset, 0, self._clock.now_ms(), -1, None, body)  # type: ignore[arg-type]
            stored.append(COORDINATOR_CODEC.encode(event, previous))
            previous = chain(stored[-1])
        return self._serde.serialize("batch", [position, len(stored), stored])

    # Hosts.

    async def _tell(self, works: list[HostWork]) -> None:
        for work in works:
            host = self._hosts.get(work.host)
            if host is None:
                continue
            try:
                if work.closes:
                    await host.close_sessions(work.closes)
                if work.placements:
                    await host.place(work.placements)
            except RemoteStorageError as error:
                # The watch finds out whether it lives; a living one is told again then.
                self._untold.setdefault(work.host, []).append(work)
                _log.warning("a host was not told", host=work.host, error=str(error))

    async def _host_joined(self, name: str, host: HostHandle) -> None:
        said = await host.ping()
        self._untold.pop(name, None)
        while bodies := rules.host_started(self._state, name, said["process"]):
            if await self._append(bodies):
                break
        else:
            await self._tell([rules.standing_work(self._state, name)])

    async def _watch_hosts(self) -> None:
        missed = dict.fromkeys(self._host_names, 0)
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            for name in self._host_names:
                try:
                    missed[name] = await self._look_at(name, missed[name])
                except RemoteStorageError as error:
                    # Whatever it was, the next round meets it again; the watch must not end.
                    _log.warning("a look at a host failed", host=name, error=str(error))

    async def _look_at(self, name: str, missed: int) -> int:
        """How many pings in a row the host has missed now."""
        try:
            async with asyncio.timeout(PING_TIMEOUT_S):
                said = await self._hosts[name].ping()
        except TimeoutError:
            if missed + 1 < PINGS_MISSED:
                return missed + 1
            await self._replace(name)
        except RemoteStorageError:
            await self._replace(name)
        else:
            await self._heard_from(name, said)
        return 0

    async def _heard_from(self, name: str, said: dict[str, Any]) -> None:
        async with self._turn:
            if self._state.hosts.get(name) != said["process"]:
                await self._host_joined(name, self._hosts[name])
            await self._tell(self._untold.pop(name, []))
            for key, assignment in said["lost"]:
                while bodies := rules.leader_lost(self._state, PartitionKey(*key), assignment):
                    if await self._append(bodies):
                        break
            await self._place()

    async def _replace(self, name: str) -> None:
        """End what is left of a host, start another under its name, and give it the work."""
        _log.warning("host is gone; starting another", host=name)
        async with self._turn:
            await self._restart(name)
            await self._host_joined(name, self._hosts[name])
            await self._place()

    async def _revive_writer(self) -> None:
        """The host that writes for us is gone: without another nothing can be written."""
        name = self._host_names[0]
        try:
            async with asyncio.timeout(PING_TIMEOUT_S):
                await self._hosts[name].ping()
        except (RemoteStorageError, TimeoutError):
            await self._restart(name)

    async def _restart(self, name: str) -> None:
        await self._launcher.end(name)
        self._hosts[name] = await self._launcher.launch(name)
