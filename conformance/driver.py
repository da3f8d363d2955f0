"""Feeds a trace through live leaders, while it changes leaders and disturbs the service."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.no_brokers import REPLAY
from tierledger.conformance.answers import After
from tierledger.conformance.churn import Disturbance, PlannedDisturbance
from tierledger.conformance.loaded_trace import (
    FedPartition,
    LoadedTrace,
    broker_of,
    runs_by_broker,
)
from tierledger.conformance.services import Service
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import Fenced, NotLeader, RejectedError, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

STAND_IN = 1_000_000
"""Added to a broker's id, for a stand-in that takes over the broker's partition for a while."""

DEADLINE_S = 150.0
"""Deadline of a call in seconds. A killed host's successor has to start: Python and Ray take
2 s of a core, half a minute at load 16, and it may be killed in turn. The coordinator itself
gives the one host that may write to the store 120 s to start."""

FED_AT_ONCE = 16
"""Partitions that are fed concurrently."""

ATTEMPTS = 5
"""Attempts to announce and send a run of records; one fails if another broker took the lead."""


class Driver:
    """Owns the managers of all brokers in a replay."""

    def __init__(
        self,
        service: Service,
        trace: LoadedTrace,
        *,
        strict: bool,
        churn: Sequence[PlannedDisturbance],
        progress: Callable[[int], None],
    ) -> None:
        """`progress` is called with the number of records just fed."""
        self.observer = service.manager(DEADLINE_S)
        self.counts: Counter[str] = Counter()
        self.refusals: list[tuple[ImportedRecord, RemoteStorageError]] = []
        self._service = service
        self._trace = trace
        self._strict = strict
        self._churn = list(churn)
        self._progress = progress
        self._managers: dict[int, AsyncRemoteLogMetadataManager] = {}
        """By broker; all of them are configured."""
        self._making_manager = asyncio.Lock()
        self._leaders: dict[TopicIdPartition, int] = {}
        """The broker that leads each partition; none of one that was stopped."""
        self._locks: dict[TopicIdPartition, asyncio.Lock] = {
            part.topic_id_partition: asyncio.Lock() for part in trace.partitions
        }
        self._disturbing = asyncio.Lock()
        self._fed = 0

    async def start(self) -> None:
        """Announce all partitions: led by the first record's broker, followed by `REPLAY`."""
        await self.observer.configure(self._config(REPLAY))
        self._managers[REPLAY] = self.observer
        first: dict[int, list[FedPartition]] = {}
        for part in self._trace.partitions:
            first.setdefault(broker_of(part.records[0]), []).append(part)
        for broker_id, parts in first.items():
            manager = await self._manager(broker_id)
            if self._strict:
                await manager.on_partition_leadership_changes(
                    [part.topic_id_partition for part in parts], []
                )
            else:
                times = {
                    part.topic_id_partition: part.records[0].timestamp_ms for part in parts
                }
                await manager.announce_import(times, [], self._trace.origin)
            for part in parts:
                self._leaders[part.topic_id_partition] = broker_id
        tips = [part.topic_id_partition for part in self._trace.partitions]
        await self.observer.on_partition_leadership_changes([], tips)
        for broker_id, parts in first.items():
            manager = await self._manager(broker_id)
            await manager.when_ready([part.topic_id_partition for part in parts])
        await self.observer.when_ready(tips)

    async def feed(self, after: After) -> None:
        """Feed every partition up to `after`; later answers are as of then or later."""
        gate = asyncio.Semaphore(FED_AT_ONCE)

        async def feed_one(part: FedPartition) -> None:
            async with gate:
                await self._feed(part, after)

        try:
            async with asyncio.TaskGroup() as group:
                for part in self._trace.partitions:
                    group.create_task(feed_one(part))
        except* RemoteStorageError as failed:
            raise _first(failed) from failed
        for part in self._trace.partitions:
            await self._ensure_led(part)

    async def close(self) -> None:
        """Stop all partitions, so that they are checkpointed, and close all managers."""
        tips = [part.topic_id_partition for part in self._trace.partitions]
        for manager in self._managers.values():
            await manager.on_stop_partitions(tips)
            await manager.close()

    async def _feed(self, part: FedPartition, after: After) -> None:
        tip = part.topic_id_partition
        for broker_id, run in runs_by_broker(part.due(after)):
            async with self._locks[tip]:
                position = await self._feed_run(tip, broker_id, run)
            self.observer.observe(tip, position)
            part.fed += len(run)
            self._fed += len(run)
            self._progress(len(run))
            await self._disturb()

    async def _ensure_led(self, part: FedPartition) -> None:
        """Let a stopped partition be led again, so that its leader can be asked."""
        tip = part.topic_id_partition
        async with self._locks[tip]:
            if tip not in self._leaders:
                last = part.records[max(part.fed - 1, 0)]
                await self._lead(tip, broker_of(last), last.timestamp_ms)

    async def _feed_run(
        self, tip: TopicIdPartition, broker_id: int, run: list[ImportedRecord]
    ) -> int:
        manager = await self._manager(broker_id)
        unsent = deque(run)
        for attempt in range(ATTEMPTS):
            await self._lead(tip, broker_id, run[0].timestamp_ms)
            try:
                if self._strict:
                    return await self._send_each(manager, unsent)
                return await manager.import_records(tip, run)
            except (Fenced, NotLeader):
                self._leaders.pop(tip, None)
                if attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _lead(self, tip: TopicIdPartition, broker_id: int, time_ms: int) -> None:
        """Let `broker_id` lead; the former leader follows, or stops hosting the partition."""
        former = self._leaders.get(tip)
        if former == broker_id:
            return
        manager = await self._manager(broker_id)
        if self._strict:
            await manager.on_partition_leadership_changes([tip], [])
        else:
            await manager.announce_import({tip: time_ms}, [], self._trace.origin)
        if former is not None:
            self.counts["leadership changes"] += 1
            before = await self._manager(former)
            if self.counts["leadership changes"] % 2:
                await before.on_partition_leadership_changes([], [tip])
            else:
                await before.on_stop_partitions([tip])
                self.counts["stops by one broker"] += 1
        self._leaders[tip] = broker_id
        await manager.when_ready([tip])

    async def _send_each(
        self, manager: AsyncRemoteLogMetadataManager, unsent: deque[ImportedRecord]
    ) -> int:
        """Send records as commands; each that was answered is removed from `unsent`."""
        position = -1
        while unsent:
            item = unsent[0]
            value = item.record.value
            try:
                match value:
                    case RemoteLogSegmentMetadata():
                        position = await manager.add_remote_log_segment_metadata(value)
                    case RemoteLogSegmentMetadataUpdate():
                        position = await manager.update_remote_log_segment_metadata(value)
                    case RemotePartitionDeleteMetadata():
                        position = await manager.put_remote_partition_delete_metadata(value)
                    case _:
                        raise AssertionError("snapshots are refused when the trace is loaded")
            except RejectedError as error:
                self.refusals.append((item, error))
            unsent.popleft()
        return position

    # Disturbances.

    async def _disturb(self) -> None:
        async with self._disturbing:
            while self._churn and self._churn[0].after <= self._fed:
                planned = self._churn.pop(0)
                self.counts[planned.kind.value + "s"] += 1
                await self._strike(planned)

    async def _strike(self, planned: PlannedDisturbance) -> None:
        part = self._trace.partitions[planned.victim]
        tip = part.topic_id_partition
        match planned.kind:
            case Disturbance.HOST_KILL:
                await self._service.kill_host(planned.victim)
            case Disturbance.LEADERSHIP_CHANGE:
                async with self._locks[tip]:
                    at = min(part.fed, len(part.records) - 1)
                    stand_in = STAND_IN + broker_of(part.records[at])
                    await self._lead(tip, stand_in, part.records[at].timestamp_ms)
            case Disturbance.PARTITION_STOP:
                async with self._locks[tip]:
                    # A copy: another partition may meet a new broker meanwhile.
                    for manager in list(self._managers.values()):
                        await manager.on_stop_partitions([tip])
                    self._leaders.pop(tip, None)
                    await self.observer.on_partition_leadership_changes([], [tip])

    async def _manager(self, broker_id: int) -> AsyncRemoteLogMetadataManager:
        # Partitions that meet a new broker at once wait for its one manager.
        async with self._making_manager:
            manager = self._managers.get(broker_id)
            if manager is None:
                manager = self._service.manager(DEADLINE_S)
                await manager.configure(self._config(broker_id))
                self._managers[broker_id] = manager
            return manager

    def _config(self, broker_id: int) -> dict[str, object]:
        settings = self._service.settings
        return {
            **settings.storage,
            "cluster.id": settings.cluster_id,
            "broker.id": broker_id,
        }


def _first(group: BaseExceptionGroup[RemoteStorageError]) -> RemoteStorageError:
    """The first of the errors that stopped the feeding."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
