"""A small store, and the command line run on it as by a user."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tests.models.storage.stored_partitions import TIME_MS, StoredPartition, finished, updated
from tierledger.cli.whole_program import app
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.log_events import PartitionDeleteUpdated
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend

ORDERS, OLD_ORDERS, EMPTY, GONE = (Uuid(bytes([one]) * 16) for one in (9, 3, 5, 7))
HOSTILE = "evil\x1b[2J\nname"

SAYS_WHAT_IT_LOADS = """
import sys
from tierledger.cli.main import main
sys.argv[0] = "tierledger"
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""

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
    partition = await StoredPartition.led(backend, TopicIdPartition(ORDERS, 1, "orders"))
    for number in range(20):
        await partition.append(finished(number, epoch=number // 10), step_ms=1000)
    await partition.checkpoint()
    await partition.append([updated(0, 2), updated(1, 2), updated(1, 3)], step_ms=1000)


async def others(backend: MetadataStorageBackend) -> None:
    old = StoredPartition(backend, TopicIdPartition(OLD_ORDERS, 0, "orders"))
    await old.open(time_ms=TIME_MS - 1000)
    empty = await StoredPartition.led(backend, TopicIdPartition(EMPTY, 0, HOSTILE))
    await empty.close()
    gone = await StoredPartition.led(backend, TopicIdPartition(GONE, 0, "gone"))
    await gone.append(finished(0))
    await gone.append([PartitionDeleteUpdated(state, 1, 5) for state in (0, 1, 2)])


def invoke(*arguments: object, **given: Any) -> Result:  # noqa: ANN401 - As CliRunner has it.
    return CliRunner().invoke(app, [str(one) for one in arguments], **given)


def run(store: Path, *arguments: object, **given: Any) -> Result:  # noqa: ANN401
    return invoke(*arguments, "--store", f"sqlite:{store}", **given)


def refused(result: Result, *messages: str, status: int = 2) -> None:
    """Assert that the command refused with `status`: no output, and one line of error."""
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    (line,) = [one for one in result.stderr.splitlines() if not one.startswith("note: ")]
    assert line.startswith("error: ")
    assert all(one in line for one in messages), line


def in_process(
    *arguments: object, **variables: str
) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run the command in a process of its own; also returns the modules that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", SAYS_WHAT_IT_LOADS, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | variables,
    )
    return done, set(done.stderr.splitlines()[-1].split())


def rows_in(folder: Path) -> list[Any]:
    """The rows of a table that a command has written as JSON."""
    parts = [path.read_text() for path in folder.glob("part-*")]
    return [json.loads(line) for part in parts for line in part.splitlines()]


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
