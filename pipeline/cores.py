"""How many tasks a Spark session runs at a time: over Connect, the server's Spark tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession as ClassicSession
from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES_MAX = 1 << 16


def is_classic(spark: SparkSession) -> bool:
    """Whether Spark's driver is in this process, and not behind Spark Connect."""
    return isinstance(spark, ClassicSession)


def cores_of(spark: SparkSession) -> int:
    """Spark's own default of how many tasks a job has."""
    if is_classic(spark):
        return spark.sparkContext.defaultParallelism
    numbers = spark.range(CORES_MAX).select(sql.spark_partition_id())
    return numbers.distinct().count()
