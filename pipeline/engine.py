"""Tables made by this process, and when that is the better engine.

Spark's Java takes ten seconds and more to start, in which one process folds half a million
events (docs/adr/0041-jobs-know-no-spark.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple

from tierledger.events.errors import DataError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.digests import OptionalDigest
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.plan import LogPlanner
from tierledger.pipeline.tables.plan import TablePlan
from tierledger.pipeline.tables.writers import Write
from tierledger.storage.catalog import Catalog

LOCAL_EVENTS_MAX = 500_000
"""Events that this process folds before Spark has started and folded them."""

EVENTS_PER_LOG = 100
"""What it costs to begin a log, in events."""

READS_AT_A_TIME = 32
"""Logs whose last batch is read at the same time."""


class Made(NamedTuple, Generic[OptionalDigest]):
    """A table that was made, by either engine."""

    digest: OptionalDigest
    rows: int
    damaged: list[DamagedLog]
    """Logs that were left out, by id and number."""


def made_here(
    plan: TablePlan, logs: Iterable[PlannedLog], digest: OptionalDigest, write: Write | None
) -> Made[OptionalDigest]:
    """Make the planned table in this process.

    Args:
        plan: Of the table.
        logs: Its logs; each is asked for when the one before it is folded.
        digest: Takes the rows; may be none.
        write: Takes them too, chunk by chunk; may be none.

    Raises:
        StorageUnavailable: The store is away.
        StoreRefused: It is no store any more.
    """
    damaged: list[DamagedLog] = []
    rows = 0
    for chunk in plan.fold(damaged.extend).run(logs, digest):
        rows += chunk.row_count
        if write is not None:
            write(chunk)
    return Made(digest, rows, sorted(damaged, key=attrgetter("topic_id", "partition")))


async def is_small(store: JobStore, logs: Sequence[PlannedLog]) -> bool:
    """Whether `logs` are folded sooner in this process than Spark starts.

    Raises:
        StorageUnavailable: The store is away.
        StoreRefused: It is no store any more.
    """
    # Each batch has an event, so these need not be looked at.
    left = LOCAL_EVENTS_MAX - sum(EVENTS_PER_LOG + log.batches for log in logs)
    if left < 0:
        return False
    async with store.opened() as catalog:
        for at in range(0, len(logs), READS_AT_A_TIME):
            some = logs[at : at + READS_AT_A_TIME]
            more = await asyncio.gather(*(_beyond_batches(catalog, log) for log in some))
            left -= sum(more)
            if left < 0:
                return False
    return True


async def _beyond_batches(catalog: Catalog, log: PlannedLog) -> int:
    """How many more events than batches a log has."""
    planner = LogPlanner(catalog.reader(TopicIdPartition(log.topic_id, log.partition, "")))
    try:
        start, _ = await planner.start()
        end = await planner.place(log.end_batch)
    except DataError:
        return 0  # Folding it will say so.
    return end.next_position - start.next_position - log.batches
