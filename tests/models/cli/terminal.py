"""A terminal on which commands run."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from contextlib import suppress
from typing import NamedTuple

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Shown(NamedTuple):
    """What a terminal showed when the command ended."""

    lines: list[str]
    """Without styles, and without spaces at the end."""
    raw: str
    status: int


def on_terminal(*argv: object, columns: int, store: object, **more: str) -> Shown:
    """Run the command on a terminal that is `columns` wide and has 40 lines.

    `more`: further variables of its environment.
    """
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {**os.environ, "TIERLEDGER_STORE": f"sqlite:{store}", "TERM": "xterm"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        environment |= more
        command = [sys.executable, "-m", "tierledger.cli.main", *map(str, argv)]
        os.execve(sys.executable, command, environment)
    seen = bytearray()
    with suppress(OSError):  # So a terminal ends whose last process has gone.
        while part := os.read(terminal, 65536):
            seen += part
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    raw = seen.decode()
    return Shown([one.rstrip() for one in _STYLE.sub("", raw).splitlines()], raw, status)
