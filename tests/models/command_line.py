"""A small store, and the command run on it as a user runs it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tests.models.stored_partitions import TIME_MS, StoredPartition, finished, updated
from tierledger.cli.main import app
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.log_events import PartitionDeleteUpdated
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend

ORDERS, OLD_ORDERS, EMPTY, GONE = (Uuid(bytes([one]) * 16) for one in (9, 3, 5, 7))
HOSTILE = "evil\x1b[2J\nname"

Write = Callable[[SqliteBackend], Coroutine[Any, Any, None]]


def write(path: Path, *steps: Write) -> None:
    async def run() -> None:
        backend = await SqliteBackend.open(path)
        try:
            for step in steps:
                await step(backend)
        finally:
            await backend.close()

    asyncio.run(run())


async def orders(backend: MetadataStorageBackend) -> None:
    partition = StoredPartition(backend, TopicIdPartition(ORDERS, 1, "orders"))
    await partition.open()
    for number in range(20):
        await partition.append(finished(number, epoch=number // 10), step_ms=1000)
    await partition.checkpoint()
    await partition.append([updated(0, 2), updated(1, 2), updated(1, 3)], step_ms=1000)


async def others(backend: MetadataStorageBackend) -> None:
    old = StoredPartition(backend, TopicIdPartition(OLD_ORDERS, 0, "orders"))
    await old.open(time_ms=TIME_MS - 1000)
    empty = StoredPartition(backend, TopicIdPartition(EMPTY, 0, HOSTILE))
    await empty.open()
    await empty.close()
    gone = StoredPartition(backend, TopicIdPartition(GONE, 0, "gone"))
    await gone.open()
    await gone.append(finished(0))
    await gone.append([PartitionDeleteUpdated(state, 1, 5) for state in (0, 1, 2)])


def run(store: Path, *arguments: object) -> Result:
    given = [str(one) for one in arguments]
    return CliRunner().invoke(app, [*given, "--store", f"sqlite:{store}"])


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
