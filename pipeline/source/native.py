"""A read's column files as a frame of Spark's own Parquet reader, in Java alone.

Rule: Spark reads copies of bytes whose digest was compared. So nothing that happens to a file
later makes a query fail, or gives it other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import reduce
from operator import and_
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from pyspark import SparkFiles
from pyspark.sql import functions as sql

from tierledger.pipeline.column_files.folder import ColumnFolder
from tierledger.pipeline.column_files.locate import column_place
from tierledger.pipeline.column_files.place import UnusableFile
from tierledger.pipeline.log_ranges import FileRanges
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import PlannedRead
from tierledger.pipeline.source.scan import planned_file
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA
from tierledger.pipeline.spark_tasks import is_classic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COPIES = "tierledger-columns"
"""The folder of the copies, among the files of the Spark that reads them."""

STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""A session may be set to leave out files without a word."""


def copied(spark: SparkSession, options: SourceOptions, read: PlannedRead) -> dict[str, Path]:
    """By name, copies of the files that Spark can read itself; Spark removes them at its end.

    There are none on a cluster, whose machines do not see this one's files. A file whose rows
    are read in part, or that cannot be used or copied, is left out.
    """
    if not is_classic(spark) or not (spark.sparkContext.master or "").startswith("local"):
        return {}
    folder = Path(SparkFiles.getRootDirectory(), COPIES)
    found = dict[str, Path]()
    for piece in read.in_files:
        if piece.file in read.whole:
            # Whoever reads such a file in a task says what is wrong with it.
            with suppress(UnusableFile, OSError):
                found[piece.file] = _copy(folder, options, read.cluster, piece)
    return found


def _copy(folder: Path, options: SourceOptions, cluster: str, piece: FileRanges) -> Path:
    path = folder / piece.file
    try:
        planned_file(ColumnFolder(folder), cluster, piece)
    except UnusableFile:  # There is none yet.
        data = planned_file(column_place(options.config), cluster, piece).data
        folder.mkdir(exist_ok=True)
        unfinished = folder / f"{token_hex(8)}.unfinished"
        try:
            unfinished.write_bytes(data)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return path


def frame_of(
    spark: SparkSession, options: SourceOptions, read: PlannedRead, copies: Collection[Path]
) -> DataFrame:
    """The rows that the read takes from these copies, with all columns of column files."""
    paths = [f"file:{path}" for path in copies]
    frame = spark.read.schema(DEFAULT_SCHEMA).options(**STRICT).parquet(*paths)
    wanted = list(_wanted(options, read))
    return frame.where(reduce(and_, wanted)) if wanted else frame


def _wanted(options: SourceOptions, read: PlannedRead) -> Iterator[Column]:
    if options.topic is not None:
        yield sql.col("topic_id").isin(list(map(str, read.topic_ids)))
    if options.partition is not None:
        yield sql.col("partition") == options.partition
    for name, (first, last) in options.bounds.limits.items():
        if first is not None:
            yield sql.col(name) >= first
        if last is not None:
            yield sql.col(name) <= last
