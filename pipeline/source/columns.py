"""Columns of the `tierledger` format, and how they are made from fields of stored events.

docs/pipeline.md lists names and types. A column is null in the rows of events that do not have
its field. No event objects are made on the way.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, compress
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tierledger.events import log_events as log
from tierledger.events.errors import CorruptLog
from tierledger.events.event_codec import TYPES
from tierledger.events.identifiers import UUID_BYTES, TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.pipeline.log_ranges import BOUNDARY_NUMBER, CORRUPT_NUMBER
from tierledger.pipeline.source.packed import Fields, Lists, Numbers
from tierledger.pipeline.table_columns import (
    BIGINT,
    BINARY,
    BOOLEAN,
    EPOCH_MAP,
    INT,
    STRING,
    Column,
)
from tierledger.pipeline.tables.arrow import TYPES as ARROW_TYPES

CORRUPT = "corrupt"
"""The type of a row at the position from which a log cannot be read; `reason` tells why."""

BOUNDARY = "boundary"
"""The type of a row in place of forgotten events, in a log that went on later. Its `stored` is
the checkpoint's partition value, from which a leader goes on."""

EVENT_COLUMNS = (
    Column("cluster", STRING, ""),
    Column("topic", STRING, ""),
    Column("topic_id", STRING, ""),
    Column("partition", INT, ""),
    Column("position", BIGINT, ""),
    Column("session", BIGINT, "", is_nullable=True),
    Column("type", STRING, ""),
    Column("version", INT, "", is_nullable=True),
    Column("log_time_ms", BIGINT, ""),
    Column("origin_broker_id", INT, "", is_nullable=True),
    Column("origin_request_id", BINARY, "", is_nullable=True),
    Column("segment_id", STRING, "", is_nullable=True),
    Column("state", STRING, "", is_nullable=True),
    Column("start_offset", BIGINT, "", is_nullable=True),
    Column("end_offset", BIGINT, "", is_nullable=True),
    Column("max_timestamp_ms", BIGINT, "", is_nullable=True),
    Column("event_timestamp_ms", BIGINT, "", is_nullable=True),
    Column("broker_id", INT, "", is_nullable=True),
    Column("size_in_bytes", BIGINT, "", is_nullable=True),
    Column("leader_epochs", EPOCH_MAP, "", is_nullable=True),
    Column("custom_metadata", BINARY, "", is_nullable=True),
    Column("custom_metadata_dropped_bytes", BIGINT, "", is_nullable=True),
    Column("txn_index_empty", BOOLEAN, "", is_nullable=True),
    Column("delete_state", STRING, "", is_nullable=True),
    Column("source_partition", INT, "", is_nullable=True),
    Column("source_offset", BIGINT, "", is_nullable=True),
    Column("reason", STRING, "", is_nullable=True),
    Column("body", STRING, "", is_nullable=True),
    Column("stored", BINARY, "", is_nullable=True),
)
"""All columns; the last, `stored`, has an event's bytes and is not read by default."""

_EPOCHS = pa.map_(pa.int32(), pa.field("value", pa.int64(), nullable=False))

FILE_SCHEMA = pa.schema(
    [
        pa.field(
            one.name,
            _EPOCHS if one.type == EPOCH_MAP else ARROW_TYPES[one.type],
            nullable=one.is_nullable,
        )
        for one in EVENT_COLUMNS[:-1]
    ]
)
"""The schema of column files: all but the stored bytes."""


def coded_schema(names: Iterable[str], coded: Collection[str] | None = None) -> pa.Schema:
    """These columns of `FILE_SCHEMA`, with texts as numbers of values, as files have them.

    `coded`: the texts that are so; all of them by default.
    """
    fields = [FILE_SCHEMA.field(name) for name in names]
    return pa.schema(
        [
            one.with_type(CODED)
            if one.type == pa.string() and (coded is None or one.name in coded)
            else one
            for one in fields
        ]
    )


CODED = pa.dictionary(pa.int32(), pa.string())


Values: TypeAlias = Any
"""The values of a column: a sequence, or an array of NumPy or Arrow."""

Bodies: TypeAlias = "dict[int, tuple[Numbers, Fields]]"
"""By type number: the rows with such events, and for each field of their bodies its values."""


class Run(NamedTuple):
    """Consecutive rows of one partition."""

    topic_id_partition: TopicIdPartition
    rows: int


