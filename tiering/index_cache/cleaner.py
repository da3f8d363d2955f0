"""Removes files in the background, so that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tierledger.tiering.index_cache.threads import to_its_end

if TYPE_CHECKING:
    from tierledger.tiering.index_cache.files import CacheDirectory, SegmentKey

RENAMES_AT_ONCE: Final = 20
"""Renames between which nobody else's turn comes: together a millisecond or two."""


class FileCleaner:
    """A task that runs while there is something to remove.

    A file that keeps its name, or cannot be removed, is told to `failed` and left to the next
    start of the cache.
    """

    def __init__(self, files: CacheDirectory, failed: Callable[[OSError], None]) -> None:
        self._files = files
        self._failed = failed
        self._given_up: dict[SegmentKey, None] = {}
        """Their files still have their names. Those are taken away between two steps of the
        event loop, not in a thread, which could take away a file that has just been kept."""
        self._nameless: list[Path] = []
        self._task: asyncio.Task[None] | None = None

    def give_up(self, key: SegmentKey) -> None:
        """Have the file of `key` removed soon, unless `spare` is quicker."""
        self._given_up[key] = None
        self._start()

    def spare(self, key: SegmentKey) -> None:
        """Keep the file of `key`: it is a new one."""
        self._given_up.pop(key, None)

    def add(self, paths: Iterable[Path]) -> None:
        """Have `paths` removed soon, which have no name in the cache."""
        self._nameless.extend(paths)
        self._start()

    async def drain(self) -> None:
        """Return when all that was added has been tried."""
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
