"""The columns of `tierledger.records`, with the names of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tierledger.events.identifiers import TopicIdPartition
from tierledger.tiering.formats.records import LOG_APPEND_TIME, Record

DAMAGE = "damage"
"""The column with the reason why records are missing."""

DAMAGED_TO = "damaged_to"
"""The column with the last offset that is missing for that reason."""

_HEADER = StructType(
    [StructField("key", StringType(), nullable=False), StructField("value", BinaryType())]
)


def _field(name: str, kind: DataType, *, null: bool = True) -> StructField:
    return StructField(name, kind, nullable=null)


RECORD_SCHEMA = StructType(
    [
        _field("key", BinaryType()),
        _field("value", BinaryType()),
        _field("topic", StringType(), null=False),
        _field("partition", IntegerType(), null=False),
        _field("offset", LongType(), null=False),
        _field("timestamp_ms", LongType()),
        _field("timestampType", IntegerType()),
        _field("headers", ArrayType(_HEADER, containsNull=False)),
        _field("header_names", ArrayType(BinaryType(), containsNull=False)),
        _field("leader_epoch", IntegerType()),
        _field("segment_id", StringType(), null=False),
    ]
)

SCHEMA_WITH_DAMAGE = StructType(
    [*RECORD_SCHEMA.fields, _field(DAMAGE, StringType()), _field(DAMAGED_TO, LongType())]
)
"""`RECORD_SCHEMA` with the columns that `damaged=skip` adds."""

ROWS_MAX = 16_384
BYTES_MAX = 16 << 20
"""An Arrow batch is full with this many rows, or this many bytes of keys and values."""


class RecordColumns:
    """Collects records of one partition into Arrow batches."""

    def __init__(self, schema: pa.Schema, tip: TopicIdPartition) -> None:
        """Make the columns of `schema`: any of `SCHEMA_WITH_DAMAGE`, in any order."""
        self._schema = schema
        self._tip = tip
        self._records: list[Record] = []
        self._segments: list[str] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._records) >= ROWS_MAX or self._bytes >= BYTES_MAX

    def add(self, segment_id: str, records: Sequence[Record]) -> None:
        self._records += records
        self._segments += [segment_id] * len(records)
        self._bytes += sum(len(one.key or b"") + len(one.value or b"") for one in records)

    def taken(self) -> pa.RecordBatch | None:
        """The records collected since the last call; none if there are none."""
        records, segments = self._records, self._segments
        self._records, self._segments, self._bytes = [], [], 0
        if not records:
            return None
        offsets, times, kinds, epochs, keys, values, headers, names = zip(*records, strict=True)
        return self._batch(
            len(records),
            {
                "key": keys,
                "value": values,
                "offset": offsets,
                "timestamp_ms": times,
                "timestampType": [int(kind == LOG_APPEND_TIME) for kind in kinds],
                # Null for a record without headers, as in Spark's source.
                "headers": [list(one) or None for one in headers],
                "header_names": names,
                "leader_epoch": epochs,
                "segment_id": segments,
            },
        )

    def damage(self, segment_id: str, offsets: range, reason: str) -> pa.RecordBatch:
        """The row that marks `offsets` as missing."""
        return self._batch(
            1,
            {
                "offset": [offsets.start],
                "segment_id": [segment_id],
                DAMAGE: [reason],
                DAMAGED_TO: [offsets.stop - 1],
            },
        )

    def _batch(self, rows: int, columns: dict[str, Sequence[Any]]) -> pa.RecordBatch:
        held = {
            "topic": [self._tip.topic] * rows,
            "partition": [self._tip.partition] * rows,
            **columns,
        }
        arrays = [
            pa.array(held[field.name], field.type)
            if field.name in held
            else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
