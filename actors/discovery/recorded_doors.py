"""Keeps the service's record up to date about where its hosts listen.

Clients find the service by that record. The coordinator rewrites it, since it knows first which
process serves as which host. The record is a hint: a client uses a door only if the process
behind it is the one that the record names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tierledger.actors.discovery.service_record import stored_record
from tierledger.actors.foreign_errors import documenting
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import RemoteStorageError
from tierledger.storage.backend import MetadataStorageBackend, Update
from tierledger.storage.process_log import ProcessLog

CHANGED_S = 0.1
"""How often to check in memory whether hosts have come or gone."""

LOOK_S = 1.0
"""How often to read the record itself: another coordinator, or a new start of the service, may
have written something else."""

_log = ProcessLog("tierledger.coordinator")

Doors = tuple[tuple[str, str, str], ...]
"""As in the record, for each host: its address, its door, and the name of its process."""


class RecordedDoors:
    """Writes the result of `doors` into the service's record when it changes."""

    def __init__(
        self,
        settings: ServiceSettings,
        backend: MetadataStorageBackend,
        doors: Callable[[], Doors],
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._doors = doors

    async def keep(self) -> None:
        """Check and write until cancelled; failed writes are retried."""
        loop = asyncio.get_running_loop()
        known: Doors | None = None
        looked = loop.time()
        while True:
            doors = self._doors()
            if doors and (doors != known or loop.time() - looked >= LOOK_S):
                looked = loop.time()
                try:
                    with documenting("the service's record"):
                        await self.write(doors)
                    known = doors
                except RemoteStorageError as error:
                    _log.debug("where hosts listen is not recorded yet", error=str(error))
            await asyncio.sleep(CHANGED_S)

    async def write(self, doors: Doors) -> None:
        """Write `doors` into the record, if there is a record.

        Raises:
            RemoteStorageError: It was not written, or the write is in doubt.
        """
        record, stored = await stored_record(self._backend, self._settings)
        if record is None or record.doors == doors:
            return
        key = self._settings.connector().key_factory(self._settings.cluster_id).service()
        known = list(record._replace(doors=doors))
        # Only if the record is still the one that was read. This neither overwrites the record
        # of a service that was started meanwhile, nor restores that of one that has ended.
        value = self._settings.serde().serialize("service", known)
        await self._backend.execute_atomically([Update(key, value, stored)])
