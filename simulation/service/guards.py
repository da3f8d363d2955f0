"""The storage manager of a broker, with or without a guard, and what its plugin does for that.

A short model of `GuardedRemoteStorageManager` and `Purges` of the plugin: the guard asks the
broker's own manager before it deletes, and the plugin has it purge what the service gives.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.purge_requests import NextPurge, ToPurge
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import NotReady, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.events.tables.segment_rows import STATE, id_of_row, unpack_row
from tierledger.simulation.history.recorded_client import RecordedClient
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.virtual_loop import VirtualProcess

ERASING_S = 0.01
"""Virtual time (s) that the tier takes to delete a segment's data."""

IDLE_S = 0.2
"""Pause (s) of a plugin that was given nothing to purge."""

FAILED_S = 3.0
"""Pause (s) after a failure: all guards wait for one coordinator, and a call has 2 s."""

PAUSE_S = 0.03
"""Pause (s) after each segment that was purged."""

ERASING, ERASED = "erasing", "erased"
"""Points at which a broker may meet a fault: before the tier deletes, and before it says so."""


class BrokersStorage:
    """The storage manager of one process of a broker."""

    def __init__(
        self,
        world: Stage,
        life: VirtualProcess,
        manager: AsyncRemoteLogMetadataManager,
        *,
        broker_id: int,
    ) -> None:
        self.is_guarded = world.scenario.guarded[broker_id % len(world.scenario.guarded)]
        self._world, self._life, self._manager = world, life, manager
        self._broker_id = broker_id

    async def begin(self, update: RemoteLogSegmentMetadataUpdate, cause: DeletionCause) -> int:
        """Write that a deletion begins, with the guard's mark."""
        guarded_for = cause if self.is_guarded else None
        return await self._manager._write(
            update.topic_id_partition,
            lambda claim, origin: cmd.UpdateSegment(claim, origin, update, guarded_for),
        )

    async def erase(
        self, client: RecordedClient, tip: TopicIdPartition, segment_id: bytes
    ) -> None:
        """Delete a segment's data, if the broker's manager lets it go.

        Raises:
            RemoteStorageError: It is not known whether it may go: ask again.
        """
        mark = self._world.recording.mark
        if self.is_guarded:
            answer = await client.read(tip, LEADER, Query("list"))
            if isinstance(answer, RemoteStorageError):
                raise answer
            if answer.stale:
                raise NotReady("the partition is in quarantine")
            rows: Any = answer.value
            state = {id_of_row(row): unpack_row(row)[STATE] for row in rows}.get(segment_id)
            if state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                raise NotReady("its deletion has not begun")
            if state is None:
                mark("guard left the data")
                return
        await self._erase(PartitionKey.of(tip), segment_id, is_purge=False)

    async def _erase(self, key: PartitionKey, segment_id: bytes, *, is_purge: bool) -> None:
        await self._passes(ERASING)
        await asyncio.sleep(ERASING_S)
        self._world.tier.erase(self._life, key, segment_id, is_purge=is_purge)
        await self._passes(ERASED)

    async def _passes(self, point: str) -> None:
        """Let a fault strike at `point`."""
        self._world.passes(point, self._life)
        if self._life.is_dead or self._life.is_paused:
            await asyncio.sleep(0)  # It goes on when it is resumed, or never.

    async def purge(self) -> None:
        """Purge what the service gives, one segment after another, until the process ends."""
        done: tuple[PartitionKey, bytes] | None = None
        while self.is_guarded:
            given: ToPurge | None = None
            try:
                link = self._manager._connected().link
                given = await link.coordinator.ask(NextPurge(self._broker_id, done))
                done = None
                if given is not None:
                    done = await self._purged(given)
            except RemoteStorageError:
                self._world.recording.mark("purge failed")
                await asyncio.sleep(FAILED_S)
            await asyncio.sleep(IDLE_S if done is None else PAUSE_S)

    async def _purged(self, given: ToPurge) -> tuple[PartitionKey, bytes]:
        key, segment_id = PartitionKey.of(given.topic_id_partition), id_of_row(given.row)
        await self._erase(key, segment_id, is_purge=True)
        return key, segment_id