class Rows(NamedTuple):
    """Rows in order, column by column, with the values as their events store them.

    `numbers` has the type number of each row's event, and `fields` the fields of its body,
    unless they are read by type already.
    """

    runs: list[Run]
    positions: Values
    sessions: Values
    numbers: Values
    versions: Values
    times: Values
    brokers: Values
    requests: Values
    fields: Values | Bodies
    stored: Values


Nulls: TypeAlias = Any
"""Which values are null, as an array of NumPy; None if none is."""


class _Converter(Protocol):
    """Makes a column of values; where arrays of NumPy are null they hold anything."""

    def __call__(self, values: Values, nulls: Nulls = None, /) -> pa.Array: ...


def _ids(values: Values, nulls: Nulls = None) -> pa.Array:
    """Ids in Kafka's text form, all encoded by one call of base64."""
    # With two bytes of padding each id takes 24 characters. The first 22 are the id's own.
    if isinstance(values, np.ndarray):
        padded = np.zeros((len(values), UUID_BYTES + 2), np.uint8)
        padded[:, :UUID_BYTES] = values
        whole = padded.tobytes()
    else:
        lengths = set(map(len, values))
        if lengths != {UUID_BYTES}:
            raise ValueError(f"expected ids of {UUID_BYTES} bytes, found lengths {lengths}")
        whole = b"\0\0".join(values) + b"\0\0"
    text = b2a_base64(whole, newline=False).translate(_URL_SAFE)
    cut = np.frombuffer(text, np.uint8).reshape(-1, 24)[:, :ID_LENGTH]
    there = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    begins = (np.arange(len(values) + 1) * ID_LENGTH).astype(np.int32)
    data = np.ascontiguousarray(cut)
    buffers = [pa.py_buffer(begins), pa.py_buffer(data)]
    return pa.StringArray.from_buffers(len(values), *buffers, there)


def _optional_ids(values: Values, nulls: Nulls = None) -> pa.Array:  # noqa: ARG001 - Its own.
    there = [value is not None for value in values]
    if not any(there):
        return pa.nulls(len(values), pa.string())
    places = np.where(there, np.cumsum(there) - 1, 0)
    index = pa.array(places, mask=~np.asarray(there))
    return _ids(list(compress(values, there))).take(index)


def _names(names: Sequence[str]) -> _Converter:
    known = pa.array(names)

    def named(values: Values, nulls: Nulls = None) -> pa.Array:
        if isinstance(values, np.ndarray):
            numbers = pa.array(values, mask=nulls).cast(pa.int32())
        else:
            numbers = pa.array(values, pa.int32())
        return pa.DictionaryArray.from_arrays(numbers, known)

    return named


def _of_source(place: int, kind: pa.DataType) -> _Converter:
    """Makes a column of the partitions, or of the offsets, that sources are pairs of."""

    def converted(values: Values, nulls: Nulls = None) -> pa.Array:  # noqa: ARG001 - None has any.
        if isinstance(values[0], pa.Array):  # Each half is a column already.
            return values[place].cast(kind)
        if values.count(None) == len(values):
            return pa.nulls(len(values), kind)
        return pa.array([None if one is None else one[place] for one in values], kind)

    return converted


def _leader_epochs(values: Values, nulls: Nulls = None) -> pa.Array:
    if isinstance(values, Lists):
        flat, lengths = values
    else:
        flat = list(chain.from_iterable(values))
        lengths = np.fromiter(map(len, values), np.int32, len(values))
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths // 2, out=ends[1:])
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()),
        pa.array(flat[0::2], pa.int32()),
        pa.array(flat[1::2], pa.int64()),
        type=_EPOCHS,
        mask=None if nulls is None else pa.array(nulls),
    )


def _plain(kind: pa.DataType) -> _Converter:
    def converted(values: Values, nulls: Nulls = None) -> pa.Array:
        if isinstance(values, pa.Array):
            return values.cast(kind)
        if isinstance(values, np.ndarray):
            return pa.array(values, mask=nulls).cast(kind)
        first = values[0]
        # Most columns repeat a single value. Counting it is faster than converting each.
        if values[-1] == first and values.count(first) == len(values):
            return pa.repeat(pa.scalar(first, kind), len(values))
        return pa.array(values, kind)

    return converted


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
ID_LENGTH = 22
"""Characters of an id."""
_INT, _LONG, _TEXT = _plain(pa.int32()), _plain(pa.int64()), _plain(pa.string())
_BYTES, _BOOL = _plain(pa.binary()), _plain(pa.bool_())
_STATE = _names([state.name for state in RemoteLogSegmentState])
_DELETE_STATE = _names([state.name for state in RemotePartitionDeleteState])

