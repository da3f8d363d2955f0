"""`spark.read.format("tierledger.records")`: a topic's Kafka records from the remote tier.

No broker is involved. Every read is planned anew and covers what is in the tier then. Each task
reads one segment, with rows in the order of their offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.records.columns import (
    DAMAGE,
    RECORD_SCHEMA,
    SCHEMA_WITH_DAMAGE,
    RecordColumns,
)
from tierledger.pipeline.records.options import RecordsOptions
from tierledger.pipeline.records.segment_tasks import SegmentTask, plan_records
from tierledger.pipeline.records.task import arrow_batches
from tierledger.pipeline.source.options import keeping, kept
from tierledger.pipeline.source.read_only import ReadOnlySource
from tierledger.pipeline.source.source import checked_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "tierledger.records"

__all__ = ["FORMAT", "RECORD_SCHEMA", "SCHEMA_WITH_DAMAGE", "RecordsSource"]


class RecordsSource(ReadOnlySource):
    """The format `tierledger.records`."""

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> StructType:
        return keeping(_schema_of(RecordsOptions.of(self.options)), self.options)

    @override
    def reader(self, schema: StructType) -> DataSourceReader:
        options = RecordsOptions.of(kept(schema, self.options))
        if options.skips_damage and DAMAGE not in schema.fieldNames():
            raise InvalidArgument(f"expected the column {DAMAGE} where damaged is skip")
        return RecordsReader(options, checked_schema(schema, _schema_of(options)))


class RecordsReader(DataSourceReader):
    """Reads the records that are in the tier now."""

    def __init__(self, options: RecordsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @override
    def partitions(self) -> list[SegmentTask]:
        return asyncio.run(plan_records(self._options))

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SegmentTask):
            return  # Without tasks Spark passes a partition of its own.
        schema = to_arrow_schema(self._schema)
        columns = RecordColumns(schema, partition.topic_id_partition)
        yield from arrow_batches(partition, self._options, columns)


def _schema_of(options: RecordsOptions) -> StructType:
    return SCHEMA_WITH_DAMAGE if options.skips_damage else RECORD_SCHEMA
