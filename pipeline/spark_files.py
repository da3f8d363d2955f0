"""Tables as files, written by Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, BinaryType, MapType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {},
    "csv": {"header": "true", "escape": '"'},
    "json": {"ignoreNullFields": "false"},
}
"""How Spark is told to write and read each of `table_files.FORMATS`."""


def write(frame: DataFrame, folder: Path, kind: str) -> int:
    """Write `frame` into a folder that is not there yet; how many rows those were.

    Args:
        frame: The table.
        folder: On this machine, and on those that the tasks run on the same one.
        kind: One of `OPTIONS`; in `csv`, maps and lists are JSON, bytes base64.
    """
    counted = Observation()
    observed = frame.observe(counted, sql.count(sql.lit(1)).alias("rows"))
    if kind == "csv":
        observed = _flat(observed)
    observed.write.format(kind).options(**OPTIONS[kind]).save(f"file:{folder.absolute()}")
    found: dict[str, Any] = counted.get
    return int(found["rows"])


def make(frame: DataFrame) -> None:
    """Make all rows of `frame`, and keep none: for those who take them as they are made."""
    frame.write.format("noop").mode("overwrite").save()


def _flat(frame: DataFrame) -> DataFrame:
    """`frame` with columns that have a text in each field."""
    columns = []
    for field in frame.schema.fields:
        column = frame[field.name]
        if isinstance(field.dataType, MapType | ArrayType):
            column = sql.to_json(column).alias(field.name)
        elif isinstance(field.dataType, BinaryType):
            column = sql.base64(column).alias(field.name)
        columns.append(column)
    return frame.select(columns)
