"""The tasks of a Spark session: how many it runs at a time, and how many are done.

Over Connect the server's Spark tells both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from pyspark.sql import SparkSession as ClassicSession
from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

CORES_MAX = 1 << 16

POLL_S = 0.2
"""Seconds between two looks at the progress of a Spark in this process."""


def is_classic(spark: SparkSession) -> bool:
    """Whether Spark's driver is in this process, and not behind Spark Connect."""
    return isinstance(spark, ClassicSession)


def cores_of(spark: SparkSession) -> int:
    """Spark's own default of how many tasks a job has."""
    if is_classic(spark):
        return spark.sparkContext.defaultParallelism
    numbers = spark.range(CORES_MAX).select(sql.spark_partition_id())
    return numbers.distinct().count()


@contextmanager
def followed(spark: SparkSession, on_done: Callable[[int], None]) -> Iterator[None]:
    """Call `on_done` with numbers of tasks, while the block lasts, as the session does them."""
    if not is_classic(spark):
        with _followed_at_a_server(spark, on_done):
            yield
        return
    tracker, known = spark.sparkContext.statusTracker(), _StageTotals(on_done)
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(POLL_S):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                known.see(stage, 0 if info is None else info.numCompletedTasks)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _followed_at_a_server(
    spark: SparkSession, on_done: Callable[[int], None]
) -> Iterator[None]:
    known = _StageTotals(on_done)

    def see(
        stages: Iterable[StageInfo] | None,
        inflight_tasks: int,  # noqa: ARG001 - PySpark passes it by its name.
        operation_id: str | None,  # noqa: ARG001
        done: bool,  # noqa: ARG001
    ) -> None:
        for stage in stages or ():
            known.see(stage.stage_id, stage.num_completed_tasks)

    handler = cast("ProgressHandler", see)
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


class _StageTotals:
    """Turns totals of stages into what is new."""

    def __init__(self, on_done: Callable[[int], None]) -> None:
        self._on_done = on_done
        self._done: dict[int, int] = {}

    def see(self, stage: int, done: int) -> None:
        self._on_done(done - self._done.get(stage, 0))
        self._done[stage] = done
