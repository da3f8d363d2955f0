"""Removes files in the background, so that no caller of the cache waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tierledger.tiering.index_cache.threads import to_its_end

if TYPE_CHECKING:
    from tierledger.tiering.index_cache.files import CacheDirectory, CacheKey

RENAMES_AT_ONCE: Final = 20
"""Renames in one step of the event loop: together they block it a millisecond or two."""


class FileCleaner:
    """A task that runs while there is something to remove.

    A file that cannot be renamed or removed is reported to `failed`, and stays until the next
    start of the cache.
    """

    def __init__(self, files: CacheDirectory, failed: Callable[[OSError], None]) -> None:
        self._files = files
        self._failed = failed
        self._given_up: dict[CacheKey, None] = {}
        """Segments whose files still have their names. They are renamed on the event loop and
        not in a thread, which could hit a new file that the cache has just put in place."""
        self._nameless: list[Path] = []
        self._task: asyncio.Task[None] | None = None

    def give_up(self, key: CacheKey) -> None:
        """Have the file of `key` removed soon, unless `spare` is called first."""
        self._given_up[key] = None
        self._start()

    def spare(self, key: CacheKey) -> None:
        """Do not remove the file of `key`: a new one took the name of the old."""
        self._given_up.pop(key, None)

    def add(self, paths: Iterable[Path]) -> None:
        """Have `paths` removed soon: files that the cache does not use."""
        self._nameless.extend(paths)
        self._start()

    async def drain(self) -> None:
        """Wait until the removal of every added file has been tried."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _start(self) -> None:
        if self._task is None and (self._given_up or self._nameless):
            self._task = asyncio.create_task(self._run(), name="remote-log-index-cleaner")

    async def _run(self) -> None:
        try:
            while self._given_up or self._nameless:
                self._take_names()
                paths, self._nameless = self._nameless, []
                for error in await to_its_end(self._remove_each, paths):
                    self._failed(error)
        finally:
            self._task = None

    def _take_names(self) -> None:
        for key in list(islice(self._given_up, RENAMES_AT_ONCE)):
            del self._given_up[key]
            try:
                doomed = self._files.doom(key)
            except OSError as error:
                self._failed(error)
            else:
                self._nameless.extend([doomed] if doomed else [])

    def _remove_each(self, paths: list[Path]) -> list[OSError]:
        errors = []
        for path in paths:
            try:
                self._files.remove(path)
            except OSError as error:
                errors.append(error)
        return errors
