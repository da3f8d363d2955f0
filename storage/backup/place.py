"""Where backups are: files whose names have the digest of what is in them.

Rule: a file gets its name when it is whole and durable, and is never changed. So a file that is
read is the one that was written, or it is refused by its name.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, RejectedError
from tierledger.storage.durable_files import add_durably, is_unfinished, remove_unfinished

DIGEST_BYTES = 16

_DIGEST = re.compile(r"-([0-9a-f]{32})\.[a-z]+", re.ASCII)


class BackupPlace(Protocol):
    """Keeps files by name. Every method raises `OSError`, or as its store does."""

    async def names(self) -> list[str]:
        """The names of all files, also of those that are no backup's."""
        ...

    async def read(self, name: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` if there is none."""
        ...

    async def write(self, name: str, data: bytes) -> None:
        """Write a file, which appears when it is whole and durable."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a file, which may be gone already."""
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

    async def names(self) -> list[str]:
        return await asyncio.to_thread(self._names)

    async def read(self, name: str) -> bytes:
        return await asyncio.to_thread((self.path / name).read_bytes)

    async def write(self, name: str, data: bytes) -> None:
        await asyncio.to_thread(add_durably, self.path / name, data)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread((self.path / name).unlink, missing_ok=True)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """The folder, which is made if its parent is there, for one writer.

        Raises:
            InvalidArgument: There is no such place.
            RejectedError: Another process writes to it.
        """
        try:
            self.path.mkdir(exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise InvalidArgument(f"cannot write to {self}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RejectedError(f"another process writes to {self}") from None
            await asyncio.to_thread(remove_unfinished, self.path)
            yield
        finally:
            os.close(descriptor)

    def _names(self) -> list[str]:
        try:
            found = [one.name for one in self.path.iterdir()]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InvalidArgument(f"{self} is no folder with backups") from error
        return sorted(name for name in found if not is_unfinished(name))
