"""Batches of one stretch of a segment, held against what metadata and indexes say of it."""

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
    """Gives the batches of a stretch from the pieces of its segment's log."""

    def __init__(
        self,
        chain: LineageChain,
        stretch: Stretch,
        position: int,
        begins_by: int | None = None,
    ) -> None:
        """Take pieces from `position` on; nothing that is wanted begins before it.

        Args:
            chain: The lineage that is read.
            stretch: What is wanted.
            position: Where in the log file the pieces begin.
            begins_by: The offset for which an index gave the position, if one did.
        """
        self.is_done = False
        """Whether further pieces hold nothing that is wanted."""
        self._chain = chain
        self._stretch = stretch
        self._begins_by = begins_by
        self._next_offset = stretch.metadata.start_offset
        self._held: RecordBatch | None = None
        size = stretch.metadata.segment_size_in_bytes
        self._splitter = BatchSplitter(stretch.name, position, size)

    def feed(self, piece: bytes) -> Iterator[RecordBatch]:
        """The batches of the stretch that `piece` decides; the first may begin before it.

        A batch's checksum does not cover its offset, so each is held back until the next one's
        offset agrees, or the log ends where it should.

        Raises:
            CorruptRemoteData: They are not what they must be.
            RejectedError: They are of a format that is not read.
        """
        if self.is_done:
            return  # It was fetched before that was known.
        batches = self._splitter.feed(piece)
        while True:
            try:
                batch = next(batches, None)
            except RemoteStorageError:
                # What stands behind the held one is damaged, so that one is not.
                if not self._holds(self._stretch.metadata.end_offset):
                    is_all = self._holds(self._stretch.last)
                    yield from self._let_go()
                    if is_all:
                        return
                raise
            if batch is None:
                return
            self._check_place(batch)
            yield from self._let_go()
            if batch.last_offset < self._stretch.first:
                continue
            if batch.base_offset > self._stretch.last:
                self.is_done = True
                return
            self._check_lineage(batch)
            self._held = batch

    def finish(self) -> Iterator[RecordBatch]:
        """Say that there are no more pieces; the batch that was held back, if one was.

        Raises:
            CorruptRemoteData: The log should go on.
        """
        if self._holds(self._stretch.metadata.end_offset):
            self._splitter.finish()  # Its offset may be another's, if the log is cut off.
        yield from self._let_go()
        if not self.is_done:
            self._splitter.finish()

    async def fed_from(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[RecordBatch]:
        """All batches of the stretch; `pieces` are ended once nothing more is wanted."""
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

    def _check_place(self, batch: RecordBatch) -> None:
        metadata = self._stretch.metadata
        if self._begins_by is not None:
            # An index entry names an offset of the batch at its position, so this one begins
            # with what is wanted or before; else records would be left out in silence.
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
