"""Which logs a job folds, how far, and which task folds which.

Where a log ends is found once, before any task starts; what is written later is not read.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.fold import PlannedLog
from tierledger.storage.keys import behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.storage.catalog import Catalog

PROBED_AT_ONCE = 200
"""Keys that one question asks for; their values come along, at most 64 KiB each."""

LOGS_PER_TASK = 4_000
"""Logs in one task, at most: what they are called is sent with it."""

TASKS_PER_CORE = 4
"""Tasks for each core, so that one long log does not keep the others waiting at the end."""


async def planned_logs(
    catalog: Catalog, topic: str | None = None, partition: int | None = None
) -> list[PlannedLog]:
    """The cluster's logs; only those of topics of that name or id, and of that number.

    Raises:
        RemoteResourceNotFound: There are none of that topic or number.
    """
    logs = await _begun(catalog)
    if topic is not None:
        ids = {
            entry.topic_id_partition.topic_id
            async for entry in catalog.partitions()
            if topic in {entry.topic_id_partition.topic, str(entry.topic_id_partition.topic_id)}
        }
        if not ids:
            raise RemoteResourceNotFound(
                f"cluster {catalog.cluster_id!r} has no topic {topic!r}"
            )
        logs = [log for log in logs if log.topic_id in ids]
    if partition is not None:
        logs = [log for log in logs if log.partition == partition]
        if not logs:
            of = "no topic" if topic is None else f"topic {topic!r}"
            have = "has" if topic is None else "does not have"
            raise RemoteResourceNotFound(f"{of} {have} a partition {partition}")
    return await _with_ends(catalog, logs)


def divided(logs: Sequence[PlannedLog], cores: int) -> list[list[PlannedLog]]:
    """`logs` for tasks that take about equally long; the longest first, in each."""
    count = max(1, min(len(logs), max(cores * TASKS_PER_CORE, len(logs) // LOGS_PER_TASK)))
    tasks: list[list[PlannedLog]] = [[] for _ in range(count)]
    load = [(0, at) for at in range(count)]
    for log in sorted(logs, key=lambda one: one.batches, reverse=True):
        batches, at = heapq.heappop(load)
        tasks[at].append(log)
        heapq.heappush(load, (batches + log.batches, at))
    return tasks


async def _begun(catalog: Catalog) -> list[PlannedLog]:
    """Each log with the number of its first batch, and the next as its end."""
    keys = catalog.keys
    found: list[PlannedLog] = []
    after: str | None = None
    while rows := await catalog.backend.get_like(keys.logs(), after=after, limit=1):
        topic_id, partition, number = keys.parse_log_batch(rows[0][0])
        found.append(PlannedLog(topic_id, partition, number, number + 1))
        after = behind(keys.log(TopicIdPartition(topic_id, partition, "")))
    return found


async def _with_ends(catalog: Catalog, logs: Sequence[PlannedLog]) -> list[PlannedLog]:
    ended: list[PlannedLog] = []
    for at in range(0, len(logs), PROBED_AT_ONCE):
        ended += await _ended(catalog, logs[at : at + PROBED_AT_ONCE])
    return ended


async def _ended(catalog: Catalog, logs: Sequence[PlannedLog]) -> list[PlannedLog]:
    """The logs with their ends, all searched at once: by doubling steps, then by halves."""
    taken = [log.first_batch for log in logs]
    free: list[int | None] = [None] * len(logs)
    while True:
        probes: list[tuple[int, int]] = []
        for at, (low, high) in enumerate(zip(taken, free, strict=True)):
            if high is None:
                probes.append((at, 2 * low - logs[at].first_batch + 1))
            elif high > low + 1:
                probes.append((at, (low + high) // 2))
        if not probes:
            break
        values = await catalog.backend.get_each(
            [_key(catalog, logs[at], n) for at, n in probes]
        )
        for (at, number), value in zip(probes, values, strict=True):
            if value is None:
                free[at] = number
            else:
                taken[at] = number
    return [log._replace(end_batch=low + 1) for log, low in zip(logs, taken, strict=True)]


def _key(catalog: Catalog, log: PlannedLog, number: int) -> str:
    return catalog.keys.log_batch(TopicIdPartition(log.topic_id, log.partition, ""), number)
