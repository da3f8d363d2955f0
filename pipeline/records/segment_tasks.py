"""Plans which segment serves which offsets, once, before any record is read.

The rules are those of `RemoteLogReader`. The lineage is that of the newest finished segment. An
offset is served by the segment that the metadata names for it in the epoch that wrote it. So
each offset has exactly one task, even where segments overlap.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from tierledger.events.errors import InvalidArgument, PartitionDeleted
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.catalog import Catalog
from tierledger.tiering.reader.lineage_chain import fetch_chain, newest_segment
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader
from tierledger.tiering.reader.stable_offset import last_stable_offset
from tierledger.tiering.reader.tier import Stretch, Tier
from tierledger.tiering.remote_storage_manager import RemoteStorageManager
from tierledger.tiering.stored_metadata import HELD_MAX, StoredMetadata

if TYPE_CHECKING:
    from tierledger.pipeline.records.options import RecordsOptions


class SegmentTask(InputPartition):
    """The part of a stretch that one task reads: its offsets below `end`."""

    def __init__(self, tier: Tier, stretch: Stretch, end: int) -> None:
        super().__init__(None)
        # Only the parts of `tier` without a connection are kept: a task opens its own.
        self.topic_id_partition = tier.topic_id_partition
        self.chain = tier.chain
        self.newest = tier.newest
        self.stretch = stretch
        self.end = end


async def plan_records(options: RecordsOptions) -> list[SegmentTask]:
    """A task for each stretch of a segment that holds wanted offsets.

    Raises:
        InvalidArgument: An offset is not in the tier, or the store holds several clusters and
            none was named.
        RemoteResourceNotFound: There is no such cluster, topic or partition, or a part of the
            tier is missing.
        CorruptRemoteData: An index or snapshot that the plan needs cannot be parsed.
        StoreRefused: A URL does not lead to a store, or to a tier.
        RetryableError: The store or the tier cannot be reached.
    """
    async with options.store.opened() as catalog, options.open_tier() as storage:
        source = StoredMetadata(catalog.reader, with_deleted=options.with_deleted)
        planner = _Planner(options, source, storage)
        limit = asyncio.Semaphore(HELD_MAX)  # More would evict each other's held states.

        async def planned(tip: TopicIdPartition) -> list[SegmentTask]:
            async with limit:
                return await planner.tasks(tip)

        tips = await _partitions(catalog, options)
        return [task for one in await asyncio.gather(*map(planned, tips)) for task in one]


async def _partitions(catalog: Catalog, options: RecordsOptions) -> list[TopicIdPartition]:
    topic = await catalog.topic(options.topic)
    if options.partition is not None:
        return [await catalog.partition(topic, options.partition)]
    found = catalog.partitions(topic.topic_id)
    return [one.topic_id_partition async for one in found if not one.is_forgotten]


class _Planner:
    """Makes the tasks of one partition at a time."""

    def __init__(
        self, options: RecordsOptions, source: StoredMetadata, storage: RemoteStorageManager
    ) -> None:
        self._options = options
        self._source = source
        self._storage = storage

    async def tasks(self, tip: TopicIdPartition) -> list[SegmentTask]:
        try:
            newest = await newest_segment(self._source, tip)
        except PartitionDeleted:
            if self._options.partition is not None:
                raise
            return []
        if newest is None:
            if self._options.bounds.starting_offset is not None:
                raise InvalidArgument(f"{tip}: nothing of it is in the tier yet")
            return []
        chain = await fetch_chain(self._storage, newest)
        tier = Tier(tip, self._source, self._storage, chain, newest)
        offset, end = await self._range(tier)
        found = []
        while offset < end:
            stretch = await tier.stretch_at(offset)
            offset = stretch.last + 1
            found.append(SegmentTask(tier, stretch, min(offset, end)))
        return found

    async def _range(self, tier: Tier) -> tuple[int, int]:
        """The first wanted offset, and the end (exclusive)."""
        bounds = self._options.bounds
        start = await tier.earliest_offset()
        if bounds.starting_offset is not None:
            start = bounds.starting_offset
            if not tier.chain.first_offset <= start <= tier.next_offset:
                raise await tier.out_of_range(start)
        elif bounds.starting_timestamp is not None:
            start = await self._first_since(tier, bounds.starting_timestamp)
        end = tier.next_offset
        if self._options.isolation is IsolationLevel.READ_COMMITTED:
            end = await last_stable_offset(tier)
        if bounds.ending_offset is not None:
            end = min(end, bounds.ending_offset)
        elif bounds.ending_timestamp is not None:
            end = min(end, await self._first_since(tier, bounds.ending_timestamp))
        return start, end

    async def _first_since(self, tier: Tier, timestamp_ms: int) -> int:
        reader = RemoteLogReader(self._source, self._storage, tier.topic_id_partition)
        found = await reader.from_timestamp(timestamp_ms)
        return tier.next_offset if found is None else found
