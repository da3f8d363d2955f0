"""Checks the transaction indexes against the markers in the log itself.

A transaction index that lost its entries cannot be told from a sound one: an index without
entries is valid. But the log has a marker for each transaction's end, commit or abort. So a
transactional batch is let through only once its marker was read and agrees with the index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple

from tierledger.events.errors import CorruptRemoteData
from tierledger.tiering.formats.record_batches import RecordBatch
from tierledger.tiering.formats.records import decoded

HELD_BYTES_MAX: Final = 16 << 20
"""Bytes that may wait for markers. Where a transaction would hold back more, batches are let
through by the indexes alone; a marker that contradicts is then found after them."""

_MARKER = Struct(">hh")
ABORT: Final = "ABORT"
COMMIT: Final = "COMMIT"
_ENDS: Final = {0: ABORT, 1: COMMIT}


class SegmentBatch(NamedTuple):
    """A batch, and the name of its segment in errors."""

    segment: str
    batch: RecordBatch


class _Transaction:
    """A transaction whose batches were read. It is open until its marker is read."""

    __slots__ = ("first_offset", "is_aborted", "is_open")

    def __init__(self, first_offset: int, *, is_aborted: bool | None) -> None:
        self.first_offset = first_offset
        self.is_aborted = is_aborted
        """Whether the indexes list it as aborted; none if they were not asked."""
        self.is_open = True


class DecidedBatches:
    """Lets the committed batches of a log through, in order."""

    def __init__(self, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self.is_contradicted = False
        """Whether the log contradicted the indexes."""
        self._held_bytes_max = held_bytes_max
        self._held: deque[tuple[SegmentBatch, _Transaction | None]] = deque()
        self._held_bytes = 0
        self._open: dict[int, _Transaction] = {}
        """Open transactions by producer id."""

    def take(self, found: SegmentBatch, *, is_aborted: bool) -> Iterator[SegmentBatch]:
        """The batches that may be yielded now that `found` is read, in log order.

        Args:
            found: The log's next batch, markers included.
            is_aborted: Whether the indexes list its transaction as aborted.

        Raises:
            CorruptRemoteData: `found` contradicts the indexes. All batches that were held back
                are dropped.
        """
        batch = found.batch
        if batch.error is not None:
            self._forget()
            self._hold(found, None)
        elif batch.is_control:
            self._end(found)
        elif not batch.is_transactional:
            self._hold(found, None)
        else:
            transaction = self._open.get(batch.producer_id)
            if transaction is None:
                transaction = _Transaction(batch.base_offset, is_aborted=is_aborted)
                self._open[batch.producer_id] = transaction
            elif transaction.is_aborted != is_aborted:
                raise self._contradicted(found, transaction, f"data at {batch.base_offset}")
            if not is_aborted:
                self._hold(found, transaction)
        yield from self._let_through()

    def _let_through(self) -> Iterator[SegmentBatch]:
        while self._held:
            (first, transaction) = self._held[0]
            waits = transaction is not None and transaction.is_open
            if waits and self._held_bytes <= self._held_bytes_max:
                return
            self._held.popleft()
            self._held_bytes -= len(first.batch.data)
            yield first

    @property
    def undecided(self) -> Mapping[int, int]:
        """First offsets of the open transactions, by producer id."""
        return {producer: one.first_offset for producer, one in self._open.items()}

    def see(self, found: SegmentBatch) -> Iterator[SegmentBatch]:
        """The held batches that may be yielded now; `found` itself is behind the read range.

        Raises:
            CorruptRemoteData: `found` is a marker, and contradicts the indexes.
        """
        batch = found.batch
        if batch.is_control:
            self._end(found)
        elif batch.is_transactional and batch.producer_id not in self._open:
            self._open[batch.producer_id] = _Transaction(batch.base_offset, is_aborted=None)
        yield from self._let_through()

    def rest(self) -> Iterator[SegmentBatch]:
        """All batches still held, on the indexes alone: their markers cannot be read."""
        while self._held:
            yield self._held.popleft()[0]
        self._held_bytes = 0

    def _forget(self) -> None:
        """Leave all open transactions to the indexes: their markers may be lost."""
        for transaction in self._open.values():
            transaction.is_open = False
        self._open.clear()

    def _hold(self, found: SegmentBatch, transaction: _Transaction | None) -> None:
        self._held.append((found, transaction))
        self._held_bytes += len(found.batch.data)

    def _end(self, found: SegmentBatch) -> None:
        batch = found.batch
        transaction = self._open.pop(batch.producer_id, None)
        if transaction is None:
            return
        transaction.is_open = False
        end = None if transaction.is_aborted is None else end_of(batch, found.segment)
        if end not in (None, ABORT if transaction.is_aborted else COMMIT):
            marker = f"its {end} marker at {batch.base_offset}"
            raise self._contradicted(found, transaction, marker)

    def _contradicted(
        self, found: SegmentBatch, transaction: _Transaction, by: str
    ) -> CorruptRemoteData:
        self.is_contradicted = True
        self._held.clear()
        verb = "has" if transaction.is_aborted else "lacks"
        return CorruptRemoteData(
            f"transaction index of {found.segment}: it {verb} an aborted transaction of "
            f"producer {found.batch.producer_id} from offset {transaction.first_offset} on, "
            f"the log says otherwise: {by}"
        )


def end_of(marker: RecordBatch, segment: str) -> str | None:
    """ABORT or COMMIT; none if compaction removed the record, or it is of another kind."""
    for record in decoded(marker, segment).whole():
        if record.key is not None and len(record.key) >= _MARKER.size:
            _, kind = _MARKER.unpack_from(record.key)
            return _ENDS.get(kind)
    return None
