"""A service in this process that clients find through its store, as with `serve`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.models.actors.local_world import LocalWorld, sqlite_in
from tierledger.actors.discovery.recorded_doors import Doors, RecordedDoors
from tierledger.actors.discovery.service_record import ServiceRecord, record_change, record_of
from tierledger.actors.door.security.settings import DoorSecurity
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import this_process

NOBODY = "127.0.0.1:1"
"""The address of the Ray cluster in the record; nothing listens there."""


def settings_of(world: LocalWorld) -> ServiceSettings:
    security = world.door.security if world.door else DoorSecurity()
    return ServiceSettings(world.cluster, world.storage, security=security)


async def put_record(world: LocalWorld, record: ServiceRecord | None) -> None:
    change = record_change(settings_of(world), record)
    await world.service.coordinator.backend.execute_atomically([change])


async def publish(world: LocalWorld, doors: Doors | None = None) -> ServiceRecord:
    """Write the service's record, with `doors` or the doors where it listens."""
    record = record_of(settings_of(world), NOBODY, this_process(), 1)
    record = record._replace(doors=doors or world.service.coordinator.listening())
    await put_record(world, record)
    return record


@asynccontextmanager
async def published(
    folder: Path,
    hosts: int = 1,
    security: DoorSecurity | None = None,
    **more: Any,  # noqa: ANN401 - As of `LocalWorld`.
) -> AsyncIterator[LocalWorld]:
    """A service that listens on free ports and keeps its record up to date with its hosts."""
    world = LocalWorld(sqlite_in(folder), hosts, **more)
    world.door = DoorSettings("127.0.0.1:0", security=security)
    await world.start()
    coordinator = world.service.coordinator
    await publish(world)
    doors = RecordedDoors(settings_of(world), coordinator.backend, coordinator.listening)
    keeping = asyncio.create_task(doors.keep())
    try:
        yield world
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await world.stop()
