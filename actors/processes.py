"""Processes of this machine, each told from all others that ever have its pid.

Rule: here alone a signal goes to a pid that was written down, and only while the process which
has it began when that was written down. A pid comes again: in a container at the next start
already.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import structlog
from typing_extensions import override

from tierledger.actors.wall_clock import RandomIds

PROC = Path("/proc")
BOOT = PROC / "sys" / "kernel" / "random" / "boot_id"
"""Another value after each start of the machine; ticks are counted from there."""

ENDED = "Z"
"""State of a process that its parent has not looked after yet."""

_log = structlog.get_logger("tierledger.processes")


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    started: str
    """When it started, as this machine says it: of all that ever have the pid no other did."""

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has the pid now; none if it has ended."""
        looked = _look(pid)
        return None if looked is None else cls(pid, looked.started)

    @classmethod
    def parse(cls, text: str) -> Process | None:
        """What `str` gave; none for what says less, as a pid alone does."""
        pid, _, started = text.partition(".")
        return cls(int(pid), started) if started and pid.isdecimal() else None

    @override
    def __str__(self) -> str:
        return f"{self.pid}.{self.started}"

    def is_running(self) -> bool:
        """Whether it has not ended; a frozen one has not."""
        return Process.of(self.pid) == self

    def signal(self, number: int) -> bool:
        """Send it a signal; false, and nothing was sent, if it has ended or is another user's.

        On Linux no process that gets the pid meanwhile is hit either.
        """
        handle = None
        try:
            # Held first, looked at then: what is held stays this process,
            # also if its pid is used again.
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
    """The one that asks."""
    process = Process.of(os.getpid())
    assert process is not None, "who asks runs"
    return process


def parent_of(pid: int) -> int:
    """Who started the process, or took it over; 0 if it has ended."""
    looked = _look(pid)
    return 0 if looked is None else looked.parent


def descendants(roots: Collection[int]) -> list[Process]:
    """All that they have started, directly or not, and that runs; none where no /proc tells."""
    looked = {int(one.name): _look(int(one.name)) for one in PROC.glob("[0-9]*")}
    parents = {pid: one.parent for pid, one in looked.items() if one is not None}
    found: set[int] = set()
    while grown := {pid for pid, of in parents.items() if of in {*roots, *found}} - found:
        found |= grown
    return [Process(pid, one.started) for pid in sorted(found) if (one := looked[pid])]


def process_name(address: str, node: str) -> str:
    """What this process calls itself in logs: nothing else is ever called so."""
    return f"{address}/{RandomIds().request_id().hex()}/{node}/{this_process()}"


def node_of(name: str) -> str | None:
    """The Ray node in what a process calls itself; none if it runs without Ray."""
    parts = name.split("/")
    return parts[-2] if len(parts) > 3 else None


def process_of(name: str) -> Process | None:
    """The process that calls itself so, on its node; none if the name does not tell it.

    Names in older logs end with a pid alone, which may be another's by now.
    """
    return Process.parse(name.rpartition("/")[2])


def _held(pid: int) -> int | None:
    """A descriptor of the process, where the system has such."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None  # No Linux, or one that does not let us.


def _look(pid: int) -> _Looked | None:
    """What has the pid and has not ended; none also where we may not see it."""
    if not BOOT.exists():
        return _asked(pid)
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name, in parentheses, may hold anything.
    state, parent, *rest = text.rpartition(")")[2].split()
    started = f"{BOOT.read_text().strip()}.{rest[17]}"
    return None if state == ENDED else _Looked(int(parent), started)


def _asked(pid: int) -> _Looked | None:
    """The same where there is no /proc, to the second."""
    asked = ["ps", "-o", "stat=", "-o", "ppid=", "-o", "lstart=", "-p", str(pid)]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    if not said or said[0].startswith(ENDED):
        return None
    return _Looked(int(said[1]), "-".join(said[2:]))
