"""Removes files in the background, so that nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.tiering.index_cache_threads import to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class FileCleaner:
    """A task that runs while there is something to remove.

    A file that cannot be removed is told to `failed` and left to the next start of the cache.
    """

    def __init__(
        self, remove: Callable[[Path], None], failed: Callable[[OSError], None]
    ) -> None:
        """Remove with `remove`, which may block and raise `OSError`."""
        self._remove = remove
        self._failed = failed
        self._doomed: list[Path] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, paths: Iterable[Path]) -> None:
        """Have `paths` removed soon."""
        self._doomed.extend(paths)
        if self._doomed and self._task is None:
            self._task = asyncio.create_task(self._run(), name="remote-log-index-cleaner")

    async def drain(self) -> None:
        """Return when all that was added has been tried."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._doomed:
                paths, self._doomed = self._doomed, []
                for error in await to_its_end(self._remove_each, paths):
                    self._failed(error)
        finally:
            self._task = None

    def _remove_each(self, paths: list[Path]) -> list[OSError]:
        errors = []
        for path in paths:
            try:
                self._remove(path)
            except OSError as error:
                errors.append(error)
        return errors
