"""The objects of a tier as rows for Spark: listed now, or taken from an inventory file.

A list is never held whole: its pages go to a Parquet file as they come. Names are taken as they
are, character by character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from tierledger.pipeline.inventory import (
    OF_CSV,
    SIZE_MAX,
    ListingTotals,
    milliseconds,
    refuse_rows,
    require_columns,
)
from tierledger.tiering.objects.directory import ListedName, Unseen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tierledger.tiering.objects.store import ObjectStore

ROWS_PER_GROUP: Final = 50_000
"""Objects in memory while a tier is listed: some 20 MB."""

COLUMNS: Final = ("path", "size", "last_modified_ms", "etag")
"""Columns of a listing; the last two may be null."""

_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified_ms", pa.int64()),
        pa.field("etag", pa.string()),
    ]
)


async def write_listing(
    store: ObjectStore,
    folder: str,
    file: Path,
    on_listed: Callable[[int], None],
    on_unseen: Callable[[Unseen], None],
) -> None:
    """List all objects below `folder` into a Parquet file.

    `on_listed` is called with the number of objects in each page, `on_unseen` with what cannot
    be listed.

    Raises:
        StorageUnavailable: The store does not answer; a retry is safe.
        StoreRefused: There is no such bucket or directory, or no permission to list it.
    """
    held: list[ListedName] = []
    with pq.ParquetWriter(file, _SCHEMA) as writer:
        async for page in store.pages(folder, on_unseen):
            held += page
            on_listed(len(page))
            if len(held) >= ROWS_PER_GROUP:
                writer.write_batch(_batch(held))
                held.clear()
        writer.write_batch(_batch(held))


def _batch(names: Sequence[ListedName]) -> Any:  # noqa: ANN401 - Arrow's.
    modified = [milliseconds(one.last_modified) for one in names]
    columns = [
        [one.path for one in names],
        [one.size for one in names],
        modified,
        [one.e_tag for one in names],
    ]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def written_listing(spark: SparkSession, file: Path) -> DataFrame:
    return spark.read.parquet(f"file:{file.absolute()}")


def read_inventory(spark: SparkSession, place: str) -> DataFrame:
    """Rows of `COLUMNS` from an inventory in CSV with a heading, or in Parquet.

    If a path has several rows, only the newest is returned.

    Args:
        spark: The session whose tasks read it.
        place: A file or folder, or a URL that Spark reads; CSV if it ends with `.csv` or
            `.csv.gz`. Times are ISO 8601, or milliseconds since 1970.

    Raises:
        InvalidArgument: A column is missing.
    """
    where = place if "://" in place else f"file:{Path(place).expanduser().absolute()}"
    if place.endswith(OF_CSV):
        # Quoted names may contain line ends.
        found = spark.read.csv(where, header=True, multiLine=True, quote='"', escape='"')
    else:
        found = spark.read.parquet(where)
    require_columns(found.columns, place)
    etag = found["etag"] if "etag" in found.columns else sql.lit(None)
    rows = found.select(
        found["path"].cast("string").alias("path"),
        sql.expr("try_cast(size AS bigint)").alias("size"),
        _milliseconds(found).alias("last_modified_ms"),
        etag.cast("string").alias("etag"),
    )
    # The inventory of a versioned bucket has a row for each version of an object.
    newest = sql.max_by(
        sql.struct("size", "last_modified_ms", "etag"),
        sql.coalesce(sql.col("last_modified_ms"), sql.lit(-(1 << 62))),
    ).alias("newest")
    return rows.groupBy("path").agg(newest).select("path", "newest.*")


def _milliseconds(found: DataFrame) -> Column:
    if found.schema["last_modified"].dataType.typeName().startswith("timestamp"):
        return sql.unix_millis(found["last_modified"].cast("timestamp"))
    return sql.coalesce(
        sql.expr("try_cast(last_modified AS bigint)"),
        sql.unix_millis(sql.expr("try_cast(last_modified AS timestamp)")),
    )


def totals(listing: DataFrame) -> ListingTotals:
    """Count a listing.

    Raises:
        InvalidArgument: It has rows without a path, or without a valid size.
    """
    size = sql.col("size")
    is_good = sql.col("path").isNotNull() & sql.coalesce(
        size.between(0, SIZE_MAX), sql.lit(False)
    )
    row = listing.agg(
        sql.count(sql.lit(1)).alias("objects"),
        sql.sum(sql.when(is_good, size)).alias("size"),
        sql.max("last_modified_ms").alias("newest"),
        sql.count_if(~is_good).alias("bad"),
        sql.min(sql.when(~is_good, sql.coalesce("path", sql.lit("")))).alias("example"),
    ).collect()[0]
    refuse_rows(row["bad"], row["example"] or "")
    return ListingTotals(row["objects"], row["size"] or 0, row["newest"])
