"""The whole of an import: read the source, sort its records, write the logs, say what became.

A scan finds out whose each record is; sorting brings a partition's together, in the order of
the metadata topic; then each task writes whole partitions. All of the source has been read
before the first log is written, so one that cannot be read writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.imports.scan import SCHEMA, SORTED_BY, ScanUnits
from tierledger.pipeline.imports.source import Source, tasks_for
from tierledger.pipeline.imports.task import OUTCOMES, ImportTask
from tierledger.pipeline.imports.writer import writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def import_into(store: JobStore) -> Iterator[str | None]:
    """The right to import into `store` while the block lasts; see `import_writer.writing`.

    Raises:
        InvalidArgument: No cluster is named.
        StoreRefused: Another process writes the store: a service, or another import.
    """
    if store.cluster is None:
        raise InvalidArgument(
            "expected --cluster or TIERLEDGER_CLUSTER: the id of the Kafka cluster that the "
            "logs are to belong to"
        )
    with writing(store.config) as socket:
        yield socket


def outcomes(
    spark: SparkSession,
    source: Source,
    store: JobStore,
    socket: str | None,
    recorded_cluster: str,
) -> DataFrame:
    """What comes of an import, one row for each partition; asking for rows is what imports.

    Ask once, or `persist`: who asks twice imports twice, and the second time finds all there.

    Args:
        spark: Where it runs.
        source: What is imported.
        store: Its cluster is named.
        socket: What `import_into` gave.
        recorded_cluster: What the recorded cluster is called in the logs.
    """
    units = source.units
    tasks = tasks_for(source.size_in_bytes, spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(units), 1, max(1, len(units)))
    rows = numbers.mapInArrow(ScanUnits(units), SCHEMA)
    gathered = rows.repartition(tasks, "topic_id", "partition")
    in_order = gathered.sortWithinPartitions(*SORTED_BY)
    return in_order.mapInArrow(ImportTask(store, recorded_cluster, socket), OUTCOMES)
