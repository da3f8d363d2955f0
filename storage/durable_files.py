"""Writes files so that after a crash each is there as it was or as it is, and never a part."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Final

TEMPORARY_SUFFIX: Final = ".tmp"

_UNFINISHED: Final = re.compile(r"\.(.*)\.[0-9a-f]{16}\.unfinished", re.ASCII)


def replace_durably(path: Path, data: bytes) -> None:
    """Replace the contents of `path` by `data`, durably. Blocks for one or two flushes."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    flush(path.parent)


def add_durably(path: Path, data: bytes) -> None:
    """Write a file that appears at `path` when it is durable.

    Raises:
        OSError: The system refused; nothing is left.
    """
    with _written(path, data) as unfinished:
        unfinished.replace(path)
    flush(path.parent)


def create_durably(path: Path, data: bytes) -> bool:
    """Write a file that appears at `path` when it is durable, if nothing is there.

    Returns whether it was written; of several callers one is told so.

    Raises:
        OSError: The system refused, or has no hard links there; nothing is left.
    """
    with _written(path, data) as unfinished:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return False
    flush(path.parent)
    return True


@contextmanager
def _written(path: Path, data: bytes) -> Iterator[Path]:
    """A file beside `path` with `data`, durable, which is removed if it is still there."""
    unfinished = path.with_name(f".{path.name}.{token_hex(8)}.unfinished")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield unfinished
    finally:
        unfinished.unlink(missing_ok=True)


def is_unfinished(name: str) -> bool:
    """Whether a killed call of this module has left a file of that name."""
    return name_of_unfinished(name) is not None


def name_of_unfinished(name: str) -> str | None:
    """The name that an unfinished file was to get; None: `name` is of none."""
    found = _UNFINISHED.fullmatch(name)
    return None if found is None else found[1]


def remove_unfinished(folder: Path) -> None:
    """Remove from `folder` what killed calls of this module have left."""
    for one in folder.iterdir():
        if is_unfinished(one.name):
            one.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Make durable a file's contents, or a folder's new, renamed and removed entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
