"""The tables as formats: the rows of the frames, for SQL and clients without tierledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.models.cli.command_line import orders, others, write
from tests.pipeline.test_engines import damaged
from tierledger.events.errors import InvalidArgument
from tierledger.pipeline import frames
from tierledger.pipeline.formats import SegmentsSource
from tierledger.pipeline.tables.plan import TABLES


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("formats") / "store"
    write(path, orders, others)
    return f"sqlite:{path}"


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    yield "copied"
    spark.sql("DROP TABLE IF EXISTS copied")


@pytest.mark.parametrize("name", TABLES)
def test_a_format_has_the_rows_of_its_table(spark: SparkSession, url: str, name: str) -> None:
    found = spark.read.format(f"tierledger.{name}").option("store", url).load()

    expected = getattr(frames, name)(spark, url)
    assert found.schema == expected.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))


def test_events_are_a_format_under_their_tables_name_too(spark: SparkSession, url: str) -> None:
    found = spark.read.format("tierledger.events").option("store", url).load()

    expected = spark.read.format("tierledger").option("store", url).load()
    assert found.schema == expected.schema
    assert found.count() == expected.count() > 0


def test_options_choose_logs_and_a_point_in_them(
    spark: SparkSession, url: str, table: str
) -> None:
    spark.sql(
        f"CREATE TABLE {table} USING `tierledger.segments` OPTIONS (store '{url}', "
        "topic 'orders', partition '1', as_of '5')"
    )

    found = spark.table(table).select("segment_id", "state").collect()

    expected = frames.segments(spark, url, 5, topic="orders", partition=1)
    assert sorted(found) == sorted(expected.select("segment_id", "state").collect())
    assert found


@pytest.mark.parametrize("name", ["tierledger", "tierledger.segments", "tierledger.records"])
def test_what_can_only_be_read_says_so_when_it_is_written(
    spark: SparkSession, url: str, name: str
) -> None:
    writing = spark.range(1).write.format(name).mode("append").option("store", url)

    with pytest.raises(PySparkException, match=f"the format {name} can only be read"):
        writing.save()


def test_a_damaged_log_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "store", damaged)
    reading = spark.read.format("tierledger.segments")

    with pytest.raises(PySparkException, match="CorruptLog"):
        reading.option("store", f"sqlite:{tmp_path / 'store'}").load().count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": "sqlite:x", "rows": "5"}, "got 'rows'"),
        ({}, "expected the option store"),
        ({"store": "sqlite:x", "as_of": "yesterday"}, "for as_of, got 'yesterday'"),
        ({"store": "sqlite:x", "partition": "-1"}, "for partition, got '-1'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        SegmentsSource(options).schema()
