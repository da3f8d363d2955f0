"""Where backups are: files by name, in a folder, or in a bucket (`tiering/backup_bucket.py`).

Rule: a file gets its name when it is whole and durable, and is never changed. Most names have
the digest of what is in them, so a file that is read is the one that was written, or it is
refused by its name.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, RejectedError
from tierledger.storage.durable_files import add_durably, create_durably

DIGEST_BYTES = 16

_DIGEST = re.compile(r"-([0-9a-f]{32})\.[a-z]+", re.ASCII)


class BackupPlace(Protocol):
    """Keeps files by name. Every method raises `OSError`, or as its store does."""

    async def prepare(self) -> None:
        """Make the place, if it can be made and is not there.

        Raises:
            InvalidArgument: It cannot.
        """
        ...

    async def sizes(self) -> dict[str, int]:
        """The bytes of all files by name, also of those that are no backup's or unfinished.

        Raises:
            InvalidArgument: There is no such place.
        """
        ...

    async def read(self, name: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` if there is none."""
        ...

    async def write(self, name: str, data: bytes) -> None:
        """Write a file, which appears when it is whole and durable."""
        ...

    async def create(self, name: str, data: bytes) -> bool:
        """Write a file as `write` does, unless there is one; whether it was written."""
        ...

    async def remove(self, names: Iterable[str]) -> None:
        """Remove files, which may be gone already."""
        ...


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def checked(name: str, data: bytes) -> bytes:
    """`data` of the file `name`, which are what was written.

    Raises:
        CorruptRemoteData: They are not.
    """
    found = _DIGEST.search(name)
    if found is None or digest(data) != found[1]:
        raise CorruptRemoteData(
            f"{name} is damaged: its {len(data)} bytes do not have the digest in its name"
        )
    return data


class Folder:
    """A folder of files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @override
    def __str__(self) -> str:
        return str(self.path)

    async def prepare(self) -> None:
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"cannot write to {self}: {error.strerror}") from error

    async def sizes(self) -> dict[str, int]:
        return await asyncio.to_thread(self._sizes)

    async def read(self, name: str) -> bytes:
        return await asyncio.to_thread((self.path / name).read_bytes)

    async def write(self, name: str, data: bytes) -> None:
        try:
            await asyncio.to_thread(add_durably, self.path / name, data)
        except FileNotFoundError:
            # Who has made a backup removes what only a slower one could still need.
            raise RejectedError(
                f"{name} was removed from {self} while it was written: expected that no other "
                "process makes a backup there"
            ) from None

    async def create(self, name: str, data: bytes) -> bool:
        try:
            return await asyncio.to_thread(create_durably, self.path / name, data)
        except FileNotFoundError:
            return False  # Removed as above: somebody else was faster.

    async def remove(self, names: Iterable[str]) -> None:
        await asyncio.to_thread(self._remove, names)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def _sizes(self) -> dict[str, int]:
        found = {}
        try:
            with os.scandir(self.path) as entries:
                for one in entries:
                    with suppress(FileNotFoundError):  # It was removed meanwhile.
                        found[one.name] = one.stat().st_size
            return found
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InvalidArgument(f"{self} is no folder with backups") from error
