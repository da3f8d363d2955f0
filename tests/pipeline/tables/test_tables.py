"""On Spark, tables are what their tasks fold, and what is written of them is read back."""

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tests.models.cli.command_line import orders, others, run, write
from tests.models.pipeline.folded_tables import TableRow, folded, imported, plan, rows_of
from tests.models.storage.stored_partitions import (
    TIP,
    TRACES,
    StoredPartition,
    finished,
    import_trace,
)
from tierledger.events.as_of import AsOf
from tierledger.events.errors import RemoteStorageError
from tierledger.pipeline import frames as tables
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.spark_files import OPTIONS
from tierledger.pipeline.spark_files import write as write_files
from tierledger.pipeline.tables.arrow import schema_of
from tierledger.pipeline.tables.files import FORMATS, place
from tierledger.pipeline.tables.plan import TABLES
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.connector import load_connector


def plain(frame: DataFrame) -> list[str]:
    """Rows without their order, as text: maps and bytes cannot be sorted."""
    return sorted(str(_values(row.asDict(recursive=True))) for row in frame.collect())


def expected(rows: list[TableRow]) -> list[str]:
    return sorted(str(_values(row)) for row in rows)


def _values(row: TableRow) -> list[Any]:
    epochs = row.get("leader_epochs")
    if epochs is not None:  # Arrow gives maps as lists, Java in an order of its own.
        row = {**row, "leader_epochs": sorted(dict(epochs).items())}
    return [_plain(one) for one in row.values()]


def _plain(one: Any) -> Any:  # noqa: ANN401 - Whatever a column holds.
    if isinstance(one, bytearray):
        return bytes(one)
    return str(one) if isinstance(one, str) else one  # A kind of anomaly is one of an enum.


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> JobStore:
    return imported(tmp_path_factory.mktemp("churn") / "s", "three-brokers-churn")[0]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_its_tasks_fold(
    spark: SparkSession, churn: JobStore, name: str
) -> None:
    make = getattr(tables, name)

    frame = make(spark, churn.config)

    assert frame.schema == from_arrow_schema(schema_of(TABLES[name]))
    assert plain(frame) == expected(folded(name, churn))


def test_a_table_is_the_same_from_any_store(spark: SparkSession, store_url: str) -> None:
    async def fill() -> None:
        connector = load_connector({"metadata.storage.url": store_url})
        backend = await connector.backend(read_only=False)
        await import_trace(backend, TRACES / "one-broker")
        await backend.close()

    asyncio.run(fill())

    store = JobStore.of(store_url)
    assert plain(tables.segments(spark, store_url)) == expected(folded("segments", store))


def test_a_table_as_of_a_time_or_a_position_is_that_of_then(
    spark: SparkSession, churn: JobStore
) -> None:
    (last,) = folded("segments", churn)[-1:]
    at_ms = last["event_timestamp_ms"]
    then = datetime.fromtimestamp(at_ms / 1000, UTC)
    where: tables.Selection = {"topic": last["topic_id"], "partition": last["partition"]}

    by_time = tables.segments(spark, churn.config, then)
    by_position = tables.segments(spark, churn.config, 100, **where)

    assert plain(by_time) == expected(folded("segments", churn, AsOf(time_ms=at_ms)))
    one = plan(
        "segments", churn, AsOf(position=100), topic=where["topic"], partition=last["partition"]
    )
    assert plain(by_position) == expected(rows_of(one))
    assert {row.position for row in by_position.collect()} == {100}


def damaged_store(path: Path) -> str:
    """`orders` and others, of which orders' second half is damaged."""

    async def damage(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        await stored.append(finished(1))
        await stored.flip(1)

    write(path, orders, others, damage)
    return f"sqlite:{path}"


def test_damage_is_told_once_however_often_a_query_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = damaged_store(tmp_path / "s")
    damage = tables.Damage(spark)

    frame = tables.segments(spark, url, damage=damage)
    counts = [frame.count(), frame.count()]

    (one,) = damage.logs()
    assert counts == [19, 19]
    assert (one.topic, one.topic_id, one.partition) == (
        "orders",
        str(TIP.topic_id),
        TIP.partition,
    )
    assert one.position == 1


def test_damage_that_nobody_is_told_of_fails_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = damaged_store(tmp_path / "s")

    with pytest.raises(PySparkException, match=r"CorruptLog: .*orders"):
        tables.segments(spark, url).count()


def test_a_store_that_goes_away_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "s", orders)
    frame = tables.segments(spark, f"sqlite:{tmp_path / 's'}")
    for file in tmp_path.iterdir():
        file.rename(tmp_path.parent / f"{file.name}.gone")

    with pytest.raises(PySparkException, match="NoSuchStore"):
        frame.count()


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_written_is_read_back(
    spark: SparkSession, churn: JobStore, tmp_path: Path, kind: str
) -> None:
    frame = tables.segments(spark, churn.config)

    with place(tmp_path / "out") as folder:
        rows = write_files(frame, folder, kind)

    assert not list(tmp_path.glob("*.unfinished"))
    read = spark.read.format(kind).options(**OPTIONS[kind]).load(str(tmp_path / "out"))
    assert sorted(read.columns) == sorted(frame.columns)
    assert rows == read.count() == frame.count()
    chosen = ("segment_id", "start_offset", "state", "custom_metadata")
    texts = [f"cast({one} as string)" for one in chosen]
    assert plain(read.selectExpr(*texts)) == plain(frame.selectExpr(*texts))
    if kind == "parquet":
        assert plain(read) == plain(frame)


def test_the_command_writes_a_table_and_tells_of_damage_by_its_exit_code(
    spark: SparkSession, tmp_path: Path
) -> None:
    damaged_store(tmp_path / "s")
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-of-an-older-table").touch()

    done = run(tmp_path / "s", "tables", "segments", "--out", out, "--overwrite", "--json")

    assert done.exit_code == 3, done.stderr
    assert '"rows":19' in done.stdout
    assert f"note: {TIP.topic_id}:orders-3 is left out from position 1 on:" in done.stderr
    assert spark.read.parquet(str(out)).count() == 19
    assert not (out / "part-of-an-older-table").exists()


def test_the_command_gives_events_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "s", orders)
    out = tmp_path / "out"
    as_of = ("--topic", "orders", "--partition", 1, "--as-of", 4)

    done = run(tmp_path / "s", "tables", "events", "--out", out, *as_of)

    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("5 rows in ")
    read = spark.read.parquet(str(out))
    assert sorted(row.position for row in read.collect()) == [0, 1, 2, 3, 4]
    assert "stored" not in read.columns


def test_a_table_that_was_written_on_another_machine_is_told_so(tmp_path: Path) -> None:
    out = tmp_path / "out"

    with pytest.raises(RemoteStorageError, match="not written on this machine"), place(out):
        pass

    assert not out.exists()


def test_a_job_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "s", orders)
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-1").write_text("kept")

    with pytest.raises(FileExistsError), place(out, overwrite=True) as folder:  # noqa: PT012
        shutil.copytree(out, folder)
        folder.mkdir()

    assert (out / "part-1").read_text() == "kept"
    assert [one.name for one in tmp_path.glob("out*")] == ["out"]
