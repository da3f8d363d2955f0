"""Operations on a directory as object store that the store's client lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
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


class Unseen(NamedTuple):
    """Names that a list of the whole store lacks, because they could not be listed."""

    first: str
    last: str
    """No name after this one is meant; names are in the order of their characters."""
    reason: str
    """What could not be listed, and why."""

    def may_hold(self, place: str) -> bool:
        """Whether names that begin with `place` may be among them."""
        return place <= self.last and place + _BEHIND_ALL > self.first

    @classmethod
    def below(cls, folder: str, reason: str) -> Unseen:
        """All names in `folder`."""
        return cls(f"{folder}/", f"{folder}/{_BEHIND_ALL}", reason)


_BEHIND_ALL = chr(0x10FFFF)


def walked(root: Path, below: str, on_unseen: Callable[[Unseen], None]) -> Iterator[ListedName]:
    """All finished files in the folder `below`, by paths from `root`.

    Folders that cannot be listed, and files that cannot be looked at, go to `on_unseen`.

    Raises:
        StorageUnavailable: The folder `below` itself cannot be listed.
    """
    top = root / below

    def skip(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return  # Deleted meanwhile.
        path = Path(os.fsdecode(error.filename))
        if path == top:
            raise StorageUnavailable(f"cannot be listed: {error}") from error
        name = _text(path.relative_to(root))
        on_unseen(Unseen.below(name, f"{name}: {error.strerror}"))

    for folder, _, files in os.walk(top, onerror=skip):
        for name in files:
            if _UNFINISHED.fullmatch(name) is not None:
                continue
            path = Path(folder, name)
            try:
                found = path.stat()
            except FileNotFoundError:
                continue  # Deleted meanwhile.
            except OSError as error:
                text = _text(path.relative_to(root))
                on_unseen(Unseen(text, text, f"{text}: {error.strerror}"))
                continue
            modified = datetime.fromtimestamp(found.st_mtime, UTC)
            yield ListedName(_text(path.relative_to(root)), found.st_size, modified, None)


def _text(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


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
