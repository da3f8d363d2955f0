"""Reads records from the tier without a broker: by metadata, indexes and ranged reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from enum import Enum

from tierledger.events.errors import CorruptRemoteData, InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.keys import INT64_MAX
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.record_batches import RecordBatch
from tierledger.tiering.formats.records import LostRecords, Record, decoded
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.metadata_ports import RemoteLogMetadataSource
from tierledger.tiering.reader.indexes import SegmentIndexes, TimePlace
from tierledger.tiering.reader.lineage_chain import fetch_chain, newest_segment
from tierledger.tiering.reader.run import LogRun
from tierledger.tiering.reader.stable_offset import last_stable_offset
from tierledger.tiering.reader.stretch import StretchBatches
from tierledger.tiering.reader.tier import Stretch, Tier
from tierledger.tiering.reader.transactions import AbortedTransactions
from tierledger.tiering.remote_storage_manager import RemoteStorageManager


class IsolationLevel(Enum):
    """Kafka's isolation levels, with the values of the consumer's `isolation.level`."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class RemoteLogReader:
    """Reads one partition; safe for several readings at once.

    Each reading sees the tier as it was when it began: up to the newest finished segment, in
    that segment's lineage. Records of a lost lineage are never returned.
    """

    def __init__(
        self,
        source: RemoteLogMetadataSource,
        storage: RemoteStorageManager,
        topic_id_partition: TopicIdPartition,
        index_cache: RemoteIndexCache | None = None,
    ) -> None:
        """Read through `index_cache`, or fetch indexes anew for each reading."""
        self._source = source
        self._storage = storage
        self._tip = topic_id_partition
        self._indexes = SegmentIndexes(storage, index_cache)
        self._tier: Tier | None = None

    async def batches(
        self,
        from_offset: int | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        to_offset: int | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """The batches that hold offsets from `from_offset` to below `to_offset`, in order.

        Batches are whole, byte for byte as in the log, with verified checksums: the first may
        begin before `from_offset`, the last end behind `to_offset`. READ_UNCOMMITTED yields
        what a broker sends to a consumer, transaction markers included. READ_COMMITTED leaves
        out markers and aborted transactions, and ends before the first transaction that has no
        end in the tier.

        Args:
            from_offset: None is the earliest in the tier.
            isolation: Which transactions are read.
            to_offset: None is the tier's end.

        Raises:
            InvalidArgument: `from_offset` is not in the tier.
            RemoteResourceNotFound: There is no such partition, or a part of its tier is
                missing. Here and below, all batches before the fault have been yielded.
            CorruptRemoteData: The tier's data is not what was copied there.
            RejectedError: Messages are in a format older than Kafka 0.11's.
            RetryableError: Metadata or storage cannot answer now.
        """
        run = await self._begun(from_offset, isolation, to_offset)
        if run is None:
            return
        async with closing(run.batches()) as found:
            async for _, batch in found:
                yield batch

    async def records(
        self,
        from_offset: int | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        to_offset: int | None = None,
        on_lost: Callable[[LostRecords], None] | None = None,
    ) -> AsyncIterator[Record]:
        """The records with offsets from `from_offset` to below `to_offset`, in order.

        As a consumer gets them: without transaction markers. Raises as `batches` does. With
        `on_lost`, records that cannot be decoded, and those of a damaged batch, are passed to
        it, and the reading goes on behind them; without it, their error is raised.
        """
        run = await self._begun(
            from_offset, isolation, to_offset, passes_damage=on_lost is not None
        )
        if run is None:
            return
        end = INT64_MAX if to_offset is None else to_offset
        async with closing(run.batches()) as found:
            async for segment, batch in found:
                if batch.is_control:
                    continue
                for records, lost in decoded(batch, segment).between(run.start, end).parts():
                    for record in records:
                        yield record
                    if lost is None:
                        continue
                    if on_lost is None:
                        raise lost.error
                    on_lost(lost)

    async def earliest_offset(self) -> int | None:
        """The first offset in the tier; none if it is empty. Raises as `batches` does."""
        tier = await self._newest_tier()
        return None if tier is None else await tier.earliest_offset()

    async def end_offset(
        self, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> int | None:
        """The offset (exclusive) at which reading ends for now; none if the tier is empty.

        With READ_COMMITTED it is the tier's last stable offset.
        """
        tier = await self._newest_tier()
        if tier is None:
            return None
        if isolation is IsolationLevel.READ_COMMITTED:
            return await last_stable_offset(tier)
        return tier.next_offset

    async def from_timestamp(self, timestamp_ms: int) -> int | None:
        """The first offset whose record is from `timestamp_ms` or later; else the tier's end.

        Like Kafka's ListOffsets it finds uncommitted records, too. None if the tier is empty.
        Raises as `batches` does.
        """
        tier = await self._newest_tier()
        if tier is None:
            return None
        for epoch_range in tier.chain.ranges:
            async with closing(tier.segments_in(epoch_range)) as segments:
                async for metadata, held in segments:
                    if metadata.max_timestamp_ms < timestamp_ms:
                        continue
                    stretch = Stretch(metadata, held.first, held.last)
                    found = await self._first_since(tier, stretch, timestamp_ms)
                    if found is not None:
                        return found
        return tier.next_offset

    async def _first_since(self, tier: Tier, stretch: Stretch, timestamp_ms: int) -> int | None:
        place = await self._indexes.lookup_timestamp(stretch, timestamp_ms)
        try:
            return await self._first_behind(place, tier, stretch, timestamp_ms)
        except CorruptRemoteData:
            if not place.position:
                raise
        # A wrong position from the index looks like a damaged log: retry with fresh indexes.
        self._indexes.distrust(stretch.metadata)
        place = await self._indexes.lookup_timestamp(stretch, timestamp_ms)
        return await self._first_behind(place, tier, stretch, timestamp_ms)

    async def _first_behind(
        self, place: TimePlace, tier: Tier, stretch: Stretch, timestamp_ms: int
    ) -> int | None:
        begins_by = place.offset if place.position else None
        batches = StretchBatches(tier.chain, stretch, place.position, begins_by)
        fetched = self._storage.fetch_log_segment(stretch.metadata, place.position)
        is_borne_out = False
        async with closing(batches.fed_from(fetched)) as found:
            async for batch in found:
                is_borne_out = is_borne_out or place.check(batch, stretch.name)
                if batch.max_timestamp_ms < timestamp_ms:
                    continue
                found_here = decoded(batch, stretch.name).between(stretch.first, INT64_MAX)
                for records, lost in found_here.parts():
                    for record in records:
                        if record.timestamp_ms >= timestamp_ms:
                            return record.offset
                    if lost is not None:  # It may be the one.
                        return lost.first
        return None

    async def _begun(
        self,
        from_offset: int | None,
        isolation: IsolationLevel,
        to_offset: int | None,
        *,
        passes_damage: bool = False,
    ) -> LogRun | None:
        """A reading that is ready to begin; none if the tier is empty."""
        tier = await self._newest_tier()
        if tier is None:
            if from_offset is not None:
                raise InvalidArgument(f"{self._tip}: nothing of it is in the tier yet")
            return None
        start = await tier.earliest_offset() if from_offset is None else from_offset
        if not tier.chain.first_offset <= start <= tier.next_offset:
            raise await tier.out_of_range(start)
        limit, aborted, stable = tier.next_offset, None, None
        if isolation is IsolationLevel.READ_COMMITTED:
            limit = stable = await last_stable_offset(tier)
            aborted = AbortedTransactions(tier, self._indexes)
        if to_offset is not None:
            limit = min(limit, to_offset)
        return LogRun(
            tier, self._indexes, start, limit, aborted, stable, passes_damage=passes_damage
        )

    async def _newest_tier(self) -> Tier | None:
        newest = await newest_segment(self._source, self._tip)
        if newest is None:
            return None
        known = self._tier
        if known is None or known.newest.remote_log_segment_id != newest.remote_log_segment_id:
            chain = await fetch_chain(self._storage, newest)
            known = self._tier = Tier(self._tip, self._source, self._storage, chain, newest)
        return known
