"""Compares a segment's indexes with its log, batch by batch. Pure.

The log's batches have checksums, but Kafka's index formats have none. But each index entry
describes something that can be checked in the log, and the other way round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.errors import CorruptRemoteData
from tierledger.events.lineage import without_empty_epochs
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_files import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TIMES_WITHOUT_OFFSETS_MAX,
    TRANSACTION_ENTRY,
    AbortedTransaction,
    OffsetIndex,
    SegmentBounds,
    TimeIndex,
    TransactionIndex,
)
from tierledger.tiering.formats.index_type import REQUIRED_INDEX_TYPES, IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tierledger.tiering.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from tierledger.tiering.formats.record_batches import NO_LEADER_EPOCH, RecordBatch
from tierledger.tiering.local.leader_epochs import epoch_for_offset, epochs_between
from tierledger.tiering.reader.markers import ABORT, COMMIT, end_of

_NOT_OPEN = -1
"""The first offset in a producer snapshot if no transaction is open."""


class SegmentFault(NamedTuple):
    """A fault of one index, or of the log."""

    index_type: IndexType | None
    """The damaged index; none: the log."""
    position: int | None
    """Bytes from the beginning of the index or log; none if not known."""
    message: str
    """What was expected, and what was found."""


class LogCheck:
    """Takes the batches of one segment in order, and reports the first damage of each index."""

    def __init__(
        self,
        metadata: RemoteLogSegmentMetadata,
        indexes: Mapping[IndexType, bytes],
        known_epochs: Mapping[int, int],
    ) -> None:
        """Check `indexes`, the segment's existing indexes as they were read.

        `known_epochs` has leader epochs of the partition whose first offsets are known.
        """
        self._metadata = metadata
        self._known_epochs = known_epochs
        self._raw = indexes
        self._damaged: set[IndexType | None] = set()
        self._checks: list[_IndexCheck] = []
        self._next_offset = metadata.start_offset

    def begin(self) -> Iterator[SegmentFault]:
        """The damages that show without the log. Call it first."""
        bounds = SegmentBounds.of(self._metadata)
        name = bounds.segment
        found: dict[IndexType, object] = {}
        readers: dict[IndexType, Callable[[bytes], object]] = {
            IndexType.OFFSET: lambda data: OffsetIndex.parse(data, bounds),
            IndexType.TIMESTAMP: lambda data: TimeIndex.parse(data, bounds),
            IndexType.TRANSACTION: lambda data: TransactionIndex.parse(data, bounds),
            IndexType.PRODUCER_SNAPSHOT: lambda data: parse_producer_snapshot(
                data, f"producer snapshot of {name}"
            ),
            IndexType.LEADER_EPOCH: self._epochs,
        }
        for kind, read in readers.items():
            if kind in self._raw:
                try:
                    found[kind] = read(self._raw[kind])
                except CorruptRemoteData as error:
                    yield from self._note(SegmentFault(kind, None, str(error)))
            elif kind in REQUIRED_INDEX_TYPES:
                yield from self._note(
                    SegmentFault(kind, None, "expected it to be there, it is not")
                )
        offsets, times = found.get(IndexType.OFFSET), found.get(IndexType.TIMESTAMP)
        if isinstance(offsets, OffsetIndex):
            self._checks.append(_Offsets(offsets))
        if isinstance(times, TimeIndex):
            self._checks.append(_Times(times))
            is_empty = isinstance(offsets, OffsetIndex) and not len(offsets)
            if is_empty and len(times) > TIMES_WITHOUT_OFFSETS_MAX:
                message = (
                    f"expected entries as the {len(times)} of the time index have, got none"
                )
                yield from self._note(SegmentFault(IndexType.OFFSET, 0, message))
        transactions = found.get(IndexType.TRANSACTION, TransactionIndex(b""))
        producers = found.get(IndexType.PRODUCER_SNAPSHOT)
        open_from = _OpenTransactions(self._metadata.start_offset)
        if (
            isinstance(transactions, TransactionIndex)
            and IndexType.TRANSACTION not in self._damaged
        ):
            self._checks.append(_Aborted(transactions, open_from, name))
        # After `_Aborted`, which needs the transactions that were open before a batch.
        self._checks.append(open_from)
        if isinstance(producers, list):
            self._checks.append(_Producers(producers, open_from, self._metadata.end_offset))

    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        """The damages that show with the log's next batch, which begins at `position`."""
        metadata = self._metadata
        if batch.base_offset < self._next_offset or batch.last_offset > metadata.end_offset:
            expected = f"a batch within {self._next_offset} to {metadata.end_offset}"
            got = f"one from {batch.base_offset} to {batch.last_offset}"
            yield from self._note(
                SegmentFault(None, position, f"expected {expected}, got {got}")
            )
        epoch = epoch_for_offset(metadata.segment_leader_epochs, batch.last_offset)
        # If the log start offset is within the segment, the epochs before it are not known.
        if epoch is not None and batch.leader_epoch not in {NO_LEADER_EPOCH, epoch}:
            message = f"expected leader epoch {epoch} for offset {batch.base_offset}"
            yield from self._note(
                SegmentFault(None, position, f"{message}, got {batch.leader_epoch}")
            )
        self._next_offset = batch.last_offset + 1
        if None not in self._damaged:
            for check in self._checks:
                for damage in check.take(batch, position):
                    yield from self._note(damage)

    def finish(self) -> Iterator[SegmentFault]:
        """The damages that show at the log's end; none if the log itself is damaged."""
        if None not in self._damaged:
            for check in self._checks:
                for damage in check.finish():
                    yield from self._note(damage)

    def report_log(self, position: int | None, message: str) -> Iterator[SegmentFault]:
        """Report that the log is damaged. From then on the indexes are not compared with it."""
        yield from self._note(SegmentFault(None, position, message))

    def _note(self, damage: SegmentFault) -> Iterator[SegmentFault]:
        if damage.index_type not in self._damaged:
            self._damaged.add(damage.index_type)
            yield damage

    def _epochs(self, data: bytes) -> dict[int, int]:
        metadata = self._metadata
        name = f"leader-epoch index of {metadata.remote_log_segment_id}"
        epochs = parse_leader_epochs(data, name)
        if data != format_leader_epochs(epochs):
            raise CorruptRemoteData(
                f"{name}: expected it as Kafka writes it, got {data[-16:]!r}"
            )
        until = metadata.end_offset + 1
        ours = without_empty_epochs(epochs_between(epochs, metadata.start_offset, until))
        expected = without_empty_epochs(metadata.segment_leader_epochs)
        if ours != expected:
            raise CorruptRemoteData(f"{name}: expected it to end with {expected}, got {ours}")
        for epoch, start in list(epochs.items())[1:]:
            known = self._known_epochs.get(epoch, start)
            if known != start:
                raise CorruptRemoteData(
                    f"{name}: expected leader epoch {epoch} from {known} on, as the metadata "
                    f"has it, got {start}"
                )
        return epochs


