"""Folders of the Ray clusters that we start: complete while a cluster lives, removed later.

Ray keeps a cluster's sockets and logs in a folder of the temporary directory. It does not see
if they are deleted, and then starts no process any more. We hold a lock on the folder as long
as we live. So cleaners that respect locks (systemd-tmpfiles) spare it, and a later start can
tell the folders of the dead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tierledger.storage.process_log import ProcessLog

MARK = "tierledger"
"""An empty file that distinguishes our clusters' folders from those of others."""

PREFIX = "session_"

NEEDED = ("logs", "sockets/raylet", "sockets/plasma_store")
"""What Ray needs to start a process; what is missing from the start is elsewhere."""

DEAD_KEPT = 1
"""Folders of dead clusters that stay: their logs may tell why the last one died."""

_log = ProcessLog("tierledger.ray")


class RaySession:
    """The folder of a living cluster; locked until this process ends."""

    def __init__(self, folder: Path) -> None:
        self._needed = [one for one in _needed(folder) if one.exists()]
        # Never closed: the lock must not end before the process.
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)
        (folder / MARK).touch()

    def lacks(self) -> Path | None:
        """A file that Ray needs to start processes, and that has been deleted; else None."""
        return next((one for one in self._needed if not one.exists()), None)


def _needed(folder: Path) -> Iterator[Path]:
    yield folder
    yield from (folder / name for name in NEEDED)


def remove_dead(parent: Path) -> None:
    """Remove the folders of our clusters that have died, except for the newest.

    A folder is ours if this user owns it and it has our mark; its cluster is dead if nobody
    holds its lock.
    """
    ours = [one for one in parent.glob(f"{PREFIX}*") if _is_ours(one)]
    dead = [one for one in sorted(ours, key=_changed) if _is_dead(one)]
    for one in dead[: len(dead) - DEAD_KEPT]:
        shutil.rmtree(one, ignore_errors=True)
        _log.info("removed the folder of a dead Ray cluster", folder=str(one))


def _is_ours(folder: Path) -> bool:
    try:
        is_owned = folder.lstat().st_uid == os.getuid()
    except OSError:
        return False  # It is being removed.
    return is_owned and not folder.is_symlink() and (folder / MARK).is_file()


def _changed(folder: Path) -> tuple[float, str]:
    try:
        return (folder / MARK).stat().st_mtime, folder.name
    except OSError:
        return 0.0, folder.name


def _is_dead(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
