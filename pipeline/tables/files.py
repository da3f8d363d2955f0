"""A table as files, in a folder that gets its name when all files are complete.

A former folder of that name is kept until then, so a failed job leaves it as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from tierledger.events.errors import InvalidArgument, RemoteStorageError

FORMATS = ("parquet", "csv", "json")
"""Formats in which a table can be written."""

OF_SPARK = ("part-", "_SUCCESS", "_temporary", ".part-", "._SUCCESS", "._temporary")
"""Prefixes of the file names that Spark uses in a table's folder."""


@contextmanager
def place(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A path for a new folder, which is renamed to `out` if the block ends without an error.

    Raises:
        InvalidArgument: As `require_place`.
        RemoteStorageError: The block ended without an error, and made no folder.
    """
    require_place(out, overwrite=overwrite)
    place = Path(os.path.realpath(out))  # If `out` is a link, its target is replaced.
    # The name is random, so that two concurrent jobs do not share it.
    unfinished = place.with_name(f"{place.name}.{token_hex(8)}.unfinished")
    try:
        yield unfinished
        if not unfinished.is_dir():
            raise RemoteStorageError(
                f"{out} was not written on this machine: expected a folder that Spark's server "
                "and workers share with it"
            )
        require_place(out, overwrite=overwrite)
        try:
            _remove(place)
            unfinished.rename(place)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(out)) from error
    finally:
        if unfinished.is_dir():
            _remove(unfinished)


def require_place(out: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that cannot be written, before the work that fills it.

    Raises:
        InvalidArgument: The folder is not empty and `overwrite` is not set, it holds other
            files than a table's, or its parent is missing.
    """
    if str(out) == "-" or "\0" in str(out):
        raise InvalidArgument(f"cannot write {str(out)!r}: expected a folder")
    if not out.parent.is_dir():
        raise InvalidArgument(f"cannot write {out}: {out.parent} is no folder")
    if not out.exists():
        return
    if not out.is_dir():
        raise InvalidArgument(f"cannot write {out}: it is a file")
    foreign = _foreign(out)
    if foreign is not None:
        raise InvalidArgument(
            f"cannot write {out}: it holds {foreign.name!r}, which is no part of a table"
        )
    if not overwrite and any(out.iterdir()):
        raise InvalidArgument(
            f"cannot write {out}: it is there already (--overwrite replaces it)"
        )


def _foreign(folder: Path) -> Path | None:
    """A file in `folder` that is no part of a table; none if there is none."""
    for found in sorted(folder.iterdir()):
        if not found.name.startswith(OF_SPARK):
            return found
    return None


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    foreign = _foreign(folder) if folder.is_dir() else folder
    if foreign is not None:
        raise InvalidArgument(
            f"cannot replace {folder}: {foreign.name!r} is no part of a table"
        )
    shutil.rmtree(folder)
