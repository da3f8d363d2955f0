"""Writes files so that after a crash each is there as it was or as it is, and never a part."""

from __future__ import annotations

import os
import re
from pathlib import Path
from secrets import token_hex
from typing import Final

TEMPORARY_SUFFIX: Final = ".tmp"

_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{16}\.unfinished", re.ASCII)


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
    unfinished = path.with_name(f".{token_hex(8)}.unfinished")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    flush(path.parent)


def is_unfinished(name: str) -> bool:
    """Whether a killed `add_durably` has left a file of that name."""
    return _UNFINISHED.fullmatch(name) is not None


def remove_unfinished(folder: Path) -> None:
    """Remove from `folder` what killed calls of `add_durably` have left."""
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
