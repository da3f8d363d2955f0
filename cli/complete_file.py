"""Files that appear under their names when they are complete, and not before."""

from __future__ import annotations

import gzip
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def complete_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that gets its name, and becomes durable, when the block ends well.

    Raises:
        InvalidArgument: It cannot be written.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        try:
            with unfinished.open("wb") as file:
                if path.suffix == ".gz":
                    # Without name and time: one store gives one file, byte for byte.
                    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                        yield cast("BinaryIO", packed)
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror or error}") from error


def require_place(path: Path) -> None:
    """Refuse a file that surely cannot be written, before the work that is to fill it.

    Raises:
        InvalidArgument: Its folder is none, or it is a folder itself.
    """
    if not path.parent.is_dir():
        raise InvalidArgument(f"cannot write {path}: {path.parent} is no folder")
    if path.is_dir():
        raise InvalidArgument(f"cannot write {path}: it is a folder")
