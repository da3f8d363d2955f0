"""A service in this process, brokers that use it, and direct access to its store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from inspect import isawaitable
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Self

from tests.models.actors.harness import SERDE
from tierledger.actors.calls import LEADER, CountsCall, PartitionKey, ReadyCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.router import Router
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.breaker import BreakerShares
from tierledger.actors.coordinator.events import Route
from tierledger.actors.door.client.connection import connect_at
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.host.host import Host
from tierledger.actors.host_settings import ServiceSettings, limits_of
from tierledger.actors.local_service import LocalService
from tierledger.actors.ports import LeaderOracle
from tierledger.events.commands import Claim
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import Event
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from tierledger.events.partition.decide import Limits
from tierledger.simulation.live.server import free_ports
from tierledger.storage.backend import MetadataStorageBackend, Put
from tierledger.storage.clock import Clock
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.event_log import EventLog, decode_batch

CLUSTER = "cluster-1"
KEYS = DefaultMetadataKeyFactory(CLUSTER)
TOPIC_ID = Uuid(bytes(range(16)))
DEADLINE_S = 20.0
HASTY_S = 0.8
"""Deadline of calls that are to fail; see `hasty`."""

POLL_S = 0.002
"""Pause between two polls of a condition without an event."""

EVENTUALLY_S = 300
"""How long it is polled, in real time: less than a test may take, whose end tells nothing."""

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class TickingClock:
    """A clock that moves on by 1 ms each time it is read."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._ticks = count(start_ms)

    def now_ms(self) -> int:
        return next(self._ticks)


class CountedIds:
    """Request ids that are unique within a run, and the same in each run."""

    _prefix = count()

    def __init__(self) -> None:
        self._mine = next(self._prefix).to_bytes(8, "big")
        self._count = count()

    def request_id(self) -> bytes:
        return self._mine + next(self._count).to_bytes(4, "big")


class LocalWorld:
    """One store, and at most one service on it at a time."""

    def __init__(
        self,
        storage: Mapping[str, str],
        hosts: int = 1,
        *,
        clock: Clock | None = None,
        oracle: LeaderOracle | None = None,
        door: bool | DoorSettings = False,
        cluster: str = CLUSTER,
        breaker: BreakerShares | None = None,
    ) -> None:
        """`door`: brokers connect through the hosts' doors, as other processes do."""
        if door is True:
            door = DoorSettings(f"127.0.0.1:{free_ports(hosts)}")
        self.door = door or None
        self.storage = dict(storage)
        self.cluster = cluster
        self.breaker = breaker or BreakerShares()
        self.hosts = hosts
        self.clock = clock or TickingClock()
        self.oracle = oracle
        self._service: LocalService | None = None
        self.opened = AsyncExitStack()
        """Managers and routers, which are closed before the service."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def service(self) -> LocalService:
        assert self._service is not None, "the service runs"
        return self._service

    async def start(self) -> None:
        settings = ServiceSettings(
            self.cluster, self.storage, limits_of(self.storage), breaker=self.breaker
        )
        self._service = LocalService(settings, self.clock, self.hosts, self.oracle, self.door)
        await self._service.start()

    async def stop(self) -> None:
        """Close the managers, then the service; the store keeps its content."""
        await self.opened.aclose()
        service, self._service = self._service, None
        if service is not None:
            await service.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def way(self) -> Callable[[ServiceSettings], Awaitable[ServiceConnection]]:
        """The connector by which a manager reaches the service."""
        if self.door is None:
            return self.service.connect
        return connect_at(await self.service.url())

    async def broker(
        self,
        broker_id: int = 1,
        more: Mapping[str, object] | None = None,
    ) -> AsyncRemoteLogMetadataManager:
        """A configured manager of broker `broker_id`."""
        manager = AsyncRemoteLogMetadataManager(
            await self.way(), CountedIds(), deadline_s=DEADLINE_S
        )
        identity = {"cluster.id": self.cluster, "broker.id": broker_id}
        await manager.configure({**self.storage, **identity, **(more or {})})
        self.opened.push_async_callback(manager.close)
        return manager

    async def leader(
        self,
        *tips: TopicIdPartition,
        broker_id: int = 1,
        more: Mapping[str, object] | None = None,
    ) -> AsyncRemoteLogMetadataManager:
        """A manager that leads `tips` and is ready."""
        manager = await self.broker(broker_id, more)
        await manager.on_partition_leadership_changes(tips, [])
        for tip in tips:
            await eventually(partial(manager.is_ready, tip))
        return manager

    async def follower(
        self, *tips: TopicIdPartition, broker_id: int = 2
    ) -> AsyncRemoteLogMetadataManager:
        manager = await self.broker(broker_id)
        await manager.on_partition_leadership_changes([], tips)
        await manager.when_ready(tips)
        return manager

    async def router(self) -> Router:
        """A router to the service, without a manager."""
        settings = ServiceSettings(self.cluster, self.storage)
        link = ServiceLink(lambda: self.service.connect(settings))
        router = Router(link, DEADLINE_S, b"router")
        self.opened.push_async_callback(router.close)
        return router

    async def until_led(self, tip: TopicIdPartition, claim: Claim) -> None:
        """Return once the session of `claim` is open on the first host."""
        call = ReadyCall(PartitionKey.of(tip), LEADER, claim)
        await eventually(lambda: self.service.host("host-0").host.call(call))

    async def is_idle(self) -> bool:
        """Whether no leader and no follower runs on the first host."""
        counts = await self.service.host("host-0").ask(CountsCall())
        return not counts["leaders"] + counts["followers"]

    async def route(self, tip: TopicIdPartition) -> Route:
        """The partition's route in the coordinator's state."""
        (route,) = await self.service.coordinator.route([PartitionKey.of(tip)])
        return route

    async def coordinator_position(self) -> int:
        position: int = (await self.service.coordinator.status())["position"]
        return position

    async def alarms(self, host: str = "host-0") -> dict[str, int]:
        found: dict[str, int] = (await self.service.host(host).ask(CountsCall()))["alarms"]
        return found

    # Around the service.

    async def events(self, tip: TopicIdPartition) -> list[Event]:
        """All events of a partition's log, verified."""
        connector = ServiceSettings(self.cluster, self.storage).connector()
        backend = await connector.backend(read_only=True)
        events: list[Event] = []
        previous = genesis(self.cluster, tip.topic_id, tip.partition)
        try:
            async for batch in EventLog(
                backend, DefaultMetadataKeyFactory(self.cluster), tip
            ).batches():
                decoded = decode_batch(SERDE, batch, len(events), previous)
                events += decoded.events
                previous = decoded.chain_hash
        finally:
            await backend.close()
        return events

    async def change_store(self, change: Callable[[str, bytes], bytes | None]) -> int:
        """Replace each stored value for which `change` returns one; no service may run.

        Returns how many values were replaced.
        """
        assert self._service is None, "the store has one writer"
        connector = ServiceSettings(self.cluster, self.storage).connector()
        backend = await connector.backend(read_only=False)
        found = await backend.get_like("", limit=100_000)
        changed = [(key, change(key, value)) for key, value in found]
        puts = [Put(key, value) for key, value in changed if value is not None]
        await backend.execute_atomically(puts)
        await backend.close()
        return len(puts)


