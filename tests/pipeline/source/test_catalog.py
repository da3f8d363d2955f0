"""A table over a store in Spark's own catalog, which adds keys of its own to the options."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.models.spark.tier import BROKERS_TIER, import_metadata


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> Iterator[str]:
    url = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    asyncio.run(import_metadata(url))
    yield url
    for name in ("logged", "kept"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_of_events_is_read_as_the_format_is(spark: SparkSession, store: str) -> None:
    spark.sql(
        f"CREATE TABLE logged USING tierledger OPTIONS (store '{store}', Topic 'codec-none') "
        "COMMENT 'events' TBLPROPERTIES ('kept.by' = 'us', 'owner.team' = 'them')"
    )

    found = spark.sql("SELECT type, position FROM logged WHERE partition = 0")

    events = spark.read.format("tierledger").options(store=store, topic="codec-none").load()
    expected = events.where("partition = 0").select("type", "position")
    assert sorted(found.collect()) == sorted(expected.collect())
    assert found.count() > 0


def test_a_table_of_records_is_read_as_the_format_is(spark: SparkSession, store: str) -> None:
    spark.sql(
        f"CREATE TABLE kept USING `tierledger.records` OPTIONS (store '{store}', "
        f"tier '{BROKERS_TIER}', topic 'codec-none', startingOffset '10')"
    )

    assert spark.sql("SELECT min(offset) FROM kept").first() == (10,)


def test_a_table_with_columns_of_its_own_is_told_that_it_has_no_options(
    spark: SparkSession, store: str
) -> None:
    """Spark keeps a table's options in none but the schema that it asks for."""
    table = f"logged (position BIGINT) USING tierledger OPTIONS (store '{store}')"
    spark.sql(f"CREATE TABLE {table}")

    with pytest.raises(PySparkException, match="if its CREATE TABLE names no columns"):
        spark.sql("SELECT count(*) FROM logged").collect()


def test_an_option_that_nobody_knows_is_refused_in_a_table_too(
    spark: SparkSession, store: str
) -> None:
    with pytest.raises(Exception, match="got 'topics'"):
        spark.sql(f"CREATE TABLE logged USING tierledger OPTIONS (store '{store}', topics 'x')")
