"""A table as files: in a folder that gets its name when all of them are complete.

What stood there before is kept until then, so a job that fails leaves it as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from tierledger.events.errors import InvalidArgument

FORMATS = ("parquet", "csv", "json")
"""What a table can be written as."""

OF_SPARK = ("part-", "_SUCCESS", "_temporary", ".part-", "._SUCCESS", "._temporary")
"""How names begin that Spark gives to files of a table."""


@contextmanager
def place(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write into, which becomes `out` when the block ends well.

    Raises:
        InvalidArgument: There is something that is not to be replaced, or no place for it.
    """
    require_place(out, overwrite=overwrite)
    place = Path(os.path.realpath(out))  # What a link leads to is replaced, not the link.
    # Of two jobs that write at once, each has its own.
    unfinished = place.with_name(f"{place.name}.{token_hex(8)}.unfinished")
    try:
        yield unfinished
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
    """Refuse a folder that cannot be written, before the work that is to fill it.

    Raises:
        InvalidArgument: It is there and not to be replaced, holds what is no table, or its own
            folder is missing.
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
    """Something in `folder` that no table consists of."""
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
