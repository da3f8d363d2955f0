"""Tables as Arrow: for Spark, and for Parquet."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from tierledger.pipeline.table_columns import (
    BIGINT,
    BINARY,
    BOOLEAN,
    EPOCH_MAP,
    INT,
    MONEY,
    MONEY_DIGITS,
    MONEY_SCALE,
    OBJECTS,
    STRING,
    STRINGS,
    RowChunk,
    Table,
)

# Arrow's types are not annotated; `Any` stops at these lines.
RecordBatch: TypeAlias = Any
Schema: TypeAlias = Any

TYPES = {
    STRING: pa.string(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    MONEY: pa.decimal128(MONEY_DIGITS, MONEY_SCALE),
    EPOCH_MAP: pa.map_(pa.int32(), pa.int64()),
    OBJECTS: pa.list_(
        pa.struct(
            [
                pa.field("role", pa.string()),
                pa.field("least", pa.int64()),
                pa.field("step", pa.int64()),
                pa.field("most", pa.int64()),
                pa.field("is_required", pa.bool_()),
            ]
        )
    ),
    STRINGS: pa.list_(pa.field("element", pa.string(), nullable=False)),
}
"""The Arrow type of each column type."""


def schema_of(table: Table) -> Schema:
    """The Arrow schema of `table`: the identity, then its own columns."""
    return pa.schema(
        [
            pa.field(one.name, TYPES[one.type], nullable=one.is_nullable)
            for one in (*table.identity, *table.columns)
        ]
    )


def record_batch(chunk: RowChunk, schema: Schema) -> RecordBatch:
    """The rows of `chunk`; `schema` is `schema_of` its table."""
    columns = [
        pa.array(one, TYPES[of.type])
        for of, one in zip(chunk.table.columns, chunk.columns, strict=True)
    ]
    shared = [
        pa.repeat(pa.scalar(value, TYPES[one.type]), chunk.row_count)
        for one, value in zip(chunk.table.identity, chunk.identity, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*shared, *columns], schema=schema)


_BLANK: dict[str, object] = {
    STRING: "",
    INT: 0,
    BIGINT: 0,
    BOOLEAN: False,
    BINARY: b"",
    MONEY: 0,
}


def blank_row(schema: Schema) -> RecordBatch:
    """One row without a meaning, whose values are allowed by `schema`."""
    names = {arrow: name for name, arrow in TYPES.items()}
    arrays = [pa.array([_BLANK.get(names[one.type], [])], one.type) for one in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_report(batch: RecordBatch, report: bytes | None) -> RecordBatch:
    """`batch` with one more column that has `report` in every row."""
    column = pa.array([report] * batch.num_rows, pa.binary())
    schema = batch.schema.append(pa.field("report", pa.binary()))
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)
