"""The Spark task of `tierledger.records`: it reads a stretch of one segment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from typing_extensions import override

from tierledger.events.errors import CorruptRemoteData, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.reader import PartitionReader
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.records import Decoded, decoded
from tierledger.tiering.reader.indexes import SegmentIndexes
from tierledger.tiering.reader.markers import SegmentBatch
from tierledger.tiering.reader.reader import IsolationLevel
from tierledger.tiering.reader.run import LogRun
from tierledger.tiering.reader.tier import Stretch, Tier
from tierledger.tiering.reader.transactions import AbortedTransactions
from tierledger.tiering.remote_storage_manager import RemoteStorageManager
from tierledger.tiering.stored_metadata import StoredMetadata

if TYPE_CHECKING:
    import pyarrow as pa

    from tierledger.pipeline.records.columns import RecordColumns
    from tierledger.pipeline.records.options import RecordsOptions
    from tierledger.pipeline.records.segment_tasks import SegmentTask


def arrow_batches(
    task: SegmentTask, options: RecordsOptions, columns: RecordColumns
) -> Iterator[pa.RecordBatch]:
    """The records of `task`, in order. Memory is bounded as for a `LogRun`.

    All records before a fault are yielded. With `damaged=skip`, a row reports the missing
    offsets in place of the error, and the records behind them follow if they can be read.

    Raises:
        RemoteResourceNotFound: The segment is missing.
        CorruptRemoteData: The segment's data is not what was copied there.
        RejectedError: Messages are in a format older than Kafka 0.11's.
        RetryableError: The tier cannot be reached.
    """
    with asyncio.Runner() as runner:
        found = _arrow_batches(task, options, columns)
        try:
            while (batch := runner.run(_next(found))) is not None:
                yield batch
        finally:
            runner.run(_closed(found))


async def _next(found: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(found, None)


async def _closed(found: AsyncIterator[pa.RecordBatch]) -> None:
    async with closing(found):
        return


async def _arrow_batches(
    task: SegmentTask, options: RecordsOptions, columns: RecordColumns
) -> AsyncIterator[pa.RecordBatch]:
    first, end = task.stretch.first, task.end
    following = first
    try:
        async with closing(_batches(task, options)) as batches:
            async for segment, batch in batches:
                if batch.is_control:
                    following = batch.last_offset + 1
                    continue
                found = decoded(batch, segment)
                if batch.base_offset < first or batch.last_offset >= end:
                    found = found.between(first, end)
                for rows in _rows_of(found, segment, options, columns):
                    yield rows
                following = batch.last_offset + 1
    except (CorruptRemoteData, RemoteResourceNotFound) as error:
        # The records before the damage were verified.
        if (left := columns.taken()) is not None:
            yield left
        if not options.skips_damage:
            raise
        segment_id = task.stretch.metadata.remote_log_segment_id.id
        yield columns.damage(str(segment_id), range(following, end), str(error))
        return
    if (left := columns.taken()) is not None:
        yield left


def _rows_of(
    found: Decoded, segment: str, options: RecordsOptions, columns: RecordColumns
) -> Iterator[pa.RecordBatch]:
    segment_id = segment.rpartition("/")[2]
    for records, lost in found.parts():
        columns.add(segment_id, records)
        is_due = columns.is_full or lost is not None
        if is_due and (due := columns.taken()) is not None:
            yield due
        if lost is None:
            continue
        if not options.skips_damage:
            raise lost.error
        offsets = range(lost.first, lost.last + 1)
        yield columns.damage(segment_id, offsets, str(lost.error))


async def _batches(task: SegmentTask, options: RecordsOptions) -> AsyncIterator[SegmentBatch]:
    async with AsyncExitStack() as stack:
        storage: RemoteStorageManager = await stack.enter_async_context(options.open_tier())
        source = PlannedMetadata(task.stretch, options, stack)
        tier = Tier(task.topic_id_partition, source, storage, task.chain, task.newest)
        indexes = SegmentIndexes(storage)
        aborted = None
        if options.isolation is IsolationLevel.READ_COMMITTED:
            aborted = AbortedTransactions(tier, indexes)
        first, passes = task.stretch.first, options.skips_damage
        run = LogRun(tier, indexes, first, task.end, aborted, passes_damage=passes)
        async with closing(run.batches()) as batches:
            async for found in batches:
                yield found


class PlannedMetadata(StoredMetadata):
    """Answers the first lookup with the planned segment, and all others from the store.

    So most tasks never open the store. A task does so only if it looks for the end of a
    transaction behind its segment, or if its segment was superseded and deleted since.
    """

    def __init__(
        self, planned: Stretch, options: RecordsOptions, stack: AsyncExitStack
    ) -> None:
        """Open the store only when it is needed; `stack` closes it."""
        super().__init__(self._stored, with_deleted=options.with_deleted)
        self._planned: Stretch | None = planned
        self._store = options.store
        self._stack = stack
        self._catalog: Catalog | None = None

    @override
    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        planned = self._planned
        if planned is not None and planned.first == offset:
            self._planned = None
            return planned.metadata
        if self._catalog is None:
            self._catalog = await self._stack.enter_async_context(self._store.opened())
        return await super().remote_log_segment_metadata(
            topic_id_partition, epoch_for_offset, offset
        )

    def _stored(self, topic_id_partition: TopicIdPartition) -> PartitionReader:
        assert self._catalog is not None, "a segment was asked for before anything else"
        return self._catalog.reader(topic_id_partition)