_CONVERTERS: dict[str, tuple[str, _Converter]] = {
    "segment_id": ("segment_id", _ids),
    "state": ("state", _STATE),
    "start_offset": ("start_offset", _LONG),
    "end_offset": ("end_offset", _LONG),
    "max_timestamp_ms": ("max_timestamp_ms", _LONG),
    "event_timestamp_ms": ("event_timestamp_ms", _LONG),
    "broker_id": ("broker_id", _INT),
    "size_in_bytes": ("size", _LONG),
    "leader_epochs": ("epochs", _leader_epochs),
    "custom_metadata": ("custom_metadata", _BYTES),
    "custom_metadata_dropped_bytes": ("dropped_bytes", _LONG),
    "txn_index_empty": ("txn_index_empty", _BOOL),
    "source_partition": ("source", _of_source(0, pa.int32())),
    "source_offset": ("source", _of_source(1, pa.int64())),
    "reason": ("reason", _TEXT),
}
"""By column: the event field that fills it, and the conversion."""

_IN_JSON = (
    log.SessionOpened,
    log.SessionClosed,
    log.SessionDisputed,
    log.SegmentKept,
    log.SegmentPurgeStarted,
    log.TombstonesDropped,
)
"""Events with fields that have no column; the column `body` has all their fields as JSON."""


class _Filler(NamedTuple):
    """Makes a column for events of one type."""

    values: Callable[[Fields], Values]
    """The values of events, from those of each of their fields."""
    convert: _Converter
    """The column of these values."""


def _filler(place: int, convert: _Converter) -> _Filler:
    return _Filler(itemgetter(place), convert)


def _as_it_is(values: Values, nulls: Nulls = None) -> pa.Array:  # noqa: ARG001 - It has its own.
    return values


def _json_filler(names: tuple[str, ...]) -> _Filler:
    def filled(fields: Fields) -> pa.Array:
        texts = [
            json.dumps(
                dict(zip(names, body, strict=True)), ensure_ascii=False, default=bytes.hex
            )
            for body in zip(*fields, strict=True)
        ]
        return pa.array(texts, pa.string())

    return _Filler(filled, _as_it_is)


def _started(fields: Fields) -> Numbers:
    return np.full(len(fields[0]), RemoteLogSegmentState.COPY_SEGMENT_STARTED, np.int64)


def _fillers() -> dict[int, tuple[int, dict[str, _Filler]]]:
    """By type number: the number of fields, and a filler for each column that the type has."""
    known: dict[int, tuple[int, dict[str, _Filler]]] = {
        CORRUPT_NUMBER: (1, {"reason": _filler(0, _TEXT)}),
        BOUNDARY_NUMBER: (0, {}),
    }
    for number, kind, _ in TYPES:
        names: tuple[str, ...] = kind._fields
        filled = {
            column: _filler(names.index(field), convert)
            for column, (field, convert) in _CONVERTERS.items()
            if field in names
        }
        if kind is log.PartitionDeleteUpdated:
            filled["delete_state"] = _filler(0, _DELETE_STATE)
            del filled["state"]
        if kind is log.ImportRecordDropped:
            filled["segment_id"] = _filler(names.index("segment_id"), _optional_ids)
        if kind is log.SegmentAdded:
            filled["state"] = _Filler(_started, _STATE)
        if kind in _IN_JSON:
            filled["body"] = _json_filler(names)
        known[number] = (len(names), filled)
    return known


_FILLERS = _fillers()
_TYPE_NUMBERS = (BOUNDARY_NUMBER, CORRUPT_NUMBER, *(number for number, _, _ in TYPES))
_TYPE_NAMES = pa.array([BOUNDARY, CORRUPT, *(kind.__name__ for _, kind, _ in TYPES)])


