"""What tasks report beside their rows, as Spark Connect gives it: without accumulators."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.models.cli.command_line import orders, write
from tests.models.pipeline.planted_coverage import Segment, bodies
from tests.models.storage.stored_partitions import StoredPartition
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline import frames
from tierledger.pipeline.spark_tasks import cores_of
from tierledger.storage.backends.sqlite.backend import SqliteBackend


async def damaged(backend: SqliteBackend) -> None:
    tip = TopicIdPartition(Uuid(b"d" * 16), 3, "damaged")
    partition = await StoredPartition.led(backend, tip)
    await partition.append(bodies([Segment(0, 9, {0: 0})]))
    await partition.append(bodies([Segment(1, 19, {0: 10})]))
    await partition.flip(2)


def test_rows_and_damage_are_the_same_without_accumulators(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    write(path, orders, damaged)
    here, seen = frames.Damage(spark), list[object]()
    for name in (frames.segments, frames.anomalies):
        expected = name(spark, f"sqlite:{path}", damage=here)
        with monkeypatch.context() as patch:
            patch.setattr(frames, "is_classic", lambda _: False)
            damage = frames.Damage(spark)
            found = name(spark, f"sqlite:{path}", damage=damage)

            assert found.schema == expected.schema
            assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
            seen.append(damage.logs())

    assert len(here.logs()) == 1
    assert seen == [here.logs()] * 2
    assert cores_of(spark) == spark.sparkContext.defaultParallelism
