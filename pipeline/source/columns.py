"""Columns of the `tierledger` format, and how they are made from fields of stored events.

docs/pipeline.md lists names and types. A column is null in the rows of events that do not have
its field. No event objects are made on the way.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


def _ids(values: Values) -> pa.Array:
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
    of_24 = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(24), len(values), [None, pa.py_buffer(text)]
    )
    return pc.binary_slice(of_24, 0, 22).cast(pa.binary()).cast(pa.string())


def _optional_ids(values: Values) -> pa.Array:
    there = [value is not None for value in values]
    if not any(there):
        return pa.nulls(len(values), pa.string())
    places = np.where(there, np.cumsum(there) - 1, 0)
    index = pa.array(places, mask=~np.asarray(there))
    return _ids(list(compress(values, there))).take(index)


def _names(names: Sequence[str]) -> Callable[[Values], pa.Array]:
    known = pa.array(names)

    def named(values: Values) -> pa.Array:
        return known.take(pa.array(values, pa.int32()))

    return named


def _first_of_source(values: Values) -> pa.Array:
    if isinstance(values[0], pa.Array):  # Each half is a column already.
        return values[0].cast(pa.int32())
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.int32())
    return pa.array([None if one is None else one[0] for one in values], pa.int32())


def _second_of_source(values: Values) -> pa.Array:
    if isinstance(values[0], pa.Array):
        return values[1]
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.int64())
    return pa.array([None if one is None else one[1] for one in values], pa.int64())


def _leader_epochs(values: Values) -> pa.Array:
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
    )


def _plain(kind: pa.DataType) -> Callable[[Values], pa.Array]:
    def converted(values: Values) -> pa.Array:
        if isinstance(values, pa.Array):
            return values.cast(kind)
        if isinstance(values, np.ndarray):
            return pa.array(values).cast(kind)
        first = values[0]
        # Most columns repeat a single value. Counting it is faster than converting each.
        if values[-1] == first and values.count(first) == len(values):
            return pa.repeat(pa.scalar(first, kind), len(values))
        return pa.array(values, kind)

    return converted


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_INT, _LONG, _TEXT = _plain(pa.int32()), _plain(pa.int64()), _plain(pa.string())
_BYTES, _BOOL = _plain(pa.binary()), _plain(pa.bool_())
_STATE = _names([state.name for state in RemoteLogSegmentState])
_DELETE_STATE = _names([state.name for state in RemotePartitionDeleteState])

_CONVERTERS: dict[str, tuple[str, Callable[[Values], pa.Array]]] = {
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
    "source_partition": ("source", _first_of_source),
    "source_offset": ("source", _second_of_source),
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

_Filler: TypeAlias = "Callable[[Fields], pa.Array]"
"""Makes a column for events of one type. It takes the values of each field."""


def _filler(place: int, convert: Callable[[Values], pa.Array]) -> _Filler:
    return lambda fields: convert(fields[place])


def _json_filler(names: tuple[str, ...]) -> _Filler:
    def filled(fields: Fields) -> pa.Array:
        texts = [
            json.dumps(
                dict(zip(names, body, strict=True)), ensure_ascii=False, default=bytes.hex
            )
            for body in zip(*fields, strict=True)
        ]
        return pa.array(texts, pa.string())

    return filled


def _started(fields: Fields) -> pa.Array:
    return pa.repeat(pa.scalar(RemoteLogSegmentState.COPY_SEGMENT_STARTED.name), len(fields[0]))


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
            filled["state"] = _started
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
        self._cluster = pa.scalar(cluster)
        self._header: dict[str, Callable[[Rows], pa.Array]] = {
            "cluster": lambda rows: pa.repeat(self._cluster, len(rows.positions)),
            "topic": lambda rows: _of_runs(rows, lambda tip: tip.topic, pa.string()),
            "topic_id": lambda rows: _of_runs(rows, lambda tip: str(tip.topic_id), pa.string()),
            "partition": lambda rows: _of_runs(rows, lambda tip: tip.partition, pa.int32()),
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

    @property
    def needs_stored(self) -> bool:
        """Whether the schema has the column `stored`."""
        return "stored" in self._schema.names

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """`rows` as an Arrow batch.

        Raises:
            CorruptLog: A field has a value that its event type does not allow.
        """
        try:
            bodies = _Bodies(rows)
            arrays = [
                self._header[name](rows)
                if name in self._header
                else bodies.column(name, self._schema.field(name).type)
                for name in self._schema.names
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
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
        """One column: filled for the types that have it, null for the others."""
        index = np.full(self._count, -1, np.int64)
        pieces: list[pa.Array] = []
        filled = 0
        for number, (places, fields) in self._bodies.items():
            fill = _FILLERS[number][1].get(name)
            if fill is not None:
                pieces.append(fill(fields))
                index[places] = np.arange(filled, filled + len(places))
                filled += len(places)
        if not pieces:
            return pa.nulls(self._count, kind)
        return pa.concat_arrays(pieces).take(pa.array(index, mask=index < 0))


def _by_type(rows: Rows) -> Bodies:
    numbers, bodies = np.asarray(rows.numbers), {}
    for number in np.unique(numbers).tolist():
        mask = numbers == number
        fields = list(zip(*compress(rows.fields, mask.tolist()), strict=True))
        bodies[number] = np.flatnonzero(mask), fields
    return bodies


def _of_runs(
    rows: Rows, value_of: Callable[[TopicIdPartition], object], kind: pa.DataType
) -> pa.Array:
    values = [value_of(run.topic_id_partition) for run in rows.runs]
    if len(values) == 1:
        return pa.repeat(pa.scalar(values[0], kind), rows.runs[0].rows)
    counts = [run.rows for run in rows.runs]
    return pa.array(values, kind).take(pa.array(np.repeat(np.arange(len(values)), counts)))


def _types(rows: Rows) -> pa.Array:
    places = np.searchsorted(_TYPE_NUMBERS, np.asarray(rows.numbers))
    return _TYPE_NAMES.take(pa.array(places))
