"""Plans a job: which logs it folds, up to which batch, and in which tasks.

The end of each log is found once, before any task starts. Later appends are not read.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.fold import PlannedLog
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.log_times import ahead_ms, newest_times
from tierledger.storage.partition.reader import planned_ends

PLANNED_AT_ONCE = 200
"""Logs whose ends are read by one request, with the values of their checkpoints."""

LOGS_PER_TASK = 4_000
"""About the most logs per task: their identities are sent with the task."""

TASKS_PER_CORE = 4
"""Tasks per core, so that at the end the cores do not all wait for one long task."""


async def planned_logs(
    catalog: Catalog, topic: str | None = None, partition: int | None = None
) -> list[PlannedLog]:
    """The cluster's logs with their ends, limited to a topic (name or id) and a partition.

    Raises:
        RemoteResourceNotFound: There is no such topic or partition.
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
                f"cluster {catalog.cluster_id!r} has no topic {topic!r}; "
                "tierledger ls lists the topics"
            )
        logs = [log for log in logs if log.topic_id in ids]
    if partition is not None:
        logs = [log for log in logs if log.partition == partition]
        if not logs:
            of = "no topic" if topic is None else f"topic {topic!r}"
            have = "has" if topic is None else "does not have"
            raise RemoteResourceNotFound(f"{of} {have} a partition {partition}")
    return await _with_ends(catalog, logs)


class AheadLog(NamedTuple):
    """A log whose time is ahead of now: a clock was wrong when it was written."""

    topic: str
    topic_id: str
    partition: int
    log_time_ms: int
    log_time_ahead_ms: int


async def ahead_logs(
    catalog: Catalog, logs: Sequence[PlannedLog], now_ms: int
) -> list[AheadLog]:
    """The logs whose time is ahead of `now_ms`, the furthest first."""
    found: list[AheadLog] = []
    for at in range(0, len(logs), PLANNED_AT_ONCE):
        some = logs[at : at + PLANNED_AT_ONCE]
        tips = [TopicIdPartition(log.topic_id, log.partition, "") for log in some]
        times = await newest_times([catalog.reader(tip) for tip in tips])
        for log, time_ms in zip(some, times, strict=True):
            if time_ms is not None and (ahead := ahead_ms(time_ms, now_ms)):
                where = (str(log.topic_id), log.partition)
                found.append(AheadLog("", *where, time_ms, ahead))
    if found:
        tips = [entry.topic_id_partition async for entry in catalog.partitions()]
        names = {str(tip.topic_id): tip.topic for tip in tips}
        found = [one._replace(topic=names.get(one.topic_id, "")) for one in found]
    return sorted(found, key=lambda one: -one.log_time_ahead_ms)


def divided(logs: Sequence[PlannedLog], cores: int) -> list[list[PlannedLog]]:
    """`logs`, divided into tasks of about equal duration; in each the longest log is first."""
    count = max(1, min(len(logs), max(cores * TASKS_PER_CORE, len(logs) // LOGS_PER_TASK)))
    tasks: list[list[PlannedLog]] = [[] for _ in range(count)]
    load = [(0, at) for at in range(count)]
    for log in sorted(logs, key=lambda one: one.batches, reverse=True):
        batches, at = heapq.heappop(load)
        tasks[at].append(log)
        heapq.heappush(load, (batches + log.batches, at))
    return tasks


def divided_in_order(logs: Sequence[PlannedLog], cores: int) -> list[list[PlannedLog]]:
    """`logs`, divided into tasks of about equal duration; each has neighbours in column files.

    So a file is read by the few tasks whose logs it has, and not by all.
    """
    count = len(divided(logs, cores))
    total = sum(log.batches for log in logs) or 1
    tasks: list[list[PlannedLog]] = [[] for _ in range(count)]
    before = 0
    for log in sorted(logs, key=lambda one: (str(one.topic_id), one.partition)):
        tasks[min(before * count // total, count - 1)].append(log)
        before += log.batches
    return [task for task in tasks if task] or [[]]


async def _begun(catalog: Catalog) -> list[PlannedLog]:
    """Each log with the number of its first batch; its end is not set yet."""
    found: list[PlannedLog] = []
    async for tip, first in catalog.first_batches():
        number = 0 if first is None else first.number
        found.append(PlannedLog(tip.topic_id, tip.partition, number, number))
    return found


async def _with_ends(catalog: Catalog, logs: Sequence[PlannedLog]) -> list[PlannedLog]:
    ended: list[PlannedLog] = []
    for at in range(0, len(logs), PLANNED_AT_ONCE):
        some = logs[at : at + PLANNED_AT_ONCE]
        tips = [TopicIdPartition(log.topic_id, log.partition, "") for log in some]
        ends = await planned_ends([catalog.reader(tip) for tip in tips])
        ended += [log._replace(end_batch=end) for log, end in zip(some, ends, strict=True)]
    return ended
