"""A whole import: read the source, sort its records, write the logs, report the outcomes.

A scan finds the user partition of each record. Sorting brings a partition's records together in
the order of the metadata topic. Then each task writes whole partitions. The whole source is
read before the first log is written, so an unreadable source writes nothing.
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
from tierledger.pipeline.spark_tasks import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def import_into(store: JobStore) -> Iterator[str | None]:
    """Lock `store` for an import while the block lasts; yields as `writer.writing` does.

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
    """A lazy frame of `OUTCOMES`: computing its rows performs the import.

    Compute it once, or `persist` it. A second computation imports again, and reports all
    records as repeated.

    Args:
        spark: The session that runs the import.
        source: The records to import.
        store: The store to write. It must name a cluster.
        socket: The value that `import_into` yielded.
        recorded_cluster: Name of the recorded cluster in the logs.
    """
    units = source.units
    tasks = tasks_for(source.size_in_bytes, cores_of(spark))
    numbers = spark.range(0, len(units), 1, max(1, len(units)))
    rows = numbers.mapInArrow(ScanUnits(units), SCHEMA)
    gathered = rows.repartition(tasks, "topic_id", "partition")
    in_order = gathered.sortWithinPartitions(*SORTED_BY)
    return in_order.mapInArrow(ImportTask(store, recorded_cluster, socket), OUTCOMES)
