"""Small files that are replaced as a whole, and survive a crash in the old or the new form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".tmp"


def replace_durably(path: Path, data: bytes) -> None:
    """Let `path` hold `data`; on disk on return. Blocks for one or two flushes."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Let a file's bytes, or what was made, renamed or removed in a folder, survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
