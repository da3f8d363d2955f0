"""A leader at work on a live service: it copies segments, deletes old ones, reads between."""

from __future__ import annotations

from collections.abc import Awaitable
from random import Random
from typing import Protocol

from tierledger.actors.calls import LEADER
from tierledger.actors.messages import Query
from tierledger.events.errors import Fenced
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from tierledger.simulation.history.recorded_client import CountedIds, RecordedClient

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

REFUSALS_MAX = 3
"""Refused writes in a row after which a leader ends, until it is notified again."""

SEGMENTS_KEPT = 6
"""Finished segments that a leader keeps before it begins to delete the oldest."""


class Timed(Protocol):
    """The clock of a copier's surroundings: of a world, or of a run on a live service."""

    def now_ns(self) -> int: ...


class Copying(Protocol):
    """The broker that a copier works for."""

    broker_id: int
    acknowledged: dict[TopicIdPartition, int]
    ids: CountedIds


class LiveCopier:
    """A partition's leader at work: copies segments, deletes old ones, reads in between."""

    def __init__(
        self,
        world: Timed,
        broker: Copying,
        client: RecordedClient,
        tip: TopicIdPartition,
        epoch: int,
    ) -> None:
        self.refusals = 0
        self._world = world
        self._broker = broker
        self._client = client
        self._tip = tip
        self._epoch = epoch
        self._next_offset = epoch * 100
        self._copied: list[RemoteLogSegmentId] = []

    async def step(self, random: Random) -> None:
        """Make one random read, or copy or delete one segment."""
        drawn = random.random()
        if drawn < 0.25:
            query = Query("lookup", random.randrange(self._epoch + 1), self._next_offset - 5)
            await self._client.read(self._tip, LEADER, query)
        elif drawn < 0.28:
            await self._client.read(self._tip, LEADER, Query("list_epoch", self._epoch))
        elif drawn < 0.36:
            await self._client.read(self._tip, LEADER, Query("highest_offset", self._epoch))
        elif len(self._copied) > SEGMENTS_KEPT:
            await self._delete_oldest(random)
        else:
            await self._copy_one(random)

    async def _add(self, metadata: RemoteLogSegmentMetadata, what: str) -> bool:
        work = self._client.manager.add_remote_log_segment_metadata(metadata)
        return await self._write(work, what, metadata)

    async def _move(
        self,
        segment: RemoteLogSegmentId,
        state: RemoteLogSegmentState,
        what: str,
        custom: CustomMetadata | None = None,
    ) -> bool:
        update = RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=segment,
            event_timestamp_ms=self._next_offset,
            custom_metadata=custom,
            state=state,
            broker_id=self._broker.broker_id,
        )
        work = self._client.manager.update_remote_log_segment_metadata(update)
        return await self._write(work, what, update)

    async def _write(self, work: Awaitable[int], what: str, wanted: KafkaValue) -> bool:
        begun = self._world.now_ns()
        error = await self._client.write(self._tip, work, what, wanted)
        if isinstance(error, Fenced):
            self.refusals += 1
        elif error is None:
            self.refusals = 0
            self._broker.acknowledged[self._tip] = begun
        return error is None

    async def _copy_one(self, random: Random) -> None:
        start = max(0, self._next_offset - (5 if random.random() < 0.1 else 0))
        segment = RemoteLogSegmentId(self._tip, self._broker.ids.segment_id())
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=start,
            end_offset=start + 9,
            max_timestamp_ms=start,
            broker_id=self._broker.broker_id,
            event_timestamp_ms=start,
            segment_size_in_bytes=100 + start % 7,
            state=STARTED,
            segment_leader_epochs={self._epoch: start},
            txn_index_empty=random.random() < 0.5,
        )
        if not await self._add(metadata, "add"):
            return
        if random.random() < 0.1:
            await self._add(metadata, "add again")
        size = 129 if random.random() < 0.05 else 8
        self._next_offset = start + 10
        if await self._move(segment, FINISHED, "finish", CustomMetadata(bytes(size))):
            self._copied.append(segment)
        elif size > 128:
            await self._move(segment, DELETING, "delete")
            await self._move(segment, DELETED, "deleted")

    async def _delete_oldest(self, random: Random) -> None:
        segment = self._copied.pop(0)
        if await self._move(segment, DELETING, "delete"):
            await self._move(segment, DELETED, "deleted")
            if random.random() < 0.2:
                await self._move(segment, DELETED, "deleted again")
