"""Looks now and then when the newest backup was made, beside what is asked of the service."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tierledger.events.errors import RemoteStorageError

if TYPE_CHECKING:
    from tierledger.storage.backup.files import BackupFiles

LOOK_S = 60.0
"""Seconds between two looks at the place."""

_log = logging.getLogger(__name__)


class BackupWatch:
    """When the newest backup at a place was made. For one event loop."""

    def __init__(self, files: BackupFiles) -> None:
        self._files = files
        self._made_s: int | None = None
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")
        self._why: str | None = None

    def made_s(self) -> int | None:
        """When that was, in s since 1970, by the last look; 0 if none has seen a backup.

        A further look is begun if it is due. None: the first has not ended.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked_s >= LOOK_S and (self._looking is None or self._looking.done()):
            self._looked_s = now
            self._looking = asyncio.create_task(self._look())
        return self._made_s

    async def close(self) -> None:
        """End a look that is under way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        try:
            newest = (await self._files.index()).newest
            self._made_s = 0 if newest is None else newest.made_s
            self._why = None
        except (RemoteStorageError, OSError) as error:
            # What was seen stays: if it goes on so, that gets too old.
            self._made_s = self._made_s or 0
            if str(error) != self._why:
                self._why = str(error)
                _log.warning("backups were not seen: %s", error)
