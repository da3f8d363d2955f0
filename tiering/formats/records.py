"""Decodes the records of batches, with all of Kafka's codecs.

aiokafka's parser does it fast. It is stricter than Kafka's clients, and one record that it
refuses costs it the whole batch. So a batch that it refuses is parsed again here, record by
record: what cannot be decoded is then only what really is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# Imported from this module, which has the C version if there is one, not `aiokafka.record`.
from aiokafka.record.default_records import DefaultRecordBatch  # type: ignore[import-untyped]

from tierledger.events.errors import CorruptRemoteData, RejectedError
from tierledger.tiering.formats.compression import CODECS, decompressed
from tierledger.tiering.formats.record_batches import SMALLEST_BATCH, RecordBatch

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

_VARINT_BYTES_MAX: Final = 10
_UINT64_MAX: Final = 2**64 - 1


class Record(NamedTuple):
    """One record as a consumer gets it."""

    offset: int
    timestamp_ms: int
    timestamp_type: str
    """Kafka's name: CreateTime or LogAppendTime."""
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    """None for a tombstone."""
    headers: Sequence[tuple[str, bytes | None]]
    """In the record's order; names may repeat."""
    header_names: Sequence[bytes] | None = None
    """The headers' names as they are in the log, if one is not UTF-8. `headers` then has
    replacement characters in it, as Kafka's own consumer does."""


class LostRecords(NamedTuple):
    """Offsets whose records cannot be decoded."""

    first: int
    last: int
    error: CorruptRemoteData | RejectedError
    """Why. RejectedError: the compression codec is not supported."""


class Decoded(NamedTuple):
    """What a batch holds, each list in the order of offsets."""

    records: list[Record]
    lost: list[LostRecords]

    def whole(self) -> list[Record]:
        """The records, if none is lost; else this raises why."""
        if self.lost:
            raise self.lost[0].error
        return self.records

    def between(self, first: int, end: int) -> Decoded:
        """What is of the offsets from `first` to before `end`."""
        return Decoded(
            [one for one in self.records if first <= one.offset < end],
            [
                one._replace(first=max(first, one.first), last=min(end - 1, one.last))
                for one in self.lost
                if one.last >= first and one.first < end
            ],
        )

    def parts(self) -> Iterator[tuple[list[Record], LostRecords | None]]:
        """Records and what is lost behind them, in the order of offsets."""
        records = self.records
        for lost in self.lost:
            yield [one for one in records if one.offset < lost.first], lost
            records = [one for one in records if one.offset > lost.last]
        yield records, None


def decoded(batch: RecordBatch, segment: str) -> Decoded:
    """The records of `batch`, whose checksum was verified; `segment` is for errors.

    It raises nothing: a record that cannot be decoded never costs another one.
    """
    if batch.error is not None:
        return Decoded([], [LostRecords(batch.base_offset, batch.last_offset, batch.error)])
    if not batch.record_count:
        return Decoded([], [])
    epoch, kind = batch.leader_epoch, _timestamp_type(batch)
    try:
        found = [
            Record(one.offset, one.timestamp, kind, epoch, one.key, one.value, one.headers)
            for one in DefaultRecordBatch(batch.data)
        ]
    except Exception:  # noqa: BLE001 - Of whatever kind: each record is parsed again.
        return _one_by_one(batch, segment)
    return Decoded(found, [])


def _one_by_one(batch: RecordBatch, segment: str) -> Decoded:
    """As `decoded`, with a slow parser that goes on behind a record that it cannot parse."""
    found = _Found(batch, segment)
    if batch.compression >= len(CODECS):
        found.lose(
            RejectedError,
            f"expected a codec of {', '.join(CODECS)}, got number {batch.compression}",
        )
        return found.until_end()
    try:
        content = decompressed(batch.compression, batch.data[SMALLEST_BATCH:])
    except Exception as error:  # noqa: BLE001 - The codecs' libraries raise many.
        found.lose(CorruptRemoteData, f"no {CODECS[batch.compression]} ({error})")
        return found.until_end()
    at = 0
    for _ in range(batch.record_count):
        try:
            length, at = _varint(content, at)
            fields = _Fields(content, at, length)
        except _Malformed as error:
            found.lose(CorruptRemoteData, str(error))
            return found.until_end()
        at += length
        offset = None
        try:
            fields.skip(1)  # The record's attributes have no meaning yet.
            time = fields.number()
            offset = batch.base_offset + fields.number()
            found.take(fields.record(offset, time, batch))
        except _Malformed as error:
            found.lose(CorruptRemoteData, str(error), offset)
    if at < len(content):
        expected = f"{batch.record_count} records in {at} bytes"
        found.lose(CorruptRemoteData, f"expected {expected}, got {len(content)} bytes")
    return found.until_end()


