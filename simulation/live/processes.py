"""Processes of this machine by pid: which still run, which started which, and their end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress

from tierledger.actors import processes
from tierledger.actors.processes import Process, parent_of

POLL_S = 0.02
GONE_TIMEOUT_S = 20.0


def is_running(pid: int) -> bool:
    """Whether the process runs, or is frozen."""
    return Process.of(pid) is not None


def children(parent: int) -> list[int]:
    """The running processes that `parent` started itself."""
    return [pid for pid in descendants(parent) if parent_of(pid) == parent]


def descendants(root: int) -> list[int]:
    """All running processes that `root` started, directly or indirectly."""
    return [one.pid for one in processes.descendants([root])]


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send the processes a signal; those that are gone already are ignored."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(pids: Iterable[int]) -> None:
    """SIGKILL the processes; those that are gone already are ignored."""
    signal_all(pids, signal.SIGKILL)


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
