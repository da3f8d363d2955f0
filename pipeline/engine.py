"""Makes tables in this process, and tells when that is faster than Spark.

Spark's Java takes ten seconds or more to start. In that time one process folds half a million
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
from tierledger.pipeline.log_ranges import LogPlanner
from tierledger.pipeline.tables.plan import TablePlan
from tierledger.pipeline.tables.writers import Write
from tierledger.storage.catalog import Catalog

LOCAL_EVENTS_MAX = 500_000
"""Up to this many events, this process is done before Spark would be."""

EVENTS_PER_LOG = 100
"""The cost of beginning a log, counted in events."""

READS_AT_A_TIME = 32
"""Logs whose last batches are read concurrently."""


class Made(NamedTuple, Generic[OptionalDigest]):
    """The result of making a table, by either engine."""

    digest: OptionalDigest
    rows: int
    damaged: list[DamagedLog]
    """Damaged logs, which were left out; ordered by topic id and partition."""


def made_here(
    plan: TablePlan, logs: Iterable[PlannedLog], digest: OptionalDigest, write: Write | None
) -> Made[OptionalDigest]:
    """Make the planned table in this process.

    Args:
        plan: The plan of the table.
        logs: The plan's logs. The next is taken from the iterable when one is folded.
        digest: Takes every row; may be none.
        write: Takes the rows chunk by chunk; may be none.

    Raises:
        StorageUnavailable: The store cannot be reached.
        StoreRefused: The URL does not lead to a store any more.
    """
    damaged: list[DamagedLog] = []
    rows = 0
    for chunk in plan.fold(damaged.extend).run(logs, digest):
        rows += chunk.row_count
        if write is not None:
            write(chunk)
    return Made(digest, rows, sorted(damaged, key=attrgetter("topic_id", "partition")))


async def is_small(store: JobStore, logs: Sequence[PlannedLog]) -> bool:
    """Whether this process folds `logs` before Spark would have started.

    Raises:
        StorageUnavailable: The store cannot be reached.
        StoreRefused: The URL does not lead to a store any more.
    """
    # Each batch has at least one event, so many batches decide without reading any.
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
        return 0  # The fold will report the damage.
    return end.next_position - start.next_position - log.batches
