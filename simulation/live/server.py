"""A server that runs another project's program, on loopback and in a folder of its own."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from weakref import WeakSet

STOP_TIMEOUT_S = 120.0
"""Kafka's own metadata manager waits 30 s for a record that is under way when it closes."""
POLL_S = 0.02
QUICK_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java that runs for seconds: it would use half of them for better code."""
PORTS = range(20_000, 32_000)
"""Below Linux's for outgoing connections (from 32,768), above Ray's workers' (to 19,999)."""
_CLAIMED = ExitStack()
"""Until this process ends."""
STARTED: WeakSet[LiveServer] = WeakSet()
"""The servers that this process has started; they may have ended."""


class LiveServer(ABC):
    """One process; a context manager that starts it and leaves neither it nor a file behind."""

    name: ClassVar[str]
    """The server's name for people, and in the folder's name."""

    ready_timeout_s = 60.0
    """How long a start may take on a busy machine."""

    def __init__(self) -> None:
        self.port = free_ports()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0
        """Where in the log the text of the last start begins."""

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix=f"tierledger-{self.name}-"))
        try:
            self._prepare()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def folder(self) -> Path:
        """The folder of everything that the server keeps."""
        assert self._folder is not None, "enter the server first"
        return self._folder

    @property
    def pid(self) -> int:
        """The server's first process."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since; it may be frozen."""
        return self._process is not None

    def log(self) -> str:
        """The text of the server's log."""
        return self._log.read_text(errors="replace")

    def said(self) -> str:
        """What the server has logged since it was started last."""
        return self._log.read_bytes()[self._began :].decode(errors="replace")

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    # What each kind of server defines.

    @abstractmethod
    def _prepare(self) -> None:
        """Fill the server's new folder."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command that starts the server on its folder.

        Raises:
            RuntimeError: It is not installed; the message tells how to install it.
        """

    @abstractmethod
    def _is_up(self) -> bool:
        """Whether the server serves; asked repeatedly while it starts."""

    def _account(self) -> dict[str, Any]:
        """Arguments of `subprocess` that start the server under another account."""
        return {}

    # Its process.

    def start(self) -> None:
        """Start the server on its folder; returns once it serves.

        Raises:
            RuntimeError: It is not installed, or did not come up; quotes the end of its log.
        """
        assert self._process is None, "the server runs already"
        command = self._command()
        with self._log.open("ab") as log:
            self._began = log.tell()
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._account(),
            )
        STARTED.add(self)
        deadline = time.monotonic() + self.ready_timeout_s
        while process.poll() is None and time.monotonic() < deadline:
            if self._is_up():
                return
            time.sleep(POLL_S)
        self.kill()
        raise RuntimeError(f"{self.name} did not start: {self.log()[-4000:]}")

    def send(self, what: signal.Signals) -> None:
        """Send the server's first process a signal that does not end it."""
        self._running().send_signal(what)

    def freeze(self) -> None:
        """Stop the server's process: connections stay open, nothing answers."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the server's process continue."""
        self.send(signal.SIGCONT)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server by a signal; its data stays.

        Raises:
            RuntimeError: It did not end and was killed; quotes the end of its log.
        """
        if self._process is None:
            return
        self.thaw()
        self.send(how)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.name} did not end: {self.log()[-4000:]}") from None
        self._process = None

    def kill(self) -> None:
        """Kill the server, like a power cut; `start` restarts it on the same data."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def remove(self) -> None:
        """Kill the server and remove its folder."""
        self.kill()  # Nobody will read its data.
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process


def free_ports(count: int = 1) -> int:
    """The first of `count` ports in a row on loopback, for this process's servers alone.

    No process listens on them, and no other caller gets them while this process lives: the
    UDP ports of the same numbers, held open, say so. A port that the system chooses would be
    no one's once it is let go, and the next outgoing connection may have it.
    """
    while True:
        first = random.choice(PORTS[:-count])
        with ExitStack() as claims:
            try:
                for port in range(first, first + count):
                    claims.enter_context(_claim(port))
            except OSError:
                continue
            _CLAIMED.enter_context(claims.pop_all())
            return first


def _claim(port: int) -> socket.socket:
    """The UDP port of a number; `OSError` if it is taken, or the TCP port is."""
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claim.bind(("127.0.0.1", port))
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        claim.close()
        raise
    return claim
