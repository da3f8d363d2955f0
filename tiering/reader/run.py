"""One reading of a log from an offset on: stretch by stretch, fetched ahead, batch by batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import (
    CorruptRemoteData,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.record_batches import RecordBatch
from tierledger.tiering.reader.markers import DecidedBatches, SegmentBatch
from tierledger.tiering.reader.prefetch import Prefetched
from tierledger.tiering.reader.stretch import StretchBatches
from tierledger.tiering.reader.tier import Stretch, Tier
from tierledger.tiering.reader.transactions import AbortedTransactions

if TYPE_CHECKING:
    from tierledger.tiering.reader.indexes import SegmentIndexes


class _Piece(NamedTuple):
    """A piece of a stretch's log; without data, the stretch is over."""

    batches: StretchBatches
    stretch: Stretch
    is_indexed: bool
    """Whether an index said where in the log to begin."""
    data: bytes | None


class LogRun:
    """Reads the offsets from `start` to below `limit`; to be iterated once.

    Memory is bounded: what is fetched ahead, one piece, and, where only what was committed is
    read, the aborted transactions that touch the segment and what waits for its marker.
    """

    def __init__(
        self,
        tier: Tier,
        indexes: SegmentIndexes,
        start: int,
        limit: int,
        aborted: AbortedTransactions | None = None,
        stable_offset: int | None = None,
    ) -> None:
        """With `aborted`, give only what was committed.

        Nothing is, from `stable_offset` on, as the newest segment's producer snapshot says.
        """
        self._tier = tier
        self._indexes = indexes
        self.start = start
        self._offset = start
        self._limit = limit
        self._aborted = aborted
        self._decided = DecidedBatches()
        self._stable_offset = stable_offset
        self._fetching: Stretch | None = None
        self._taking: _Piece | None = None
        self._distrusted: set[RemoteLogSegmentId] = set()

    async def batches(self) -> AsyncIterator[SegmentBatch]:
        """The batches in order; the first may begin before what is wanted.

        Raises:
            InvalidArgument: The tier begins behind the offset by now.
            RemoteResourceNotFound: Something of the tier is missing; what lies before it has
                been given.
            CorruptRemoteData: Something is not what it must be; likewise.
            RejectedError: Records are in a format that is not read; likewise.
        """
        try:
            while self._offset < self._limit:
                try:
                    async with Prefetched(self._pieces()) as ahead:
                        while (piece := await ahead.next()) is not None:
                            for found in self._taken(piece):
                                yield found
                            if self._offset >= self._limit:
                                break
                except RemoteStorageError as error:
                    if not await self._goes_on(error):
                        raise
            async with closing(self._proven()) as decided:
                async for found in decided:
                    yield found
        except RemoteStorageError:
            for found in self._decided.rest():
                yield found
            raise
        for found in self._decided.rest():
            yield found

    async def _proven(self) -> AsyncIterator[SegmentBatch]:
        """What still waits for its marker, which is read behind the limit.

        The producer snapshot alone says which transactions have not ended in the tier, and a
        wrong one would give what was not committed, or stop too early. The log knows better.
        """
        if self._aborted is None:
            return
        end, stable = self._tier.next_offset, self._stable_offset
        stops_there = self._limit == stable != end
        if not stops_there and not self._waits():
            return
        behind = LogRun(self._tier, self._indexes, self._limit, end)
        async with closing(behind.batches()) as batches:
            async for found in batches:
                for decided in self._decided.see(found):
                    yield decided
                if not stops_there and not self._waits():
                    return
        open_from = min(self._decided.undecided.values(), default=end)
        if open_from != stable:
            raise CorruptRemoteData(
                f"producer snapshot of {self._tier.newest.remote_log_segment_id}: expected "
                f"{_open_from(open_from, end)} as the log has it, found "
                f"{_open_from(stable, end)}"
            )

    def _waits(self) -> bool:
        """Whether a transaction of what was given has not ended yet."""
        return any(first < self._limit for first in self._decided.undecided.values())

    async def _pieces(self) -> AsyncIterator[tuple[_Piece, int]]:
        offset = self._offset
        while offset < self._limit:
            stretch = self._fetching = await self._tier.stretch_at(offset)
            metadata = stretch.metadata
            position = 0
            if offset > metadata.start_offset:
                position = await self._indexes.lookup_offset(metadata, offset)
            is_indexed = position > 0
            if self._aborted is not None:
                await self._aborted.collect(stretch, min(stretch.last + 1, self._limit))
            begins_by = offset if is_indexed else None
            batches = StretchBatches(self._tier.chain, stretch, position, begins_by)
            fetched = self._tier.storage.fetch_log_segment(metadata, position)
            async with closing(fetched) as pieces:
                async for data in pieces:
                    yield _Piece(batches, stretch, is_indexed, data), len(data)
                    if batches.is_done:
                        break
            yield _Piece(batches, stretch, is_indexed, None), 0
            offset = stretch.last + 1

    def _taken(self, piece: _Piece) -> Iterator[SegmentBatch]:
        self._taking = piece
        if piece.data is not None:
            yield from self._wanted(piece, piece.batches.feed(piece.data))
            return
        yield from self._wanted(piece, piece.batches.finish())
        self._offset = max(self._offset, piece.stretch.last + 1)
        if self._aborted is not None:
            self._aborted.forget_before(self._offset)

    def _wanted(self, piece: _Piece, batches: Iterable[RecordBatch]) -> Iterator[SegmentBatch]:
        for batch in batches:
            if batch.base_offset >= self._limit:
                self._offset = self._limit
                return
            self._offset = batch.last_offset + 1
            found = SegmentBatch(piece.stretch.name, batch)
            if self._aborted is None:
                yield found
            else:
                is_aborted = self._aborted.has_aborted(batch)
                yield from self._decided.take(found, is_aborted=is_aborted)

    async def _goes_on(self, error: RemoteStorageError) -> bool:
        """Whether reading on from where it ended may do better."""
        if isinstance(error, RemoteResourceNotFound):
            return await self._has_moved()
        taking = self._taking
        if not isinstance(error, CorruptRemoteData) or taking is None:
            return False
        metadata = taking.stretch.metadata
        if self._decided.is_contradicted:
            self._indexes.distrust(metadata)
            return False  # A new reading fetches the indexes anew.
        if not taking.is_indexed or metadata.remote_log_segment_id in self._distrusted:
            return False
        # A wrong position looks like damage of the log.
        self._distrusted.add(metadata.remote_log_segment_id)
        self._indexes.distrust(metadata)
        return True

    async def _has_moved(self) -> bool:
        """Whether another segment holds the offset now than the one that was being fetched.

        A segment that was superseded may be deleted while it is read.
        """
        found = await self._tier.stretch_at(self._offset)
        return self._fetching is None or (
            found.metadata.remote_log_segment_id
            != self._fetching.metadata.remote_log_segment_id
        )


def _open_from(offset: int | None, end: int) -> str:
    if offset == end:
        return "no transaction to be open at its end"
    return f"the first open transaction to begin at {offset}"