class _IndexCheck(ABC):
    """The check of one index. Only the first damage that it reports is used."""

    @abstractmethod
    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        """Compare the next batch, which begins at `position`."""

    def finish(self) -> Iterator[SegmentFault]:
        """Compare at the log's end."""
        return iter(())


class _Offsets(_IndexCheck):
    """An entry has the position of a batch, and the last offset of this or a later batch.

    A later one is possible since brokers before 4.0 enter the last offset of all batches that
    were appended together.
    """

    def __init__(self, index: OffsetIndex) -> None:
        self._entries = enumerate(index.entries())
        self._next = next(self._entries, None)
        self._offset: int | None = None
        """The offset at which a batch must end; none if no entry demands one now."""

    @override
    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        while self._next is not None and self._next[1].position <= position:
            number, entry = self._next
            if self._offset is not None:
                yield self._damage(number - 1, f"a batch to end with {self._offset}")
            if entry.position < position:
                yield self._damage(number, f"a batch to begin at {entry.position}")
            if batch.base_offset > entry.offset:
                found = f"the batch of {entry.offset} or one before it at {position}"
                yield self._damage(number, found)
            self._offset = entry.offset
            self._next = next(self._entries, None)
        if self._offset is not None and batch.last_offset >= self._offset:
            if batch.last_offset > self._offset:
                number = -1 if self._next is None else self._next[0] - 1
                yield self._damage(number, f"a batch to end with {self._offset}")
            self._offset = None

    @override
    def finish(self) -> Iterator[SegmentFault]:
        if self._offset is not None:
            yield self._damage(-1, f"a batch to end with {self._offset}")
        if self._next is not None:
            number, entry = self._next
            yield self._damage(number, f"a batch to begin at {entry.position}")

    @staticmethod
    def _damage(number: int, expected: str) -> SegmentFault:
        at = number * OFFSET_ENTRY.size if number >= 0 else None
        return SegmentFault(IndexType.OFFSET, at, f"expected {expected}, the log has none")


class _Times(_IndexCheck):
    """An entry names the first batch to reach a timestamp; the last entry, the log's latest."""

    def __init__(self, index: TimeIndex) -> None:
        self._entries = enumerate(index.entries())
        self._next = next(self._entries, None)
        self._latest_ms = -1
        self._entered_ms = -1

    @override
    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        while self._next is not None and self._next[1].offset <= batch.last_offset:
            number, (time, offset) = self._next
            is_there = batch.base_offset <= offset and batch.max_timestamp_ms == time
            if not is_there or self._latest_ms >= time:
                latest = max(self._latest_ms, batch.max_timestamp_ms)
                yield SegmentFault(
                    IndexType.TIMESTAMP,
                    number * TIME_ENTRY.size,
                    f"expected time {time} to be reached at offset {offset}, the log has "
                    f"{batch.max_timestamp_ms} there, and up to there {latest}",
                )
            self._latest_ms, self._entered_ms = time, time
            self._next = next(self._entries, None)
        self._latest_ms = max(self._latest_ms, batch.max_timestamp_ms)

    @override
    def finish(self) -> Iterator[SegmentFault]:
        last_ms = self._entered_ms if self._next is None else self._next[1].timestamp_ms
        if self._next is not None or self._latest_ms != last_ms:
            yield SegmentFault(
                IndexType.TIMESTAMP,
                None,
                f"expected it to end with the log's latest time {self._latest_ms}, "
                f"got {last_ms}",
            )


