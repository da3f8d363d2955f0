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
"""Spark's options for writing and reading each file format."""


def write(frame: DataFrame, folder: Path, kind: str) -> int:
    """Write `frame` into a folder that does not exist yet; return the number of rows.

    Args:
        frame: The table.
        folder: A path that must be the same folder on this machine and on all workers.
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
    """Compute all rows of `frame` and keep none, for the side effects of its tasks."""
    frame.write.format("noop").mode("overwrite").save()


def _flat(frame: DataFrame) -> DataFrame:
    """`frame` with every map, list and bytes column as text."""
    columns = []
    for field in frame.schema.fields:
        column = frame[field.name]
        if isinstance(field.dataType, MapType | ArrayType):
            column = sql.to_json(column).alias(field.name)
        elif isinstance(field.dataType, BinaryType):
            text = sql.translate(sql.base64(column), "\r\n", "")  # Spark breaks its lines.
            column = text.alias(field.name)
        columns.append(column)
    return frame.select(columns)