class _Malformed(Exception):
    """Bytes are no record."""


class _Found:
    """Gathers a batch's records, and the ranges between them that are lost."""

    def __init__(self, batch: RecordBatch, segment: str) -> None:
        self._records: list[Record] = []
        self._lost: list[LostRecords] = []
        self._last_offset = batch.last_offset
        self._segment = segment
        self._next_offset = batch.base_offset
        self._losing: tuple[type[CorruptRemoteData | RejectedError], str] | None = None
        """Why records from the next offset on are lost, as long as their end is not known."""

    def take(self, record: Record) -> None:
        self._end_loss(record.offset - 1)
        self._records.append(record)
        self._next_offset = max(self._next_offset, record.offset + 1)

    def lose(
        self,
        kind: type[CorruptRemoteData | RejectedError],
        reason: str,
        offset: int | None = None,
    ) -> None:
        """Note that the next record is lost; its `offset`, if it is known."""
        if offset is None or not self._next_offset <= offset <= self._last_offset:
            self._losing = self._losing or (kind, reason)
            return
        self._end_loss(offset - 1)
        self._next_offset = offset
        self._losing = kind, reason
        self._end_loss(offset)

    def until_end(self) -> Decoded:
        """The result, at the batch's end."""
        self._end_loss(self._last_offset)
        return Decoded(self._records, self._lost)

    def _end_loss(self, last: int) -> None:
        losing, self._losing = self._losing, None
        first, last = self._next_offset, min(last, self._last_offset)
        if losing is None or last < first:
            return
        kind, reason = losing
        text = f"log of {self._segment}: the records from offset {first} to {last}"
        self._lost.append(LostRecords(first, last, kind(f"{text} cannot be decoded: {reason}")))
        self._next_offset = last + 1


class _Fields:
    """Reads the fields of one record, and nothing behind it."""

    def __init__(self, content: bytes, at: int, length: int) -> None:
        if not 0 <= length <= len(content) - at:
            raise _Malformed(f"expected a record of up to {len(content) - at}, got {length}")
        self._data = content[at : at + length]
        self._at = 0

    def record(self, offset: int, time: int, batch: RecordBatch) -> Record:
        """The record, from its key on."""
        key, value = self._nullable(), self._nullable()
        count = self.number()
        if count < 0:
            raise _Malformed(f"expected 0 headers or more, got {count}")
        headers = [(self._name(), self._nullable()) for _ in range(count)]
        if self._at != len(self._data):
            rest = len(self._data) - self._at
            raise _Malformed(f"expected the record to end with its headers, got {rest} bytes")
        names = [name for name, _ in headers]
        return Record(
            offset,
            batch.max_timestamp_ms if batch.has_log_append_time else batch.time_of(time),
            _timestamp_type(batch),
            batch.leader_epoch,
            key,
            value,
            [(name.decode(errors="replace"), content) for name, content in headers],
            None if all(map(_is_utf8, names)) else names,
        )

    def number(self) -> int:
        number, self._at = _varint(self._data, self._at)
        return number

    def skip(self, count: int) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= len(self._data) - self._at:
            raise _Malformed(f"expected {count} bytes, got {len(self._data) - self._at}")
        self._at += count
        return self._data[self._at - count : self._at]

    def _nullable(self) -> bytes | None:
        length = self.number()
        return None if length < 0 else self.skip(length)

    def _name(self) -> bytes:
        return self.skip(self.number())


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A signed varint, and the position behind it."""
    number = 0
    for size, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * size
        if byte <= 0x7F:
            number &= _UINT64_MAX
            return number >> 1 ^ -(number & 1), at + size + 1
    raise _Malformed(f"expected a number of up to {_VARINT_BYTES_MAX} bytes at {at}")


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _timestamp_type(batch: RecordBatch) -> str:
    return LOG_APPEND_TIME if batch.has_log_append_time else CREATE_TIME
