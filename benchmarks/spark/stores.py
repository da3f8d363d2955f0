"""Stores of many partitions for Spark to read, and sessions that read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from pyspark.sql import SparkSession

from tierledger.benchmarks.scale import Bench
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.session import spark_session

EVENTS_PER_SEGMENT = 2
"""The segment is added and finished."""

PARTITIONS_PER_TOPIC = 10

CONFIG = {
    "spark.driver.memory": "2g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}


def partition_of_many(number: int) -> TopicIdPartition:
    topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
    topic_id = Uuid(blake2b(b"%d" % topic, digest_size=16).digest())
    return TopicIdPartition(topic_id, partition, f"topic-{topic}")


async def store_of_many(bench: Bench) -> Path:
    """A SQLite store of `spark_events` events in `spark_partitions` partitions."""
    scale = bench.scale
    path = bench.new_store(f"partitions-{scale.spark_partitions}")
    if path.exists():
        return path
    segments = scale.spark_events // scale.spark_partitions // EVENTS_PER_SEGMENT
    for number in range(scale.spark_partitions):
        if number % 100 == 0:
            bench.say(f"building partition {number:,} of {scale.spark_partitions:,}")
        await bench.build(path, segments, partition_of_many(number))
    return path


@contextmanager
def session(cores: int) -> Iterator[SparkSession]:
    """A session on so many cores of this machine, warmed up."""
    spark = spark_session("benchmark", f"local[{cores}]", CONFIG)
    try:
        spark.range(1000).mapInPandas(lambda frames: frames, "id long").count()
        yield spark
    finally:
        spark.stop()
