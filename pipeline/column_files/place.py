"""Where a store's column files are: a folder.

Rule: a file has the digest of its bytes in its name, and gets that name when it is whole and
durable. So a file that is read is the one that was written, or it is not used.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.storage.connector import CONNECTOR_SETTING, URL_SETTING, setting
from tierledger.storage.durable_files import add_durably, remove_unfinished
from tierledger.storage.locate import default_store_url, parse_store_url

COLUMNS_SETTING = "metadata.storage.columns.url"
"""The setting of a store that says where its column files are."""

BESIDE = ".columns"
"""What follows the name of a SQLite file in the name of the folder of its column files."""

SCHEME = "dir:"

DIGEST_BYTES = 16

Note: TypeAlias = "Callable[[str], None]"
"""Takes a sentence about files that are not used."""


def warn(text: str) -> None:
    """A note for programs, and for whoever reads what Spark's workers print."""
    warnings.warn(text, stacklevel=2)


_NAME = re.compile(r"(\d{8})-([0-9a-f]{32})\.parquet", re.ASCII)


class UnusableFile(Exception):
    """A column file that is not there, or is not what was written; the log has all it had."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} {why}")
        self.name = name


def file_name(number: int, data: bytes) -> str:
    """The name of the file with `data`; files that were written later have higher numbers."""
    return f"{number:08d}-{_digest(data)}.parquet"


def number_of(name: str) -> int:
    """The number in the name of a column file."""
    return int(name[:8])


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


class ColumnPlace:
    """A folder with column files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def __str__(self) -> str:
        return f"{SCHEME}{self._folder}"

    def names(self) -> list[str]:
        """The names of the files, in the order in which they were written.

        Raises:
            OSError: The folder cannot be listed; not if there is none.
        """
        try:
            return sorted(
                one.name for one in self._folder.iterdir() if _NAME.fullmatch(one.name)
            )
        except FileNotFoundError:
            return []

    def end_of(self, name: str, size: int) -> tuple[bytes, int]:
        """At most the last `size` bytes of a file, and how many it has.

        Raises:
            UnusableFile: It cannot be read.
        """
        try:
            with (self._folder / name).open("rb") as file:
                whole = file.seek(0, 2)
                file.seek(max(0, whole - size))
                return file.read(size), whole
        except OSError as error:
            raise UnusableFile(name, f"cannot be read: {error.strerror}") from error

    def read(self, name: str) -> bytes:
        """The bytes of a file, which are what was written.

        Raises:
            UnusableFile: It cannot be read, or has other bytes.
        """
        try:
            data = (self._folder / name).read_bytes()
        except OSError as error:
            raise UnusableFile(name, f"cannot be read: {error.strerror}") from error
        if _digest(data) != name[9:41]:
            raise UnusableFile(name, "is damaged: its bytes do not have the digest in its name")
        return data

    def write(self, number: int, data: bytes) -> str:
        """Write a file, which appears when it is durable; its name.

        Raises:
            OSError: The system refused; nothing is left.
        """
        self._folder.mkdir(exist_ok=True)
        name = file_name(number, data)
        add_durably(self._folder / name, data)
        return name

    def remove(self, name: str) -> None:
        """Remove a file, which may be gone already."""
        (self._folder / name).unlink(missing_ok=True)

    def remove_unfinished(self) -> None:
        """Remove what killed writers have left, and the folder if nothing else is in it."""
        with suppress(FileNotFoundError):
            remove_unfinished(self._folder)
        with suppress(OSError):
            self._folder.rmdir()


def column_place(config: Mapping[str, object]) -> ColumnPlace | None:
    """Where the column files of a store with settings `config` are; None if it has none.

    Raises:
        InvalidArgument: The setting is no place for them.
    """
    url = setting(config, COLUMNS_SETTING)
    if url is not None:
        return _named(url)
    beside = _beside(config)
    return ColumnPlace(beside) if beside is not None and beside.is_dir() else None


def place_to_write(config: Mapping[str, object]) -> ColumnPlace:
    """Where to write column files; for a SQLite file by default a folder beside it.

    Raises:
        InvalidArgument: The setting is no place for them, or the store has no default.
    """
    url = setting(config, COLUMNS_SETTING)
    if url is not None:
        return _named(url)
    beside = _beside(config)
    if beside is None:
        raise InvalidArgument(
            f"expected where the column files are, as {SCHEME}DIR: a store that is no SQLite "
            "file has no default"
        )
    return ColumnPlace(beside)


def _named(url: str) -> ColumnPlace:
    folder = url.removeprefix(SCHEME)
    if not url.startswith(SCHEME) or not folder or "\0" in folder:
        raise InvalidArgument(
            f"expected where the column files are, as {SCHEME}DIR; got {url!r}"
        )
    return ColumnPlace(Path(folder).expanduser().absolute())


def _beside(config: Mapping[str, object]) -> Path | None:
    if setting(config, CONNECTOR_SETTING) is not None:
        return None  # What the URL means is its own affair.
    url = setting(config, URL_SETTING)
    path = (default_store_url() if url is None else parse_store_url(url)).path
    return None if path is None else path.with_name(path.name + BESIDE)
