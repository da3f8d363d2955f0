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
    """A piece of a stretch's log; without data it marks the end of the stretch."""

    batches: StretchBatches
    stretch: Stretch
    is_indexed: bool
    """Whether an index gave the position at which the fetch of the stretch began."""
    data: bytes | None


class LogRun:
    """Reads the offsets from `start` to below `limit`; to be iterated once.

    Memory is bounded by the bytes fetched ahead and one piece. A committed reading adds the
    aborted transactions of the segment and the batches that wait for their markers.
    """

    def __init__(
        self,
        tier: Tier,
        indexes: SegmentIndexes,
        start: int,
        limit: int,
        aborted: AbortedTransactions | None = None,
        stable_offset: int | None = None,
        *,
        passes_damage: bool = False,
    ) -> None:
        """With `aborted`, yield committed batches only.

        `stable_offset` is the last stable offset by the newest segment's producer snapshot.
        With `passes_damage`, a damaged batch comes as one with `error`, and the reading goes on
        behind it as far as its length can be believed.
        """
        self._tier = tier
        self._indexes = indexes
        self.start = start
        self._offset = start
        self._limit = limit
        self._aborted = aborted
        self._decided = DecidedBatches()
        self._stable_offset = stable_offset
        self._passes_damage = passes_damage
        self._has_passed = False
        self._fetching: Stretch | None = None
        self._taking: _Piece | None = None
        self._distrusted: set[RemoteLogSegmentId] = set()

    async def batches(self) -> AsyncIterator[SegmentBatch]:
        """The batches in order; the first may begin before `start`.

        All batches before a fault are yielded before its error is raised.

        Raises:
            InvalidArgument: The tier begins behind the offset by now.
            RemoteResourceNotFound: A part of the tier is missing.
            CorruptRemoteData: Log, index, snapshot and metadata do not agree.
            RejectedError: Records are in an unsupported format.
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
        """The batches that still wait for their markers, which are read from behind the limit.

        Only the producer snapshot tells which transactions have no end in the tier. A wrong one
        would let uncommitted batches through, or end the reading too early. So the snapshot is
        compared with the log up to the tier's end.
        """
        # A marker may be among what was passed over.
        if self._aborted is None or self._has_passed:
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
        """Whether a transaction that began below the limit is still open."""
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
            batches = StretchBatches(
                self._tier.chain,
                stretch,
                position,
                begins_by,
                passes_damage=self._passes_damage,
            )
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
            self._has_passed = self._has_passed or batch.error is not None
            if self._aborted is None:
                yield found
            else:
                is_aborted = self._aborted.has_aborted(batch)
                yield from self._decided.take(found, is_aborted=is_aborted)

    async def _goes_on(self, error: RemoteStorageError) -> bool:
        """Whether a retry from the offset reached so far may succeed."""
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
        # A wrong position from the index looks like a damaged log: retry with fresh indexes.
        self._distrusted.add(metadata.remote_log_segment_id)
        self._indexes.distrust(metadata)
        return True

    async def _has_moved(self) -> bool:
        """Whether another segment than the one being fetched holds the offset now.

        A segment that another one supersedes may be deleted while it is read.
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
