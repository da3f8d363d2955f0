"""Processes of this machine, each distinguished from all others that ever have its pid.

Rule: only this module signals a pid from a record, and only if the process with that pid has
the start time in the record. The system uses pids again, a container even at its next start.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from tierledger.actors.wall_clock import RandomIds
from tierledger.storage.process_log import ProcessLog

PROC = Path("/proc")
BOOT = PROC / "sys" / "kernel" / "random" / "boot_id"
"""Differs after each start of the machine, from which ticks are counted."""

ENDED = "Z"
"""State of a process that has ended, while its parent has not waited for it yet (a zombie)."""

_log = ProcessLog("tierledger.processes")


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    started: str
    """Its start time, in the machine's own form; no other process with the pid has the same."""

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has the pid now; None if there is none that runs."""
        looked = _look(pid)
        return None if looked is None else cls(pid, looked.started)

    @classmethod
    def parse(cls, text: str) -> Process | None:
        """The process of a text that `str` made; None for other texts, as a pid alone."""
        pid, _, started = text.partition(".")
        return cls(int(pid), started) if started and pid.isdecimal() else None

    @override
    def __str__(self) -> str:
        return f"{self.pid}.{self.started}"

    def is_running(self) -> bool:
        """Whether the process has not ended; a frozen process still runs."""
        return Process.of(self.pid) == self

    def signal(self, number: int) -> bool:
        """Send it a signal. False, and nothing is sent, if it has ended or is another user's.

        On Linux a process that gets the pid meanwhile is never signalled.
        """
        handle = None
        try:
            # Open the descriptor first, then check the start time: the descriptor stays with
            # its process, also if the pid is used again.
            handle = _held(self.pid)
            if not self.is_running():
                return False
            if handle is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            _log.warning("a process of another user is left alone", pid=self.pid)
            return False
        finally:
            if handle is not None:
                os.close(handle)
        return True


class _Looked(NamedTuple):
    parent: int
    started: str


def this_process() -> Process:
    """The process that runs this code."""
    process = Process.of(os.getpid())
    assert process is not None, "this process runs"
    return process


def parent_of(pid: int) -> int:
    """The pid of the process's parent; 0 if the process has ended."""
    looked = _look(pid)
    return 0 if looked is None else looked.parent


def descendants(roots: Collection[int]) -> list[Process]:
    """All running processes that `roots` started, directly or not; none without a /proc."""
    looked = {int(one.name): _look(int(one.name)) for one in PROC.glob("[0-9]*")}
    parents = {pid: one.parent for pid, one in looked.items() if one is not None}
    found: set[int] = set()
    while grown := {pid for pid, of in parents.items() if of in {*roots, *found}} - found:
        found |= grown
    return [Process(pid, one.started) for pid in sorted(found) if (one := looked[pid])]


def process_name(address: str, node: str) -> str:
    """A unique name for this process, for logs and records."""
    return f"{address}/{RandomIds().request_id().hex()}/{node}/{this_process()}"


def node_of(name: str) -> str | None:
    """The Ray node in a process's name; None if it runs without Ray."""
    parts = name.split("/")
    return parts[-2] if len(parts) > 3 else None


def process_of(name: str) -> Process | None:
    """The process of that name, on its node; None if the name has no start time.

    Names in older logs end with a pid alone, which another process may have by now.
    """
    return Process.parse(name.rpartition("/")[2])


def _held(pid: int) -> int | None:
    """A descriptor of the process; None if the system has no such descriptors.

    Raises:
        ProcessLookupError: There is no such process.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None  # Not Linux, or not permitted.


def _look(pid: int) -> _Looked | None:
    """Parent and start time of a running process; None also if we may not see it."""
    if not BOOT.exists():
        return _asked(pid)
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name, in parentheses, may contain any characters.
    state, parent, *rest = text.rpartition(")")[2].split()
    started = f"{BOOT.read_text().strip()}.{rest[17]}"
    return None if state == ENDED else _Looked(int(parent), started)


def _asked(pid: int) -> _Looked | None:
    """The same from `ps`, where there is no /proc; the start time is to the second."""
    asked = ["ps", "-o", "stat=", "-o", "ppid=", "-o", "lstart=", "-p", str(pid)]
    fields = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    if not fields or fields[0].startswith(ENDED):
        return None
    return _Looked(int(fields[1]), "-".join(fields[2:]))
