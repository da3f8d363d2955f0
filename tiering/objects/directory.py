"""Operations on a directory as object store that the store's client lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tierledger.events.errors import StorageUnavailable
from tierledger.storage.durable_files import flush

_UNFINISHED = re.compile(r".*#[0-9]+", re.DOTALL)
"""Names of files that the client has not finished; the client's lists leave them out."""


class ListedName(NamedTuple):
    """An object in a list of the whole store."""

    path: str
    size: int
    last_modified: datetime
    e_tag: str | None


def walked(root: Path, below: str) -> Iterator[ListedName]:
    """All finished files in the folder `below`, by paths from `root`.

    Raises:
        StorageUnavailable: A folder cannot be listed, or a file not be looked at.
    """
    for folder, _, files in os.walk(root / below, onerror=_unless_gone):
        for name in files:
            if _UNFINISHED.fullmatch(name) is not None:
                continue
            path = Path(folder, name)
            try:
                found = path.stat()
            except OSError as error:
                _unless_gone(error)
                continue  # Deleted meanwhile.
            text = os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace")
            modified = datetime.fromtimestamp(found.st_mtime, UTC)
            yield ListedName(text, found.st_size, modified, None)


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise StorageUnavailable(f"cannot be listed: {error}") from error


def sync_folder(root: Path, folder: Path) -> None:
    """Fsync all files below `folder`, then every directory from it up to `root`.

    Raises:
        StorageUnavailable: A file or directory cannot be synced.
    """
    folders = [folder, *(one for one in folder.parents if one.is_relative_to(root))]
    try:
        for path in [*(one for one in sorted(folder.rglob("*")) if one.is_file()), *folders]:
            flush(path)
    except OSError as error:
        raise StorageUnavailable(f"{folder}: cannot be made durable: {error}") from error


def sync_removal(root: Path, folder: Path) -> None:
    """Make removals from `folder` durable, and its own removal if it is gone.

    Raises:
        StorageUnavailable: A directory cannot be synced.
    """
    path = folder
    try:
        # The entry of a removed directory was in the lowest directory that still exists.
        while not _is_flushed(path) and path != root:
            path = path.parent
    except OSError as error:
        raise StorageUnavailable(f"{folder}: cannot be made durable: {error}") from error


def _is_flushed(folder: Path) -> bool:
    try:
        flush(folder)
    except FileNotFoundError:
        return False
    return True


def remove_unfinished(root: Path, folder: Path) -> None:
    """Remove unfinished files in `folder`, and empty folders from there up to `root`.

    Raises:
        StorageUnavailable: A file cannot be removed.
    """
    # The client writes to `<name>#<number>` first. If it is killed, that file stays.
    try:
        for path in list(folder.glob("*#*")):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageUnavailable(f"{folder}: cannot be tidied: {error}") from error
    for one in (folder, *folder.parents):
        if one == root:
            return
        try:
            one.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # Not empty.
            return
