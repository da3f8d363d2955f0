"""A streaming job and the writer of its store, each in a process that may be killed.

python -m tests.models.spark.stream_job append STORE STOP
python -m tests.models.spark.stream_job deliver STORE FOLDER
"""

import asyncio
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.models.spark.rows import Row, in_order, row_of, writing
from tests.models.storage.stored_partitions import StoredPartition, finished
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.session import spark_session

PARTITIONS_MAX = 6
ROUNDS_PER_PARTITION = 10
PACE_S = 0.1
"""Seconds between two rounds of the writer, so that its log does not outgrow the test."""

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "OFF",
}


def tip_of(number: int) -> TopicIdPartition:
    return TopicIdPartition(Uuid((number + 1).to_bytes(16, "big")), number, f"topic-{number}")


def output(folder: Path) -> Path:
    return folder / "out"


def checkpoint(folder: Path) -> Path:
    return folder / "checkpoint"


async def append(url: str, stop: Path) -> None:
    """Append to a growing number of partitions until the file `stop` exists."""
    async with writing(url) as backend:
        partitions: list[StoredPartition] = []
        number = 0
        while not stop.exists():  # noqa: ASYNC240 - No other task waits here.
            if number % ROUNDS_PER_PARTITION == 0 and len(partitions) < PARTITIONS_MAX:
                tip = tip_of(len(partitions))
                partitions.append(await StoredPartition.led(backend, tip))
            if number == 0:
                say("appending")
            for partition in partitions:
                await partition.append(finished(number), step_ms=1)
            number += 1
            await asyncio.sleep(PACE_S)


async def logged(url: str) -> list[Row]:
    """Every event of the store's logs as a row, in order."""
    async with writing(url) as backend:
        return in_order(
            [
                row_of(tip, event)
                for tip in map(tip_of, range(PARTITIONS_MAX))
                async for event in StoredPartition(backend, tip).reader().events()
            ]
        )


def deliver(spark: SparkSession, url: str, folder: Path, *, ends: bool) -> None:
    """Run the query: for ever, or if `ends`, until it has delivered the present events."""
    stream = spark.readStream.format("tierledger").option("store", url)
    if not ends:  # Small micro-batches, so that a kill always hits one.
        stream = stream.option("max_rows_per_trigger", "500")
    writer = (
        stream.load()
        .writeStream.format("parquet")
        .option("path", str(output(folder)))
        .option("checkpointLocation", str(checkpoint(folder)))
    )
    say("starting")
    trigger = (
        writer.trigger(availableNow=True)
        if ends
        else writer.trigger(processingTime="0 seconds")
    )
    trigger.start().awaitTermination()


def say(line: str) -> None:
    """Report to the parent process how far this one is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(what: str, url: str, place: str) -> None:
    if what == "append":
        asyncio.run(append(url, Path(place)))
    else:
        spark = spark_session("stream", "local[2]", SETTINGS)
        deliver(spark, url, Path(place), ends=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
