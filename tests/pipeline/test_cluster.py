"""A standalone cluster of two workers: the source and the command, from PostgreSQL."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.models.spark.cluster import StandaloneCluster
from tests.models.spark.rows import writing
from tests.models.storage.stored_partitions import StoredPartition, import_trace
from tests.models.tiering import tier_trace

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 400
PYTHONS = {"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": "notebook"}
"""As docs/spark.md has the first. Spark would run the second for formats, on all machines."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path) as running:
        yield running


async def stored(url: str) -> list[StoredPartition]:
    async with writing(url) as backend:
        return await import_trace(backend, tier_trace.TRACE)


def ship(cluster: StandaloneCluster, folder: Path) -> None:
    """Ship a Python as docs/spark.md says: unpacked in `folder`, and as an archive for workers.

    It stands for a whole environment, as `venv-pack` packs it.
    """
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    archive = shutil.make_archive(str(folder / "environment"), "gztar", folder / "environment")
    with (cluster.folder / "spark-defaults.conf").open("a") as settings:
        settings.write(f"spark.archives {archive}#environment\n")


def run(cluster: StandaloneCluster, folder: Path, *args: object) -> str:
    """The output of the driver in a process of its own, in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.spark.cluster_job", cluster.url, *map(str, args)],
        cwd=folder,
        env={**cluster.environment, **PYTHONS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long  # Spark's own processes are tried by test_connect.py, too.
def test_a_cluster_makes_what_one_machine_makes(
    cluster: StandaloneCluster, postgres_url: str, tmp_path: Path
) -> None:
    partitions = asyncio.run(stored(postgres_url))
    events = sum(one.state.next_position for one in partitions)
    segments = len(tier_trace.segments())
    table = tmp_path / "table"
    ship(cluster, tmp_path)

    output = run(cluster, tmp_path, postgres_url, table)

    assert output.splitlines()[0] == f"{events} events"
    assert pq.read_table(table).num_rows == segments
    done = [cluster.tasks_done(worker) for worker in (0, 1)]
    assert min(done) > 1, "both workers have to take part"
