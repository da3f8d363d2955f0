"""A terminal on which commands run."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROMPT = b"[y/N]: "

SILENT_S = 30
"""A command that shows nothing for so long is killed."""

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Shown(NamedTuple):
    """What a terminal showed when the command ended."""

    lines: list[str]
    """Without styles, and without spaces at the end."""
    raw: str
    status: int


def on_terminal(
    *argv: object, columns: int, store: object, typed: str = "", **more: str
) -> Shown:
    """Run the command on a terminal that is `columns` wide and has 40 lines.

    `typed` is typed at its prompt; `more`: further variables of its environment.
    """
    child, terminal = pty.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # As a login's shell has it.
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {**os.environ, "TIERLEDGER_STORE": f"sqlite:{store}", "TERM": "xterm"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        environment |= more
        command = [sys.executable, "-m", "tierledger.cli.main", *map(str, argv)]
        os.execve(sys.executable, command, environment)
    seen = bytearray()
    with suppress(OSError):  # So a terminal ends whose last process has gone.
        while True:
            if not select.select([terminal], [], [], SILENT_S)[0]:
                os.kill(child, signal.SIGKILL)  # It waits for somebody.
            seen += os.read(terminal, 65536)
            if typed and PROMPT in seen:
                _await_read(child)
                os.write(terminal, typed.encode())
                typed = ""
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    raw = seen.decode()
    return Shown([one.rstrip() for one in _STYLE.sub("", raw).splitlines()], raw, status)


def _await_read(child: int) -> None:
    """Return when the command's main thread waits for its terminal.

    A signal that arrives between the prompt and the read is noted by Python, which then reads
    all the same: nobody types so fast.
    """
    until = time.monotonic() + SILENT_S
    while time.monotonic() < until:
        state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        if state != "R":
            return
        time.sleep(0.001)  # Another process's state can only be looked at.
