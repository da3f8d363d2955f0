"""Batches of one stretch of a segment, checked against its metadata and indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from tierledger.events.errors import CorruptRemoteData, RemoteStorageError
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.record_batches import (
    NO_LEADER_EPOCH,
    BatchSplitter,
    RecordBatch,
)
from tierledger.tiering.reader.lineage_chain import LineageChain
from tierledger.tiering.reader.tier import Stretch


class StretchBatches:
    """Makes the batches of a stretch from the pieces of its segment's log."""

    def __init__(
        self,
        chain: LineageChain,
        stretch: Stretch,
        position: int,
        begins_by: int | None = None,
        *,
        passes_damage: bool = False,
    ) -> None:
        """Take pieces from `position` on.

        Args:
            chain: The lineage that is read.
            stretch: The offsets to read. None of their batches may begin before `position`.
            position: Where in the log file the pieces begin, in bytes.
            begins_by: The offset for which an index gave `position`; none without an index.
            passes_damage: Put a batch with `error` in the place of a damaged one, with all
                offsets that it may have had.
        """
        self.is_done = False
        """Whether all batches of the stretch have been yielded."""
        self._chain = chain
        self._stretch = stretch
        self._begins_by = begins_by
        self._next_offset = stretch.metadata.start_offset
        self._held: RecordBatch | None = None
        size = stretch.metadata.segment_size_in_bytes
        self._splitter = BatchSplitter(
            stretch.name, position, size, passes_damage=passes_damage
        )
        self._passed: RecordBatch | None = None
        """A damaged batch, of which the next one tells the last offset."""

    def feed(self, piece: bytes) -> Iterator[RecordBatch]:
        """The batches of the stretch that are verified with `piece`.

        The first batch may begin before the stretch. A batch's checksum does not cover its
        offset. So each batch is held back until the next one's offset agrees with it, or the
        log ends at the expected offset.

        Raises:
            CorruptRemoteData: A batch is damaged, or contradicts index, metadata or lineage.
            RejectedError: A batch is in an unsupported format.
        """
        if self.is_done:
            return  # This piece was fetched before the end of the stretch was found.
        batches = self._splitter.feed(piece)
        while True:
            try:
                batch = next(batches, None)
            except RemoteStorageError:
                # The damage is behind the held batch, so that batch itself is sound.
                if not self._holds(self._stretch.metadata.end_offset):
                    is_all = self._holds(self._stretch.last)
                    yield from self._let_go()
                    if is_all:
                        return
                raise
            if batch is None:
                return
            if batch.error is not None:
                self._passed, self._begins_by = batch, None
                continue
            first = self._next_offset
            self._check_place(batch)
            yield from self._let_go()
            yield from self._let_pass(first, batch.base_offset - 1)
            if batch.last_offset < self._stretch.first:
                continue
            if batch.base_offset > self._stretch.last:
                self.is_done = True
                return
            self._check_lineage(batch)
            self._held = batch

    def finish(self) -> Iterator[RecordBatch]:
        """End the pieces; the batch that was held back, if there is one.

        Raises:
            CorruptRemoteData: The log ends too early.
        """
        if self._holds(self._stretch.metadata.end_offset):
            self._splitter.finish()  # If the log is cut off, the batch's offset may be wrong.
        yield from self._let_go()
        if not self.is_done:
            self._splitter.finish()
            self._passed = self._splitter.passed()
            yield from self._let_pass(self._next_offset, self._stretch.last)

    async def fed_from(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[RecordBatch]:
        """All batches of the stretch; `pieces` is closed once they are complete."""
        async with closing(pieces) as fetched:
            async for piece in fetched:
                for batch in self.feed(piece):
                    yield batch
                if self.is_done:
                    return
        for batch in self.finish():
            yield batch

    def _holds(self, last_offset: int) -> bool:
        return self._held is not None and self._held.last_offset == last_offset

    def _let_go(self) -> Iterator[RecordBatch]:
        if self._held is None:
            return
        held, self._held = self._held, None
        self.is_done = held.last_offset == self._stretch.last
        yield held

    def _let_pass(self, first: int, last: int) -> Iterator[RecordBatch]:
        """The damaged batch, with what the stretch has of the offsets `first` to `last`."""
        passed, self._passed = self._passed, None
        first, last = max(first, self._stretch.first), min(last, self._stretch.last)
        if passed is None or first > last:
            return
        yield passed._replace(base_offset=first, last_offset=last)

    def _check_place(self, batch: RecordBatch) -> None:
        metadata = self._stretch.metadata
        if self._begins_by is not None:
            # An index entry names an offset within the batch at its position. So the first
            # batch must begin at the wanted offset or before it; else records would be missed.
            by, self._begins_by = self._begins_by, None
            if batch.base_offset > by:
                raise self._corrupt(
                    f"the offset index to lead to {by} or before", f"{batch.base_offset}"
                )
        if batch.base_offset < self._next_offset or batch.last_offset > metadata.end_offset:
            raise self._corrupt(
                f"a batch within {self._next_offset} to {metadata.end_offset}",
                f"one from {batch.base_offset} to {batch.last_offset}",
            )
        self._next_offset = batch.last_offset + 1

    def _check_lineage(self, batch: RecordBatch) -> None:
        if batch.last_offset > self._stretch.last:
            raise self._corrupt(
                f"leader epochs to begin with a batch, one at {self._stretch.last + 1}",
                f"a batch from {batch.base_offset} to {batch.last_offset}",
            )
        if batch.leader_epoch == NO_LEADER_EPOCH:
            return
        written = self._chain.range_for(batch.last_offset)
        epoch = None if written is None else written.epoch
        if epoch != batch.leader_epoch:
            raise self._corrupt(
                f"leader epoch {epoch} for offset {batch.base_offset}", f"{batch.leader_epoch}"
            )

    def _corrupt(self, expected: str, got: str) -> CorruptRemoteData:
        return CorruptRemoteData(f"log of {self._stretch.name}: expected {expected}, got {got}")