class EventColumns:
    """Makes Arrow batches with the columns of a schema."""

    def __init__(self, schema: pa.Schema, cluster: str) -> None:
        """`schema` is that of the batches: any of `EVENT_COLUMNS`, in any order."""
        self._schema = schema
        self._header: dict[str, Callable[[Rows], pa.Array]] = {
            "cluster": lambda rows: _of_runs(rows, lambda _: cluster),
            "topic": lambda rows: _of_runs(rows, lambda tip: tip.topic),
            "topic_id": lambda rows: _of_runs(rows, lambda tip: str(tip.topic_id)),
            "partition": _partitions,
            "position": lambda rows: _LONG(rows.positions),
            "session": lambda rows: _LONG(rows.sessions),
            "type": _types,
            "version": lambda rows: _INT(rows.versions),
            "log_time_ms": lambda rows: _LONG(rows.times),
            "origin_broker_id": lambda rows: _INT(rows.brokers),
            "origin_request_id": lambda rows: _BYTES(rows.requests),
            "stored": lambda rows: _BYTES(rows.stored),
        }

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """`rows` as an Arrow batch.

        Raises:
            CorruptLog: A field has a value that its event type does not allow.
        """
        try:
            bodies = _Bodies(rows)
            arrays = [
                self._header[one.name](rows)
                if one.name in self._header
                else bodies.column(one.name, one.type)
                for one in self._schema
            ]
            fit = [one.cast(of.type) for one, of in zip(arrays, self._schema, strict=True)]
            return pa.RecordBatch.from_arrays(fit, schema=self._schema)
        # The checksums are right, so this is no damage: another program wrote the event.
        except (pa.ArrowException, ValueError, TypeError, LookupError, OverflowError) as error:
            raise CorruptLog(f"an event with a field that does not fit it: {error}") from error


class _Bodies:
    """The event bodies of rows, grouped by type."""

    def __init__(self, rows: Rows) -> None:
        self._count = len(rows.numbers)
        self._bodies = rows.fields if isinstance(rows.fields, dict) else _by_type(rows)
        for number, (_, fields) in self._bodies.items():
            width = _FILLERS[number][0]
            if len(fields) != width:
                raise ValueError(f"expected {width} in type {number}, found {len(fields)}")

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """One column: filled for the types that have it, null for the others.

        Its texts may be numbers of values, whatever `kind` says.
        """
        found: list[tuple[Numbers, Values, _Converter]] = []
        for number, (places, fields) in self._bodies.items():
            fill = _FILLERS[number][1].get(name)
            if fill is not None:
                found.append((places, fill.values(fields), fill.convert))
        if not found:
            return pa.nulls(self._count, kind)
        if all(isinstance(values, np.ndarray) for _, values, _ in found):
            return self._of_numbers(found)
        if len(found) == 1 and isinstance(found[0][1], Lists):
            return self._of_lists(*found[0])
        pieces = [convert(values) for _, values, convert in found]
        if all(one.null_count == len(one) for one in pieces):
            return pa.nulls(self._count, kind)
        index = np.full(self._count, -1, np.int64)
        index[np.concatenate([places for places, _, _ in found])] = np.arange(
            sum(map(len, pieces))
        )
        plain = [_decoded(one) for one in pieces]
        return pa.concat_arrays(plain).take(pa.array(index, mask=index < 0))

    def _of_numbers(self, found: Sequence[tuple[Numbers, Values, _Converter]]) -> pa.Array:
        """A column of which all values are arrays of NumPy: put in their places, then made."""
        (_, first, convert), *_ = found
        whole = np.zeros((self._count, *first.shape[1:]), first.dtype)
        are_null = np.ones(self._count, bool)
        for places, values, _ in found:
            whole[places] = values
            are_null[places] = False
        return convert(whole, are_null)

    def _of_lists(self, places: Numbers, values: Lists, convert: _Converter) -> pa.Array:
        lengths = np.zeros(self._count, np.int64)
        are_null = np.ones(self._count, bool)
        lengths[places], are_null[places] = values.lengths, False
        return convert(Lists(values.flat, lengths), are_null)


def _by_type(rows: Rows) -> Bodies:
    numbers, bodies = np.asarray(rows.numbers), {}
    for number in np.unique(numbers).tolist():
        mask = numbers == number
        fields = list(zip(*compress(rows.fields, mask.tolist()), strict=True))
        bodies[number] = np.flatnonzero(mask), fields
    return bodies


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _of_runs(rows: Rows, text_of: Callable[[TopicIdPartition], str]) -> pa.Array:
    texts = [text_of(run.topic_id_partition) for run in rows.runs]
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    numbers = np.array([known[text] for text in texts], np.int32)
    each = np.repeat(numbers, [run.rows for run in rows.runs])
    return pa.DictionaryArray.from_arrays(each, pa.array(known, pa.string()))


def _partitions(rows: Rows) -> pa.Array:
    numbers = [run.topic_id_partition.partition for run in rows.runs]
    return pa.array(np.repeat(np.array(numbers, np.int32), [run.rows for run in rows.runs]))


def _types(rows: Rows) -> pa.Array:
    places = np.searchsorted(_TYPE_NUMBERS, np.asarray(rows.numbers))
    return pa.DictionaryArray.from_arrays(places.astype(np.int32), _TYPE_NAMES)
