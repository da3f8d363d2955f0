"""Keeps a table of a lake (Delta, or any format that knows `MERGE`) equal to a store's logs.

Rule: a row is added if the table does not have it yet. So a micro-batch that Spark repeats
after a kill changes nothing; nor do all of them after a lost checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = ("cluster", "topic_id", "partition", "position", "type")
"""What no two rows have in common. The type, too: a row `corrupt` is no event, and stays beside
the event that the mended log has at that position."""


def merging_into(table: str) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch` that adds a stream's events to `table`, each once.

    Args:
        table: The table as SQL names it, such as ``lake.events`` or ``delta.`/data/events` ``.
            It has the columns of the stream, among them `KEY` and `log_time_ms`.
    """
    same = " AND ".join(f"there.{name} = new.{name}" for name in KEY)

    def merge(batch: DataFrame, _: int) -> None:
        batch.persist()
        try:
            oldest = batch.agg(sql.min("log_time_ms")).collect()[0][0]
            if oldest is None:
                return
            # An event that is there has the same time, so files with older ones are not read.
            batch.sparkSession.sql(
                f"MERGE INTO {table} AS there USING {{new}} AS new "
                f"ON {same} AND there.log_time_ms >= {oldest} "
                "WHEN NOT MATCHED THEN INSERT *",
                new=batch,
            )
        finally:
            batch.unpersist()

    return merge
