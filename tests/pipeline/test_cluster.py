"""A standalone cluster of two workers: the source and the command, from PostgreSQL."""

import asyncio
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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path) as running:
        yield running


async def stored(url: str) -> list[StoredPartition]:
    async with writing(url) as backend:
        return await import_trace(backend, tier_trace.TRACE)


def run(cluster: StandaloneCluster, *args: object) -> str:
    """The output of the driver in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.spark.cluster_job", cluster.url, *map(str, args)],
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
    table = tmp_path / "table"

    output = run(cluster, postgres_url, table)

    assert output.splitlines()[0] == f"{events} events"
    assert pq.read_table(table).num_rows == segments
    done = [cluster.tasks_done(worker) for worker in (0, 1)]
    assert min(done) > 1, "both workers have to take part"
