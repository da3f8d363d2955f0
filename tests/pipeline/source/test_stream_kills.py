"""A streaming job is killed again and again while somebody writes; each event arrives once."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.models.spark.rows import rows
from tests.models.spark.stream_job import checkpoint, deliver, logged, output

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120
POLL_S = 0.002
LATER_S = 0.3
"""At most so long after what was waited for, a kill comes."""


class Job:
    """The job of one life, and what its folders show."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder = folder
        self._process = process
        self._begun = {step: self.numbers(step) for step in ("offsets", "commits", "sink")}
        self._files = self._count()

    def numbers(self, step: str) -> int:
        """The newest batch for which that step was taken; -1 if there is none."""
        places = {"sink": output(self._folder) / "_spark_metadata"}
        place = places.get(step, checkpoint(self._folder) / step)
        names = [path.name for path in place.glob("[0-9]*")]
        return max((int(name.partition(".")[0]) for name in names), default=-1)

    def has_planned(self) -> bool:
        """Whether the job has noted the range of a batch, and is reading it."""
        return self.numbers("offsets") > max(
            self._begun["offsets"], self.numbers("commits"), self.numbers("sink")
        )

    def has_written_a_file(self) -> bool:
        """A task has given rows to the sink, which nobody has counted yet."""
        return self._count() > self._files

    def has_filled_the_sink(self) -> bool:
        """The batch is in the sink, and the query does not know it."""
        return self.numbers("sink") > self.numbers("commits")

    def has_committed_twice(self) -> bool:
        return self.numbers("commits") >= self._begun["commits"] + 2

    def is_starting(self) -> bool:
        """Java runs; the query does not yet."""
        return heard(self._process) == b"starting\n"

    def _count(self) -> int:
        return sum(1 for _ in output(self._folder).glob("*.parquet"))


Moment = Callable[[Job], bool]
MOMENTS: list[Moment] = [
    Job.is_starting,
    Job.is_starting,
    Job.has_planned,
    Job.has_planned,
    Job.has_planned,
    Job.has_written_a_file,
    Job.has_written_a_file,
    Job.has_filled_the_sink,
    Job.has_filled_the_sink,
    Job.has_committed_twice,
]
WITHIN_A_BATCH: list[Moment] = [Job.has_written_a_file]


@pytest.mark.long
def test_a_job_killed_within_a_batch_delivers_every_event_once(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    kill_and_compare(spark, sqlite_url, tmp_path, WITHIN_A_BATCH, random.Random(7))


@pytest.mark.long
@pytest.mark.timeout(1800)  # Java starts once for each kill.
def test_a_job_killed_ten_times_delivers_every_event_once(
    spark: SparkSession, store_url: str, tmp_path: Path
) -> None:
    kill_and_compare(spark, store_url, tmp_path, MOMENTS, random.Random(7))


def kill_and_compare(
    spark: SparkSession,
    url: str,
    folder: Path,
    moments: Sequence[Moment],
    chosen: random.Random,
) -> None:
    moments = chosen.sample(moments, len(moments))
    stop = folder / "stop"
    unfinished = 0
    with started("append", url, stop) as writer:
        assert heard(writer) == b"appending\n"
        for moment in moments:
            with started("deliver", url, folder) as process:
                wait_for(moment, Job(folder, process), process)
                # At once, or a little later: each time elsewhere.
                time.sleep(chosen.choice([0, 0, LATER_S]) * chosen.random())
                kill(process)
            unfinished += batches(folder, "offsets") - batches(folder, "commits")
        assert writer.poll() is None, "the writer has to write all the time"
        stop.touch()
        assert writer.wait(TIMEOUT_S) == 0
    deliver(spark, url, folder, ends=True)

    found = rows(spark.read.parquet(str(output(folder))).collect())
    expected = asyncio.run(logged(url))
    assert unfinished >= 1, "kills have to come within a batch"
    assert len(found) == len(expected)
    assert found == expected


def batches(folder: Path, step: str) -> int:
    return len(list((checkpoint(folder) / step).glob("[0-9]*")))


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a process group of its own, which is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.models.spark.stream_job", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            kill(process)


def heard(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that the job says; empty if it ends instead."""
    assert process.stdout is not None
    return process.stdout.readline()


def wait_for(moment: Moment, job: Job, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not moment(job):
        assert process.poll() is None, "the job ended by itself"
        assert time.monotonic() < deadline, moment.__doc__ or moment.__name__
        time.sleep(POLL_S)


def kill(process: subprocess.Popen[bytes]) -> None:
    """The process and Java, at one stroke; Spark's Python workers end without Java."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
