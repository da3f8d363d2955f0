"""One reading of a log from an offset on: stretch by stretch, fetched ahead, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.tiering.reader_prefetch import Prefetched, closing
from tierledger.tiering.reader_stretch import StretchBatches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tierledger.tiering.reader_indexes import SegmentIndexes
    from tierledger.tiering.reader_tier import Stretch, Tier
    from tierledger.tiering.reader_transactions import AbortedTransactions
    from tierledger.tiering.record_batches import RecordBatch


class _Piece(NamedTuple):
    """A piece of a stretch's log; without data, the stretch is over."""

    batches: StretchBatches
    stretch: Stretch
    data: bytes | None


class SegmentBatch(NamedTuple):
    """A batch, and what to call the segment that it is in."""

    segment: str
    batch: RecordBatch


class LogRun:
    """Reads the offsets from `start` to below `limit`; to be iterated once.

    Memory is bounded: what is fetched ahead, one piece, and the aborted transactions that
    touch the segment that is read.
    """

    def __init__(
        self,
        tier: Tier,
        indexes: SegmentIndexes,
        start: int,
        limit: int,
        aborted: AbortedTransactions | None,
    ) -> None:
        """With `aborted`, give only what was committed."""
        self._tier = tier
        self._indexes = indexes
        self.start = start
        self._offset = start
        self._limit = limit
        self._aborted = aborted
        self._fetching: Stretch | None = None

    async def batches(self) -> AsyncIterator[SegmentBatch]:
        """The batches in order; the first may begin before what is wanted.

        Raises:
            InvalidArgument: The tier begins behind the offset by now.
            RemoteResourceNotFound: Something of the tier is missing; what lies before it has
                been given.
            CorruptRemoteData: Something is not what it must be; likewise.
            RejectedError: Records are in a format that is not read; likewise.
        """
        while self._offset < self._limit:
            try:
                async with Prefetched(self._pieces()) as ahead:
                    while (piece := await ahead.next()) is not None:
                        for batch in self._taken(piece):
                            yield SegmentBatch(piece.stretch.name, batch)
                        if self._offset >= self._limit:
                            return
            except RemoteResourceNotFound:
                if not await self._has_moved():
                    raise

    async def _pieces(self) -> AsyncIterator[tuple[_Piece, int]]:
        offset = self._offset
        while offset < self._limit:
            stretch = self._fetching = await self._tier.stretch_at(offset)
            metadata = stretch.metadata
            position = 0
            if offset > metadata.start_offset:
                position = await self._indexes.lookup_offset(metadata, offset)
            begins_by = offset if position > 0 else None
            if self._aborted is not None:
                await self._aborted.collect(stretch, min(stretch.last + 1, self._limit))
            batches = StretchBatches(self._tier.chain, stretch, position, begins_by)
            fetched = self._tier.storage.fetch_log_segment(metadata, position)
            async with closing(fetched) as pieces:
                async for data in pieces:
                    yield _Piece(batches, stretch, data), len(data)
                    if batches.is_done:
                        break
            yield _Piece(batches, stretch, None), 0
            offset = stretch.last + 1

    def _taken(self, piece: _Piece) -> Iterator[RecordBatch]:
        if piece.data is None:
            piece.batches.finish()
            self._offset = max(self._offset, piece.stretch.last + 1)
            if self._aborted is not None:
                self._aborted.forget_before(self._offset)
            return
        for batch in piece.batches.feed(piece.data):
            if batch.base_offset >= self._limit:
                self._offset = self._limit
                return
            self._offset = batch.last_offset + 1
            if self._is_wanted(batch):
                yield batch

    def _is_wanted(self, batch: RecordBatch) -> bool:
        if self._aborted is None:
            return True
        return not batch.is_control and not self._aborted.has_aborted(batch)

    async def _has_moved(self) -> bool:
        """Whether another segment holds the offset now than the one that was being fetched.

        A segment that was superseded may be deleted while it is read.
        """
        found = await self._tier.stretch_at(self._offset)
        return self._fetching is None or (
            found.metadata.remote_log_segment_id
            != self._fetching.metadata.remote_log_segment_id
        )
