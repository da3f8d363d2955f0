"""Simulated brokers: they believe every notification, and call the service as they are told.

A broker writes for a partition from the notification that it leads until one that it does not,
even if another broker leads meanwhile. So zombies are frequent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from tierledger.actors.calls import LEADER
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.messages import Query
from tierledger.events.commands import NO_CLAIM, Claim, ImportedRecord
from tierledger.events.errors import Fenced, NotLeader, OutcomeUnknown, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.simulation.history.recorded_client import (
    KnownIds,
    NamedIds,
    RecordedClient,
)
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.struck import RECORDED_MS, Heard
from tierledger.simulation.service.guards import BrokersStorage
from tierledger.simulation.service.replicas import BrokerReplicas, FedNotes
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.streams import doors_of
from tierledger.simulation.service.virtual_loop import VirtualProcess

_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

READY_FIRST_S, READY_LAST_S = 0.06, 1.0
"""Pauses before a broker asks again if its replica is ready; they double up to the last."""

Connecting: TypeAlias = "Callable[[ServiceSettings], Awaitable[ServiceConnection]]"


class CallerOfClient:
    """One who makes one call after the other."""

    def __init__(self, client: RecordedClient) -> None:
        self.client = client
        self.is_busy = False


class Broker:
    """One process of a broker, with a manager."""

    def __init__(
        self,
        world: Stage,
        connect: Connecting,
        fenced: Callable[[Broker], None],
        broker_id: int,
        number: int,
        *,
        import_cluster: str | None = None,
        fed: FedNotes | None = None,
    ) -> None:
        """`fed`: notes what this broker's replicas are fed; None: it keeps none.

        `fenced` is called when the service refuses an announcement as out of date.
        """
        self.life = VirtualProcess(f"broker-{broker_id}", number)
        self.broker_id = broker_id
        self.import_cluster = import_cluster
        """The cluster whose recorded history this importer imports; None for a broker."""
        self.is_fenced = False
        self.led: dict[int, int] = {}
        """By partition that this broker believes it leads, the epoch it was notified of."""
        self.ready: dict[int, Claim] = {}
        """By partition, the claim for which its replica was last said to be ready."""
        self.replicas: BrokerReplicas | None = None
        """Its replicas, once it is registered."""
        self._fed = fed
        self._asking: set[tuple[int, str, Claim]] = set()
        self._announcing = 0
        self._world = world
        self._fenced = fenced
        self._known_ids = KnownIds(NamedIds(self.life.name))
        self._manager = AsyncRemoteLogMetadataManager(
            connect, self._known_ids, deadline_s=world.scenario.patience / S
        )
        self._storage: BrokersStorage | None = None
        if world.scenario.guarded and import_cluster is None:
            self._storage = BrokersStorage(world, self.life, self._manager, broker_id=broker_id)
        self._callers: dict[tuple[int, int, str], CallerOfClient] = {}
        self._configured: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to register. Announcements and reads wait until the broker is registered."""
        self._configured = self._world.loop.spawn(self.life, self._configure())

    async def _configure(self) -> None:
        config = {"cluster.id": self._world.cluster_id, "broker.id": str(self.broker_id)}
        while True:
            try:
                await self._manager.configure(config)
            except RemoteStorageError:
                await asyncio.sleep(0.2)
            else:
                break
        if self._storage is not None:
            self._world.loop.spawn(self.life, self._storage.purge())
        if self._fed is not None:
            doors = doors_of(self._world.scenario.hosts)
            self.replicas = BrokerReplicas(self._fed, self.life, self.broker_id, doors)

    async def _ready(self) -> None:
        assert self._configured is not None, "a broker is started before it is told anything"
        await asyncio.shield(self._configured)

    # Notifications.

    @property
    def has_unannounced(self) -> bool:
        """Whether it waits for the answer to an announcement."""
        return self._announcing > 0 and not (self.is_fenced or self.life.is_dead)

    def notify(
        self,
        leads: dict[int, int],
        follows: list[int],
        stops: list[int],
        carries_epochs: bool,
    ) -> None:
        """A notification from the controller arrives: announce it, and begin to copy."""
        self._announcing += 1
        work = self._announce(leads, follows, stops, carries_epochs)
        self._world.loop.spawn(self.life, work)

    async def _announce(
        self,
        leads: dict[int, int],
        follows: list[int],
        stops: list[int],
        carries_epochs: bool,
    ) -> None:
        for number in (*follows, *stops):
            self.led.pop(number, None)
        await self._ready()
        manager, tips = self._manager, self._world.tips
        led = {tips[number]: epoch for number, epoch in leads.items()}
        try:
            if self.import_cluster is None:
                await manager.on_partition_leadership_changes(
                    list(led),
                    [tips[number] for number in follows],
                    leader_epochs=led if carries_epochs else {},
                )
            elif led:
                times = dict.fromkeys(led, RECORDED_MS)
                await manager.announce_import(times, [], self.import_cluster)
            if stops:
                await manager.on_stop_partitions([tips[number] for number in stops])
        except Fenced:
            self.is_fenced = True
            self._world.recording.mark("broker fenced by its own later life")
            self._fenced(self)
            return
        except RemoteStorageError as error:
            self._world.recording.mark("announcement failed")
            self._world.recording.event("announcement failed", type(error).__name__)
        finally:
            self._announcing -= 1
        await self._renew_replicas([*leads, *follows], stops)
        self.led.update(leads)
        for number in (*leads, *follows):
            self._world.loop.spawn(self.life, self._ask_ready(number))

    async def _renew_replicas(self, numbers: list[int], stops: list[int]) -> None:
        if self.replicas is None:
            return
        for number in numbers:
            if known := self.role(number):
                await self.replicas.renew(number, *known)
        for number in stops:
            await self.replicas.drop(number)

    def role(self, number: int) -> tuple[str, Claim] | None:
        """What the broker has announced of a partition last, and its claim; None: nothing."""
        roles = self._manager._roles
        return None if roles is None else roles._claims.get(self._world.keys_of[number])

    async def _ask_ready(self, number: int) -> None:
        """Ask whether the replica is ready until it is, or is wanted in another role."""
        known = self.role(number)
        if known is None or known[1] == NO_CLAIM or (number, *known) in self._asking:
            return
        self._asking.add((number, *known))
        pause_s = READY_FIRST_S
        while self.role(number) == known and not self.is_fenced:
            with suppress(RemoteStorageError):
                if await self._manager.is_ready(self._world.tips[number]):
                    self.ready[number] = known[1]
                    break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, READY_LAST_S)
        self._asking.discard((number, *known))

    # Calls.

    def caller(self, partition: int, number: int, what: str) -> CallerOfClient:
        caller = self._callers.get((partition, number, what))
        if caller is None:
            name = f"{self.life.name}/{partition}/{what}{number}"
            client = RecordedClient(self._manager, self._known_ids, self._world.recorder, name)
            caller = self._callers[partition, number, what] = CallerOfClient(client)
        return caller

    def write(
        self,
        partition: int,
        caller: CallerOfClient,
        wanted: KafkaValue,
        what: str,
        then: Heard,
    ) -> None:
        """Begin a write, if there is a claim to lead.

        When the write ends, `then` is called with its error, or None.
        """
        self._write(partition, caller, partial(self._begun, wanted), what, wanted, then)

    def import_records(
        self,
        partition: int,
        caller: CallerOfClient,
        records: tuple[ImportedRecord, ...],
        then: Heard,
    ) -> None:
        """Begin an import of recorded history, if there is a claim to lead."""
        begun = partial(self._manager.import_records, self._world.tips[partition], records)
        self._write(partition, caller, begun, "import", None, then)

    def _write(
        self,
        partition: int,
        caller: CallerOfClient,
        begun: Callable[[], Awaitable[int]],
        what: str,
        wanted: KafkaValue | None,
        then: Heard,
    ) -> None:
        tip = self._world.tips[partition]
        if self._configured is None or not self._configured.done():
            return  # An importer does not wait for its announcement.
        if self._manager.claim_to_lead(tip) in (None, NO_CLAIM):
            return  # Nobody may ever have announced the partition, which is then unknown.

        decision = self._world.struck

        async def write() -> None:
            self._world.begins_call(decision)
            error = await caller.client.write(tip, begun(), what, wanted)
            if isinstance(error, OutcomeUnknown):
                self._world.recording.mark("write ended in doubt")
            caller.is_busy = False
            then(error)

        caller.is_busy = True
        self._world.loop.spawn(self.life, write())

    def _begun(
        self, wanted: KafkaValue, cause: DeletionCause = DeletionCause.RETENTION
    ) -> Awaitable[int]:
        match wanted:
            case RemoteLogSegmentMetadata():
                return self._manager.add_remote_log_segment_metadata(wanted)
            case RemoteLogSegmentMetadataUpdate():
                if self._storage is not None and wanted.state == _DELETING:
                    return self._storage.begin(wanted, cause)
                return self._manager.update_remote_log_segment_metadata(wanted)
            case RemotePartitionDeleteMetadata():
                return self._manager.put_remote_partition_delete_metadata(wanted)
            case _:
                raise AssertionError(f"no broker writes {wanted!r}")

    def erase(
        self, partition: int, caller: CallerOfClient, segment_id: bytes, then: Heard
    ) -> None:
        """Delete the data of a segment; when that ends, `then` is called with its error."""
        storage, tip = self._storage, self._world.tips[partition]
        assert storage is not None, "this world has a tier"

        async def erase() -> None:
            error = None
            try:
                await storage.erase(caller.client, tip, segment_id)
            except RemoteStorageError as raised:
                error = raised
            caller.is_busy = False
            then(error)

        caller.is_busy = True
        self._world.loop.spawn(self.life, erase())

    def delete_topic(self, partition: int) -> None:
        """Delete all segments of a partition whose topic is deleted, as far as it goes.

        As Kafka does: first all deletions begin, then all data goes, and then they end.
        """
        caller = self.caller(partition, 8, "delete")
        if not caller.is_busy and self._storage is not None:
            caller.is_busy = True
            self._world.loop.spawn(self.life, self._delete_all(partition, caller))

    async def _delete_all(self, partition: int, caller: CallerOfClient) -> None:
        await self._ready()
        tip = self._world.tips[partition]
        answer = await caller.client.read(tip, LEADER, Query("list"))
        rows: Any = () if isinstance(answer, RemoteStorageError) else answer.value
        segments = [id_of_row(row) for row in rows]
        with suppress(RemoteStorageError):
            await self._delete_segments(tip, caller.client, segments)
        caller.is_busy = False

    async def _delete_segments(
        self, tip: TopicIdPartition, client: RecordedClient, segments: list[bytes]
    ) -> None:
        storage = self._storage
        assert storage is not None, "this world has a tier"
        for segment_id in segments:
            await self._delete_step(tip, client, segment_id, _DELETING)
        for segment_id in segments:
            await storage.erase(client, tip, segment_id)
        for segment_id in segments:
            await self._delete_step(tip, client, segment_id, _DELETED)

    async def _delete_step(
        self,
        tip: TopicIdPartition,
        client: RecordedClient,
        segment_id: bytes,
        state: RemoteLogSegmentState,
    ) -> None:
        if self._manager.claim_to_lead(tip) in (None, NO_CLAIM):
            raise NotLeader("another broker leads it now")
        update = RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=RemoteLogSegmentId(tip, Uuid(segment_id)),
            event_timestamp_ms=1,
            custom_metadata=None,
            state=state,
            broker_id=self.broker_id,
        )
        begun = self._begun(update, DeletionCause.TOPIC)
        error = await client.write(tip, begun, "delete with the topic", update)
        if error is not None:
            raise error

    def read(
        self, partition: int, caller: CallerOfClient, role: str, query: Query, then: Heard
    ) -> None:
        """Begin a read; when it ends, `then` is called with its error, or None."""
        decision = self._world.struck

        async def read() -> None:
            await self._ready()
            self._world.begins_call(decision)
            answer = await caller.client.read(self._world.tips[partition], role, query)
            caller.is_busy = False
            if isinstance(answer, RemoteStorageError):
                then(answer)
                return
            if answer.stale:
                self._world.recording.mark("stale answer, marked as stale")
            then(None)

        caller.is_busy = True
        self._world.loop.spawn(self.life, read())
