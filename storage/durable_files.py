"""Replaces small files atomically: after a crash a file has its old or its new contents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".tmp"


def replace_durably(path: Path, data: bytes) -> None:
    """Replace the contents of `path` by `data`, durably. Blocks for one or two flushes."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Make durable a file's contents, or a folder's new, renamed and removed entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
