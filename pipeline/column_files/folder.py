"""Column files in a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from tierledger.pipeline.column_files.place import (
    SCHEME,
    ColumnPlace,
    UnusableFile,
    file_name,
    ordered_names,
)
from tierledger.storage.durable_files import add_durably, remove_unfinished


class ColumnFolder(ColumnPlace):
    """A folder with column files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def __str__(self) -> str:
        return f"{SCHEME}{self._folder}"

    @override
    def names(self) -> list[str]:
        try:
            return ordered_names(one.name for one in self._folder.iterdir())
        except FileNotFoundError:
            return []

    @override
    def end_of(self, name: str, size: int) -> tuple[bytes, int]:
        try:
            with (self._folder / name).open("rb") as file:
                whole = file.seek(0, 2)
                file.seek(max(0, whole - size))
                return file.read(size), whole
        except OSError as error:
            raise UnusableFile(name, f"cannot be read: {error.strerror}") from error

    @override
    def _bytes(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise UnusableFile(name, f"cannot be read: {error.strerror}") from error

    @override
    def write(self, number: int, data: bytes) -> str:
        self._folder.mkdir(exist_ok=True)
        name = file_name(number, data)
        add_durably(self._folder / name, data)
        return name

    @override
    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    @override
    def remove_unfinished(self) -> None:
        with suppress(FileNotFoundError):
            remove_unfinished(self._folder)
        with suppress(OSError):
            self._folder.rmdir()
