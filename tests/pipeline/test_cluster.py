"""A standalone cluster of two workers: source, tables and the command, from PostgreSQL."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.models import tier_trace
from tests.models.spark_cluster import StandaloneCluster
from tests.models.spark_rows import writing
from tests.models.stored_partitions import StoredPartition, import_trace

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path) as running:
        yield running


async def stored(url: str) -> list[StoredPartition]:
    async with writing(url) as backend:
        return await import_trace(backend, tier_trace.TRACE)


def run(cluster: StandaloneCluster, *words: str) -> str:
    """What a driver in a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=dict(cluster.environment),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_cluster_makes_what_one_machine_makes(
    cluster: StandaloneCluster, postgres_url: str, tmp_path: Path
) -> None:
    partitions = asyncio.run(stored(postgres_url))
    events = sum(one.state.next_position for one in partitions)
    segments = len(tier_trace.segments())

    said = json.loads(run(cluster, "tests.models.spark_cluster_job", cluster.url, postgres_url))

    assert said["events"] == events
    assert said["segments"] == segments
    by_job = [cluster.tasks_done(worker) for worker in (0, 1)]
    assert min(by_job) > 0, "both workers have to take part"

    table = tmp_path / "table"
    command = ["tierledger.cli.main", "spark", "segments", "--master", cluster.url]
    run(cluster, *command, "--store", postgres_url, "--out", str(table))

    assert pq.read_table(table).num_rows == segments
    by_both = [cluster.tasks_done(worker) for worker in (0, 1)]
    assert all(both > job for both, job in zip(by_both, by_job, strict=True))