def partition(number: int = 0) -> TopicIdPartition:
    return TopicIdPartition(TOPIC_ID, number, "orders")


def segment(
    number: int, tip: TopicIdPartition | None = None, *, size: int = 10, epoch: int = 0
) -> RemoteLogSegmentMetadata:
    """The metadata of a started copy of the ten offsets from 10 * `number` on."""
    start = 10 * number
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(
            tip or partition(), Uuid(number.to_bytes(16, "big"))
        ),
        start_offset=start,
        end_offset=start + 9,
        max_timestamp_ms=5,
        broker_id=1,
        event_timestamp_ms=6,
        segment_size_in_bytes=size,
        state=STARTED,
        segment_leader_epochs={epoch: start},
    )


def moved(
    added: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState = FINISHED,
    custom: bytes | None = None,
) -> RemoteLogSegmentMetadataUpdate:
    """The update that moves a segment on to `state`."""
    metadata = None if custom is None else CustomMetadata(custom)
    return RemoteLogSegmentMetadataUpdate(added.remote_log_segment_id, 7, state, 1, metadata)


@contextmanager
def hasty(
    manager: AsyncRemoteLogMetadataManager, deadline_s: float = HASTY_S
) -> Iterator[None]:
    """Calls of `manager` that begin meanwhile end soon: for those alone that are to fail."""
    router = manager._router
    assert router is not None, "the manager is configured"
    patient, router._deadline_s = router._deadline_s, deadline_s
    try:
        yield
    finally:
        router._deadline_s = patient


async def copy(
    manager: AsyncRemoteLogMetadataManager, *segments: RemoteLogSegmentMetadata
) -> int:
    """Write that `segments` are copied and finished; returns the last write's position."""
    position = -1
    for added in segments:
        await manager.add_remote_log_segment_metadata(added)
        position = await manager.update_remote_log_segment_metadata(moved(added))
    return position


async def listed(
    manager: AsyncRemoteLogMetadataManager, tip: TopicIdPartition | None = None
) -> list[int]:
    """The numbers of all segments that the manager lists, in order."""
    found = manager.list_remote_log_segments(tip or partition())
    return sorted([one.start_offset // 10 async for one in found])


async def eventually(holds: Callable[[], Any], pause_s: float = POLL_S) -> None:
    """Let other tasks run until `holds()`, or its awaited result, is true."""
    until = monotonic() + EVENTUALLY_S
    while not (await found if isawaitable(found := holds()) else found):
        assert monotonic() < until, f"not so within {EVENTUALLY_S} s"
        await asyncio.sleep(pause_s)


async def lead(manager: AsyncRemoteLogMetadataManager, *tips: TopicIdPartition) -> None:
    """Announce that the manager's broker leads `tips`; returns once it does."""
    await manager.on_partition_leadership_changes(tips, [])
    await manager.when_ready(tips)


def sqlite_in(folder: Path) -> dict[str, str]:
    """The settings of a SQLite store in `folder`."""
    return {"metadata.storage.url": f"sqlite:{folder / 'store.sqlite'}"}


def lone_host(
    backend: MetadataStorageBackend, give_up: Callable[[], None] = lambda: None
) -> Host:
    """A host on `backend` that no coordinator knows, not yet started."""
    return Host(
        "host-0",
        process="host-0/1/x",
        pid=1,
        cluster_id=CLUSTER,
        backend=backend,
        keys=KEYS,
        serde=SERDE,
        limits=Limits(),
        clock=TickingClock(),
        give_up=give_up,
    )