class _OpenTransactions(_IndexCheck):
    """Tracks open transactions, as far as the segment alone shows them."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.firsts: dict[int, int] = {}
        """By producer: the first offset in the segment of its open transaction."""
        self.ended: set[int] = set()
        """Producers with a marker so far: their open transactions began in the segment."""
        self.lasts: dict[int, int] = {}
        """By producer: the last offset of its newest data batch."""

    @override
    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        producer = batch.producer_id
        if batch.is_control:
            self.firsts.pop(producer, None)
            self.ended.add(producer)
        elif producer >= 0:
            self.lasts[producer] = batch.last_offset
            if batch.is_transactional:
                self.firsts.setdefault(producer, batch.base_offset)
        return iter(())

    def may_begin(self, producer: int, offset: int) -> bool:
        """Whether an open transaction of `producer` may begin at `offset`."""
        if self.firsts.get(producer) == offset:
            return True
        return producer not in self.ended and 0 <= offset < self.start_offset


class _Aborted(_IndexCheck):
    """There must be an entry for each ABORT marker whose transaction has data, and no other."""

    def __init__(self, index: TransactionIndex, opened: _OpenTransactions, name: str) -> None:
        self._by_marker = {
            one.last_offset: (number, one) for number, one in enumerate(index.entries())
        }
        self._opened = opened
        self._name = name

    @override
    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        if not batch.is_control:
            return
        number, entry = self._by_marker.pop(batch.base_offset, (None, None))
        kind, producer = end_of(batch, self._name), batch.producer_id
        first = self._opened.firsts.get(producer)
        if kind == ABORT and entry is None and first is not None:
            yield SegmentFault(
                IndexType.TRANSACTION,
                None,
                f"expected an aborted transaction of producer {producer} from {first} to "
                f"{batch.base_offset}, got none",
            )
        if number is None or entry is None:
            return
        if kind == COMMIT or not self._fits(entry, producer, batch.base_offset):
            yield SegmentFault(
                IndexType.TRANSACTION,
                number * TRANSACTION_ENTRY.size,
                f"expected what the {kind or 'marker'} of producer {producer} at "
                f"{batch.base_offset} ends, got {entry}",
            )

    def _fits(self, entry: AbortedTransaction, producer: int, marker: int) -> bool:
        opened = self._opened
        others = [first for one, first in opened.firsts.items() if one != producer]
        stable = entry.last_stable_offset
        # Brokers before 2.4 also entered a marker without data, as a transaction of itself.
        is_of_marker = entry.first_offset == marker and producer not in opened.firsts
        return (
            entry.producer_id == producer
            and (is_of_marker or opened.may_begin(producer, entry.first_offset))
            # Another open transaction may have begun before the segment.
            and (stable == min(others, default=marker + 1) or 0 <= stable < opened.start_offset)
        )

    @override
    def finish(self) -> Iterator[SegmentFault]:
        for number, entry in self._by_marker.values():
            yield SegmentFault(
                IndexType.TRANSACTION,
                number * TRANSACTION_ENTRY.size,
                f"expected a marker at {entry.last_offset}, the log has none",
            )


class _Producers(_IndexCheck):
    """A snapshot has the state of each producer at the segment's end.

    Producers that wrote nothing for a day may be missing in it.
    """

    def __init__(
        self, producers: list[ProducerState], opened: _OpenTransactions, end_offset: int
    ) -> None:
        self._producers = {one.producer_id: one for one in producers}
        self._opened = opened
        self._end_offset = end_offset

    @override
    def take(self, batch: RecordBatch, position: int) -> Iterator[SegmentFault]:
        return iter(())

    @override
    def finish(self) -> Iterator[SegmentFault]:
        opened = self._opened
        for producer, one in self._producers.items():
            last, first = opened.lasts.get(producer), one.current_txn_first_offset
            is_last = last is None or one.last_offset in {last, _NOT_OPEN}
            if not is_last or one.last_offset > self._end_offset:
                expected = f"its last offset to be {self._end_offset if last is None else last}"
                yield self._damage(producer, expected, str(one.last_offset))
            is_open = producer in opened.firsts
            is_right = opened.may_begin(producer, first) or (first < 0 and not is_open)
            if not is_right:
                expected = "no open transaction"
                if is_open:
                    expected = f"a transaction open from {opened.firsts[producer]} on"
                yield self._damage(producer, expected, f"one open from {first} on")
        for producer in opened.firsts.keys() - self._producers.keys():
            yield self._damage(producer, "an open transaction", "nothing of that producer")

    @staticmethod
    def _damage(producer: int, expected: str, got: str) -> SegmentFault:
        message = f"of producer {producer}: expected {expected}, got {got}"
        return SegmentFault(IndexType.PRODUCER_SNAPSHOT, None, message)
