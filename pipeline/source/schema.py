"""The format's schema, and its tasks, as Spark has them."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.log_ranges import Piece
from tierledger.pipeline.source.columns import EVENT_COLUMNS
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import PlannedTask
from tierledger.pipeline.table_columns import BIGINT, BINARY, BOOLEAN, EPOCH_MAP, INT, STRING

_TYPES: dict[str, DataType] = {
    STRING: StringType(),
    INT: IntegerType(),
    BIGINT: LongType(),
    BOOLEAN: BooleanType(),
    BINARY: BinaryType(),
    EPOCH_MAP: MapType(IntegerType(), LongType(), False),
}

EVENT_SCHEMA = StructType(
    [StructField(one.name, _TYPES[one.type], one.is_nullable) for one in EVENT_COLUMNS]
)
"""All columns; the last, `stored`, is not read by default."""

DEFAULT_SCHEMA = StructType(EVENT_SCHEMA.fields[:-1])


def chosen_schema(options: SourceOptions) -> StructType:
    """The schema of the columns in `options`; by default all but `stored`.

    Raises:
        InvalidArgument: One is unknown, or there twice.
    """
    if not options.columns:
        return DEFAULT_SCHEMA
    unknown = [name for name in options.columns if name not in EVENT_SCHEMA.fieldNames()]
    if unknown or len(set(options.columns)) < len(options.columns):
        known = ", ".join(EVENT_SCHEMA.fieldNames())
        raise InvalidArgument(
            f"expected columns, each once, of {known}; got {', '.join(options.columns)}"
        )
    return StructType([EVENT_SCHEMA[name] for name in options.columns])


class ReadTask(InputPartition):
    """The pieces of logs that one Spark task reads."""

    def __init__(self, planned: PlannedTask) -> None:
        super().__init__(None)
        self.cluster = planned.cluster
        self.pieces: tuple[Piece, ...] = planned.pieces
