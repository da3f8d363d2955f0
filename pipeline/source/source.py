"""`spark.read.format("tierledger")`: the events of a store's logs, as rows.

Every read is planned anew, up to the log ends found then. Within a task the rows of a partition
are ordered by position; tasks have no order.

A row of type `corrupt` marks the position from which its log cannot be read. Other tasks may
still read events behind it; a fold of the log must stop at this row (docs/pipeline.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import __version__
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.source.bounds import ALL_EVENTS
from tierledger.pipeline.source.columns import BOUNDARY, CORRUPT
from tierledger.pipeline.source.options import SourceOptions, keeping, kept
from tierledger.pipeline.source.plan import plan_batch
from tierledger.pipeline.source.read_only import ReadOnlySource
from tierledger.pipeline.source.scan import scanned
from tierledger.pipeline.source.schema import EVENT_SCHEMA, ReadTask, chosen_schema

if TYPE_CHECKING:
    from tierledger.pipeline.source.stream import TierledgerStreamReader

FORMAT = "tierledger"

__all__ = ["BOUNDARY", "CORRUPT", "EVENT_SCHEMA", "FORMAT", "TierledgerSource"]


class TierledgerSource(ReadOnlySource):
    """The format `tierledger`."""

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> StructType:
        return keeping(chosen_schema(SourceOptions.of(self.options)), self.options)

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.of(kept(schema, self.options))
        return TierledgerReader(options, checked_schema(schema))

    @override
    def streamReader(self, schema: StructType) -> TierledgerStreamReader:
        try:  # Here, since a batch is read by an older PySpark, too.
            from tierledger.pipeline.source.stream import (  # noqa: PLC0415
                TierledgerStreamReader,
            )
        except ModuleNotFoundError as error:
            raise InvalidArgument(
                f"a stream of events needs PySpark 4.2 or newer, and {__version__} is installed"
            ) from error
        options = SourceOptions.of(kept(schema, self.options))
        if options.bounds != ALL_EVENTS:
            raise InvalidArgument("since and as_of are of a read: a stream has all events")
        return TierledgerStreamReader(options, checked_schema(schema))


class TierledgerReader(DataSourceReader):
    """Reads the events that a store holds now.

    It accepts no filters: Spark 4.2 keeps pushed-down filters with the table. A frame that is
    used again with other filters, or none, would get the rows of the first use.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        # The user's own schema names the columns, too.
        self._options = replace(options, columns=tuple(schema.fieldNames()))
        self._schema = schema

    @override
    def partitions(self) -> list[ReadTask]:
        return list(map(ReadTask, asyncio.run(plan_batch(self._options))))

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ReadTask):
            return  # Without tasks Spark passes a partition of its own.
        schema = to_arrow_schema(self._schema)
        yield from scanned(self._options, partition.cluster, schema, partition.pieces)


def checked_schema(schema: StructType, ours: StructType = EVENT_SCHEMA) -> StructType:
    """`schema`, which may come from the user, once its columns are checked against `ours`.

    Raises:
        InvalidArgument: It has an unknown column, or a column of another type than `ours`.
    """
    for field in schema.fields:
        if field.name not in ours.fieldNames():
            known = ", ".join(ours.fieldNames())
            raise InvalidArgument(f"expected columns of {known}; got {field.name!r}")
        expected = ours[field.name].dataType
        if field.dataType.simpleString() != expected.simpleString():
            raise InvalidArgument(
                f"expected the column {field.name} as {expected.simpleString()}, got "
                f"{field.dataType.simpleString()}"
            )
    return schema
