"""Processes of this machine as Linux lists them: which still run, and their parents."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

POLL_S = 0.02
GONE_TIMEOUT_S = 20.0

ENDED = "Z"
"""State of a process that ended and that its parent has not reaped."""


class _Stat(NamedTuple):
    state: str
    parent: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may contain anything.
    state, parent = text.rpartition(")")[2].split()[:2]
    return _Stat(state, int(parent))


def is_running(pid: int) -> bool:
    """Whether the process runs, or is frozen."""
    stat = _stat(pid)
    return stat is not None and stat.state != ENDED


def parent_of(pid: int) -> int:
    """The parent of a process, which may have adopted it; 0 if the process is gone."""
    stat = _stat(pid)
    return 0 if stat is None else stat.parent


def descendants(root: int) -> list[int]:
    """All running processes that `root` started, directly or indirectly."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    parents = {pid: parent_of(pid) for pid in pids}
    found: set[int] = set()
    while grown := {pid for pid, of in parents.items() if of in {root, *found}} - found:
        found |= grown
    return sorted(pid for pid in found if is_running(pid))


def end_all(pids: Iterable[int]) -> None:
    """SIGKILL the processes; those that are gone already are ignored."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until_gone(pids: Collection[int], timeout_s: float = GONE_TIMEOUT_S) -> None:
    """Return once none of `pids` runs any more.

    Raises:
        TimeoutError: One still runs; the message names it.
    """
    deadline = time.monotonic() + timeout_s
    while left := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected these processes to end: {left}")
        time.sleep(POLL_S)
