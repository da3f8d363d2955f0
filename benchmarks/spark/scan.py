"""Logs as rows: events of a store, scanned by Spark on two cores."""

import time

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from tierledger.benchmarks.ledger import copy_to
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import POSTGRESQL, SQLITE, Bench
from tierledger.benchmarks.spark.stores import session, store_of_many
from tierledger.pipeline.source.source import FORMAT, events
from tierledger.simulation.live.postgres_server import PostgresServer

GOALS = {SQLITE: 500_000, POSTGRESQL: 300_000}

FEW = ("topic", "partition", "position", "state")


async def measure(bench: Bench) -> list[Figure]:
    """Rows per second: all columns, and a few."""
    path = await store_of_many(bench)
    figures = []
    with session(2) as spark:
        if SQLITE in bench.scale.stores:
            figures += _scanned(bench, spark, SQLITE, f"sqlite:{path}")
        if POSTGRESQL in bench.scale.stores:
            with PostgresServer() as server:
                url = server.place()
                bench.say("copying to PostgreSQL")
                await copy_to(url, path)
                figures += _scanned(bench, spark, POSTGRESQL, url)
    return figures


def _scanned(bench: Bench, spark: SparkSession, kind: str, url: str) -> list[Figure]:
    figures = []
    goal = Goal(GOALS[kind], at_least=True)
    frames = {
        "28 columns": (spark.read.format(FORMAT).option("store", url).load(), goal),
        "4 columns": (events(spark, url, columns=FEW), None),
    }
    for name, (frame, wanted) in frames.items():
        bench.say(f"scan, {kind}: {name}")
        rates = [rows_per_s(frame) for _ in range(bench.scale.spark_repetitions)]
        title = f"scan, {kind}, local[2]: {bench.scale.spark_events:,} events, {name}"
        figures.append(median(title, rates, "rows/s", wanted))
    return figures


def rows_per_s(frame: DataFrame) -> float:
    """Rows per second of one pass over all rows, from planning to the last row."""
    counted = Observation()
    observed = frame.observe(counted, sql.count(sql.lit(1)).alias("rows"))
    begun = time.perf_counter()
    observed.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - begun
    rows: int = counted.get["rows"]
    return rows / took
