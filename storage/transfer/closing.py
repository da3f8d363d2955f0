"""Closes all logs of partitions in a store for good, and opens them again.

Rule: a log is closed by its next slot, as a batch would be appended. So a write is before that
slot, and is found, or it is refused, whoever makes it and however late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from tierledger.storage.backend import MetadataStorageBackend, Remove
from tierledger.storage.catalog import Catalog
from tierledger.storage.closed_slot import COPIED, why_closed
from tierledger.storage.transfer.logs import COORDINATOR, ClusterLogs, LogId

LOGS_PER_STEP = 500


async def closed_because(catalog: Catalog) -> str | None:
    """Why the coordinator's log is closed; None if it is not."""
    (last,) = await catalog.backend.last_keys([catalog.keys.coordinator_log()])
    value = None if last is None else await catalog.backend.get(last)
    return None if value is None else why_closed(catalog.serde, value)


async def close_logs(
    backend: MetadataStorageBackend, logs: ClusterLogs, wanted: Iterable[LogId], mark: bytes
) -> None:
    """Close each of the logs `wanted` at its end, also one that has not begun.

    Raises:
        OutcomeUnknown: Some may be closed, some not; to be repeated.
        StorageUnavailable: As above.
    """
    left = list(wanted)
    while left:
        some, left = left[:LOGS_PER_STEP], left[LOGS_PER_STEP:]
        while slots := await _next_slots(backend, logs, some):
            # One that somebody was faster to write is looked for again.
            await backend.create_each([(key, mark) for key in slots])


async def _next_slots(
    backend: MetadataStorageBackend, logs: ClusterLogs, some: Sequence[LogId]
) -> list[str]:
    """The keys of the next batches of those that are not closed."""
    last = await backend.last_keys([logs.prefix(log) for log in some])
    at_ends = [key or logs.batch_keys(log)(0) for log, key in zip(some, last, strict=True)]
    values = await backend.get_each(at_ends)
    slots = list[str]()
    for log, key, value in zip(some, last, values, strict=True):
        if key is None:
            slots.append(logs.batch_keys(log)(0))
        elif value is None or why_closed(logs.serde, value) is None:
            slots.append(logs.batch_keys(log)(int(key.rpartition("/")[2]) + 1))
    return slots


async def reopen_logs(catalog: Catalog) -> int:
    """Open what `close_logs` has closed, the coordinator's log last; how many logs it was.

    Raises:
        OutcomeUnknown: Some are open, some not; to be repeated.
        StorageUnavailable: As above.
    """
    logs = ClusterLogs(catalog.keys, catalog.serde, catalog.cluster_id)
    count = 0
    async for some in _each(catalog):
        count += await _reopened(catalog, logs, some)
    return count + await _reopened(catalog, logs, [COORDINATOR])


async def _each(catalog: Catalog) -> AsyncIterator[list[LogId]]:
    some = list[LogId]()
    async for tip, _ in catalog.first_batches():
        some.append(LogId(bytes(tip.topic_id), tip.partition))
        if len(some) == LOGS_PER_STEP:
            yield some
            some = []
    yield some


async def _reopened(catalog: Catalog, logs: ClusterLogs, some: Sequence[LogId]) -> int:
    backend = catalog.backend
    last = await backend.last_keys([logs.prefix(log) for log in some])
    keys = [key for key in last if key is not None]
    values = await backend.get_each(keys)
    closed = [
        Remove(key, expected=value)
        for key, value in zip(keys, values, strict=True)
        if value is not None and (why_closed(logs.serde, value) or "").startswith(COPIED)
    ]
    if closed:
        await backend.execute_atomically(closed)
    return len(closed)
