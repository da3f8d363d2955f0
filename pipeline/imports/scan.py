"""Turns a source's bytes into rows of records, one task per unit, before they are sorted.

Each record becomes a row with its user partition, or with the reason why that is unknown.
`HOLDS` rows sort before the records of a partition and name the metadata partitions with its
records. So the writing task knows all of these before the first record. Without a partition, a
`HOLDS` row gives the offsets that a task saw, so that missing offsets can be reported.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from binascii import unhexlify
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, assert_never

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, MetadataParseError
from tierledger.events.kafka.codec import peek_partition
from tierledger.events.kafka.layout import KEY_OF_FRAME
from tierledger.events.kafka.seal import is_seal
from tierledger.pipeline.imports.units import JsonSplit, SegmentFile, TopicRange, Unit
from tierledger.pipeline.worker import page_loop
from tierledger.tiering.formats.record_batches import BatchSplitter
from tierledger.tiering.formats.record_batches import RecordBatch as LogBatch
from tierledger.tiering.formats.records import decoded

# Arrow's types are not annotated; `Any` stops at this line.
RecordBatch: TypeAlias = Any

NULL_VALUE = "a null value"
"""The reason of a record without a value: in a compacted topic, earlier ones of its key go."""

HOLDS, RECORD = 0, 1
"""Kinds of rows, in their sort order."""

ROWS_PER_BATCH = 4_096
BYTES_PER_BATCH = 8 * 1024 * 1024
"""Bytes of values per batch; the last record may exceed it."""

RECORD_BYTES_MAX = 16 * 1024 * 1024
"""Largest record that is taken: 16 times what a broker accepts by default."""

PIECE_BYTES = 1 << 20
"""Bytes of a segment per read."""

HEAD_BYTES_MIN, ONE_BYTE_VARINT = 25, 128
"""Bytes of a record's head, without the name: frame (3), length of the name (1 if it is below
`ONE_BYTE_VARINT`), id (16), partition (4), and number of tags (1)."""

# The form that `export` and recorders write. Other lines are parsed as JSON: six times slower.
_PLAIN_LINE = re.compile(
    rb'\{"partition": ?(\d{1,9}), ?"offset": ?(\d{1,18}), ?"timestamp_ms": ?(\d{1,18}), ?'
    rb'(?:"key_hex": ?null, ?)?"value_hex": ?"([0-9a-f]*)"\}\n'
)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

SCHEMA = StructType(
    [
        StructField("topic_id", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("kind", ByteType()),
        StructField("source", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp_ms", LongType()),
        StructField("value", BinaryType()),
        StructField("reason", StringType()),
    ]
)
ARROW = pa.schema(
    [
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        ("kind", pa.int8()),
        ("source", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("value", pa.binary()),
        ("reason", pa.string()),
    ]
)
"""`SCHEMA` in Arrow. A `HOLDS` row without a partition means: the task saw the offsets from
`offset` to `timestamp_ms` of metadata partition `source`, except for `reason` many."""

SORTED_BY = ("topic_id", "partition", "kind", "source", "offset")


class ScannedRecord(NamedTuple):
    """One record of the metadata topic, or something unreadable in its place."""

    source: int | None
    offset: int | None
    timestamp_ms: int
    value: bytes | None
    reason: str | None = None
    """Why it is no record; it begins with the place if the offset is unknown."""


class _Seen:
    """Offsets of one metadata partition that a task saw."""

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        self.count = 0


class ScanRows:
    """Collects what a task found as rows, and makes batches of them."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0
        self._holders: set[tuple[bytes, int, int]] = set()
        self._seen: dict[int, _Seen] = {}
        self._heads: dict[bytes, tuple[bytes, int]] = {}
        """Heads of records that were parsed before, to their partitions."""

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= ROWS_PER_BATCH or self._size > BYTES_PER_BATCH

    def saw(self, source: int, first: int, last: int, missing: int = 0) -> None:
        """Note that the source has the offsets `first` to `last`, `missing` ones left out."""
        seen = self._seen.get(source)
        if seen is None:
            seen = self._seen[source] = _Seen(first)
        seen.first = min(seen.first, first)
        seen.last = max(seen.last, last)
        seen.count += last - first + 1 - missing

    def add(self, found: ScannedRecord) -> None:
        source, offset, timestamp_ms, value, reason = found
        if is_seal(value):
            return
        key = None
        if reason is None:
            # Most records have the head of an earlier one, whose partition is known.
            head = _head(value)
            key = self._heads.get(head)
            if key is None:
                key, reason = _peeked(value)
                if key is not None and head[-1:] == b"\0":
                    self._heads[head] = key
        if key is None:
            self._rows.append((None, None, RECORD, source, offset, timestamp_ms, None, reason))
            return
        assert source is not None, "what has a value was somewhere"
        assert value is not None, "what is about a partition has a value"
        topic_id, partition = key
        holder = (topic_id, partition, source)
        if holder not in self._holders:
            self._holders.add(holder)
            self._rows.append((topic_id, partition, HOLDS, source, -1, 0, None, None))
        self._rows.append(
            (topic_id, partition, RECORD, source, offset, timestamp_ms, value, None)
        )
        self._size += len(value)

    def taken(self) -> RecordBatch:
        """The rows collected since the last batch."""
        rows, self._rows, self._size = self._rows, [], 0
        columns = zip(*rows, strict=True) if rows else [()] * len(ARROW)
        arrays = [pa.array(one, field.type) for one, field in zip(columns, ARROW, strict=True)]
        return pa.record_batch(arrays, schema=ARROW)

    def last(self) -> RecordBatch:
        """The remaining rows, and the ranges of offsets seen."""
        for source, seen in self._seen.items():
            missing = str(seen.last - seen.first + 1 - seen.count)
            self._rows.append((None, None, HOLDS, source, seen.first, seen.last, None, missing))
        return self.taken()


