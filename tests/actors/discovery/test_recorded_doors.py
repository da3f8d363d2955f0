"""The service's record has the doors of its hosts, also after changes."""

import asyncio

import pytest

from tierledger.actors.discovery.recorded_doors import Doors, RecordedDoors
from tierledger.actors.discovery.service_record import (
    ServiceRecord,
    record_change,
    record_of,
    stored_record,
)
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import this_process
from tierledger.storage.backend import AtomicConflict
from tierledger.storage.backends.memory import MemoryBackend

SETTINGS = ServiceSettings("c", {"metadata.storage.url": "memory:"})
RECORD = record_of(SETTINGS, "h:1", this_process(), 1)
OLD: Doors = (("host-0/1", "h:1", "one"),)
NEW: Doors = (("host-0/2", "h:2", "two"),)


async def publish(backend: MemoryBackend, record: ServiceRecord | None) -> None:
    await backend.execute_atomically([record_change(SETTINGS, record)])


async def doors_in(backend: MemoryBackend) -> Doors | None:
    record, _ = await stored_record(backend, SETTINGS)
    return None if record is None else record.doors


async def until_says(backend: MemoryBackend, wanted: Doors) -> None:
    async with asyncio.timeout(30):
        while await doors_in(backend) != wanted:  # noqa: ASYNC110 - A store tells nobody.
            await asyncio.sleep(0.01)


async def test_the_record_follows_the_hosts_and_what_others_write() -> None:
    backend, doors = MemoryBackend(), [OLD]
    keeping = asyncio.create_task(RecordedDoors(SETTINGS, backend, lambda: doors[0]).keep())
    await publish(backend, RECORD)

    await until_says(backend, OLD)
    doors[0] = NEW
    await until_says(backend, NEW)
    await publish(backend, RECORD._replace(doors=OLD))  # As a frozen coordinator may.
    await until_says(backend, NEW)
    keeping.cancel()
    await asyncio.wait([keeping])

    record, _ = await stored_record(backend, SETTINGS)
    assert record == RECORD._replace(doors=NEW)


async def test_a_record_that_was_withdrawn_is_not_brought_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = MemoryBackend()
    await publish(backend, RECORD)
    write = backend.execute_atomically

    async def withdrawn_before(operations: list[object]) -> None:
        await write([record_change(SETTINGS, None)])
        await write(operations)  # type: ignore[arg-type]

    monkeypatch.setattr(backend, "execute_atomically", withdrawn_before)

    with pytest.raises(AtomicConflict):
        await RecordedDoors(SETTINGS, backend, lambda: NEW).write(NEW)

    assert await doors_in(backend) is None
    await RecordedDoors(SETTINGS, backend, lambda: NEW).write(NEW)
    assert (await stored_record(backend, SETTINGS))[0] is None


async def test_a_store_that_fails_is_written_to_later(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    failures = [AtomicConflict("k", "mismatch"), OSError("a bug of its driver")]  # type: ignore[arg-type]
    await publish(backend, RECORD)
    write = backend.execute_atomically

    async def failing(operations: list[object]) -> None:
        if failures:
            raise failures.pop()
        await write(operations)  # type: ignore[arg-type]

    monkeypatch.setattr(backend, "execute_atomically", failing)
    keeping = asyncio.create_task(RecordedDoors(SETTINGS, backend, lambda: NEW).keep())

    await until_says(backend, NEW)
    assert not failures
    keeping.cancel()
    await asyncio.wait([keeping])
