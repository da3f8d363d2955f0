"""The program of docs/lake.md is killed around its merges; the table has each event once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.models.spark.lake_job import CHECKPOINT, FOUND, ROOT, TABLE
from tests.models.spark.rows import Row, in_order, row_of, writing
from tests.models.spark.stream_job import tip_of
from tests.models.storage.stored_partitions import StoredPartition

TIMEOUT_S = 200
POLL_S = 0.001
LOGS = 3
ROUNDS = 40


class LakeLife:
    """A life of the program, which waits before and behind each merge."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder = folder
        self._process = process

    def hears(self, line: str) -> None:
        """Go on until the program waits there."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline().decode() == f"{line}\n"

    def goes_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def writes_a_file(self) -> None:
        """Go on until there is one more file with rows."""
        before = self._files()
        self.goes_on()
        deadline = time.monotonic() + TIMEOUT_S
        while self._files() == before:
            assert self._process.poll() is None, "the program ended by itself"
            assert time.monotonic() < deadline
            time.sleep(POLL_S)  # Another process writes it, and tells nobody.

    def _files(self) -> int:
        return len(list((self._folder / TABLE).glob("*.parquet")))


@pytest.mark.long  # Java starts once for each kill.
def test_a_table_of_a_lake_has_each_event_once_wherever_its_program_is_killed(
    tmp_path: Path,
) -> None:
    url = f"sqlite:{tmp_path}/ledger.sqlite"
    asyncio.run(append(url, range(ROUNDS)))

    with started("stops", tmp_path) as job:
        job.hears("before")
    assert steps(tmp_path) == (0, 1, 0)
    with started("stops", tmp_path) as job:
        job.hears("before")
        job.goes_on()
        job.hears("behind")
    assert steps(tmp_path) == (1, 1, 0), "merged, and Spark does not know"
    with started("stops", tmp_path) as job:
        job.hears("before")
        job.goes_on()
        job.hears("behind")
        assert steps(tmp_path)[0] == 1, "what is there is not merged again"
        job.goes_on()
        job.hears("before")
        job.writes_a_file()
    asyncio.run(append(url, range(ROUNDS, 2 * ROUNDS)))
    with started("ends", tmp_path) as job:
        pass

    expected = asyncio.run(logged(url))
    found = in_order([plain(row) for row in pq.read_table(tmp_path / FOUND).to_pylist()])
    assert len(found) == len(expected)
    assert found == expected


def steps(folder: Path) -> tuple[int, int, int]:
    """Versions of the table with rows; batches that Spark has planned, and noted as done."""
    versions = len(list((folder / TABLE / "_delta_log").glob("*.json"))) - 1
    planned, done = (
        len(list((folder / CHECKPOINT / step).glob("[0-9]*")))
        for step in ("offsets", "commits")
    )
    return versions, planned, done


def plain(row: Row) -> Row:
    epochs = row["leader_epochs"]
    return {**row, "leader_epochs": None if epochs is None else dict(epochs)}


async def append(url: str, numbers: Iterable[int]) -> None:
    numbers = list(numbers)
    async with writing(url) as backend:
        begin = StoredPartition.resumed if numbers[0] else StoredPartition.led
        for number in range(LOGS):
            partition = await begin(backend, tip_of(number))
            await partition.fill(numbers, step_ms=1)


async def logged(url: str) -> list[Row]:
    """Every event of the logs as a row, in order."""
    async with writing(url) as backend:
        return in_order(
            [
                row_of(tip, event)
                for tip in map(tip_of, range(LOGS))
                async for event in StoredPartition(backend, tip).reader().events()
            ]
        )


@contextmanager
def started(mode: str, folder: Path) -> Iterator[LakeLife]:
    """The program in a process group of its own; killed at the end, if it stops anywhere."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.models.spark.lake_job", mode],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield LakeLife(folder, process)
            if mode == "ends":
                assert process.wait(TIMEOUT_S) == 0
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
