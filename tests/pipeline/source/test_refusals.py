"""The format `tierledger`: stores and options that it refuses, and its errors for them."""

import asyncio
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.models.spark.rows import partition_of, read, writing
from tests.models.storage.stored_partitions import TIP, StoredPartition
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA
from tierledger.pipeline.source.source import TierledgerSource

OTHER = TopicIdPartition(Uuid(bytes(range(1, 17))), 0, "payments")


def test_an_empty_store_gives_no_rows(spark: SparkSession, store_url: str) -> None:
    asyncio.run(make_empty(store_url))

    found = read(spark, store_url)

    assert found.collect() == []
    assert found.schema == DEFAULT_SCHEMA


async def make_empty(url: str) -> None:
    async with writing(url):
        pass


def test_a_store_with_several_clusters_asks_which(spark: SparkSession, sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 1))
    asyncio.run(other_cluster(sqlite_url))

    with pytest.raises(
        PySparkException, match="several clusters; the option cluster names one"
    ):
        read(spark, sqlite_url).count()
    with pytest.raises(PySparkException, match="has no cluster 'none'"):
        read(spark, sqlite_url, cluster="none").count()
    assert read(spark, sqlite_url, cluster="other").count() == 1


async def other_cluster(url: str) -> None:
    async with writing(url) as backend:
        await StoredPartition(backend, OTHER, "other").open()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "5"}, "got 'rows'"),
        ({"store": "memory:"}, "got memory:"),
        ({"store": "ftp://place"}, "expected a store as"),
        ({"store": ""}, "expected the option store"),
        ({"partition": "-1"}, "for partition, got '-1'"),
        ({"rows_per_task": "0"}, "for rows_per_task, got '0'"),
        ({"columns": "position,,type"}, "with commas between"),
        ({"columns": "position,price"}, "got position, price"),
        ({"columns": "position,position"}, "each once"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    sqlite_url: str, options: dict[str, str], message: str
) -> None:
    source = TierledgerSource({"store": sqlite_url} | options)

    with pytest.raises(InvalidArgument, match=message):
        source.schema()


def test_what_is_wrong_reaches_the_user(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="got 'colour'"):
        read(spark, f"sqlite:{tmp_path / 'x'}", colour="red")
    with pytest.raises(PySparkException, match="no such store"):
        read(spark, f"sqlite:{tmp_path / 'x'}").count()
    wrong = spark.read.format("tierledger").schema("position string")
    with pytest.raises(PySparkException, match="expected the column position as bigint"):
        wrong.option("store", f"sqlite:{tmp_path / 'x'}").load().count()


def test_a_server_that_is_away_is_named_without_its_password(spark: SparkSession) -> None:
    url = "postgresql://me:hidden-word@127.0.0.1:1/ledger"

    with pytest.raises(PySparkException, match=r"127\.0\.0\.1") as caught:
        read(spark, url).count()

    assert "StorageUnavailable" in str(caught.value)
    assert "hidden-word" not in str(caught.value)


def test_a_plan_does_not_show_the_password(
    spark: SparkSession, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scheme, place = postgres_url.split("://")
    user, _, server = place.rpartition("@")
    url = f"{scheme}://{user or 'postgres'}:hidden-word@{server}"
    asyncio.run(partition_of(postgres_url, TIP, 1))
    asked = read(spark, url).where("topic = 'orders'").select("position")

    asked.explain("extended")

    shown = capsys.readouterr().out
    assert "tierledger" in shown
    assert "hidden-word" not in shown