class ScanUnits:
    """Reads units, which Spark passes by their numbers; for `mapInArrow`."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units

    def __call__(self, numbers: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._rows_of(self._units[number])

    def _rows_of(self, unit: Unit) -> Iterator[RecordBatch]:
        rows = ScanRows()
        for one in _found_in(unit, rows):
            rows.add(one)
            if rows.is_full:
                yield rows.taken()
        yield rows.last()


def _head(value: bytes | None) -> bytes:
    """The head of `value`, from frame to number of tags; empty if it has an unusual form."""
    if value is None or not HEAD_BYTES_MIN <= len(value) <= RECORD_BYTES_MAX:
        return b""
    if value[:3] not in KEY_OF_FRAME or value[3] >= ONE_BYTE_VARINT:
        return b""
    return value[: value[3] + HEAD_BYTES_MIN - 1]


def _peeked(value: bytes | None) -> tuple[tuple[bytes, int] | None, str | None]:
    """The partition of a value, or the reason why it is unknown."""
    if value is None:
        return None, NULL_VALUE
    if len(value) > RECORD_BYTES_MAX:
        return None, f"{len(value)} bytes, at most {RECORD_BYTES_MAX} are taken"
    try:
        tip = peek_partition(value)
    except MetadataParseError as error:
        return None, str(error)
    return (bytes(tip.topic_id), tip.partition), None


def _found_in(unit: Unit, rows: ScanRows) -> Iterator[ScannedRecord]:
    match unit:
        case JsonSplit():
            return _json_lines(unit, rows)
        case SegmentFile():
            return _segment(unit, rows)
        case TopicRange():
            return _topic(unit, rows)
        case _:
            assert_never(unit)


def _json_lines(split: JsonSplit, rows: ScanRows) -> Iterator[ScannedRecord]:
    at = split.start
    opener: Any = gzip.open if split.is_gzipped else open
    with opener(split.path, "rb") as file:
        if at > 0:
            file.seek(at - 1)
            at += len(file.readline()) - 1  # A line that began before is another task's.
        while split.is_gzipped or at < split.end:
            try:
                line = file.readline()
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise MetadataParseError(
                    f"{split.path}, byte {at}: expected a whole gzip stream, found it torn or "
                    f"damaged ({error})"
                ) from error
            if not line:
                return
            found = _parsed(split.path, at, line)
            if found.source is not None and found.offset is not None:
                rows.saw(found.source, found.offset, found.offset)
            yield found
            at += len(line)


def _parsed(path: str, at: int, line: bytes) -> ScannedRecord:
    plain = _PLAIN_LINE.fullmatch(line)
    if plain is not None:
        number, place, time_ms, digits = plain.groups()
        if len(digits) % 2 == 0:
            return ScannedRecord(int(number), int(place), int(time_ms), unhexlify(digits))
    try:
        fields = json.loads(line)
        source = _integer(fields["partition"], 0, INT32_MAX)
        offset = _integer(fields["offset"], 0, INT64_MAX)
        timestamp_ms = _integer(fields["timestamp_ms"], -1, INT64_MAX)
        text = fields["value_hex"]
        # Not `bytes.fromhex`, which skips blanks: here a blank is damage.
        value = None if text is None else unhexlify(text)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        shown = line[:80].decode(errors="replace").rstrip("\n")
        reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        return ScannedRecord(
            None, None, 0, None, f"{path}, byte {at}: not a recorded record ({reason}): {shown}"
        )
    return ScannedRecord(source, offset, timestamp_ms, value)


def _integer(value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"expected a whole number from {low} to {high}, found {value!r:.40}")
    return value


def _segment(file: SegmentFile, rows: ScanRows) -> Iterator[ScannedRecord]:
    splitter = BatchSplitter(file.path, 0, 0)
    try:
        with Path(file.path).open("rb") as opened:
            while piece := opened.read(PIECE_BYTES):
                for batch in splitter.feed(piece):
                    first, last = batch.base_offset, batch.last_offset
                    # Compaction removes records within a batch, and leaves its offsets.
                    missing = last - first + 1 - batch.record_count
                    rows.saw(file.partition, first, last, max(missing, 0))
                    if batch.is_control:
                        continue
                    yield from _records(batch, file)
    except OSError as error:
        raise InvalidArgument(f"cannot read {file.path}: {error.strerror}") from error
    try:
        splitter.finish()
    except CorruptRemoteData:
        if not file.is_last:
            raise
        # A broker is still writing the last segment, or was killed: its torn end is ignored.


def _records(batch: LogBatch, file: SegmentFile) -> Iterator[ScannedRecord]:
    for records, lost in decoded(batch, file.path).parts():
        for one in records:
            yield ScannedRecord(file.partition, one.offset, one.timestamp_ms, one.value)
        if lost is not None:
            yield ScannedRecord(file.partition, lost.first, 0, None, str(lost.error))


def _topic(part: TopicRange, rows: ScanRows) -> Iterator[ScannedRecord]:
    # Imported here: reading files does not need aiokafka.
    from tierledger.pipeline.imports.topic import records_of  # noqa: PLC0415

    # All these offsets existed at planning. A consumer does not tell a marker's offset from one
    # whose record was compacted away, so all count as seen.
    rows.saw(part.partition, part.start, part.end - 1)
    with page_loop() as loop:
        pages = records_of(part)
        while (page := loop.run_until_complete(anext(pages, None))) is not None:
            for record in page:
                yield ScannedRecord(
                    part.partition, record.offset, record.timestamp, record.value
                )
