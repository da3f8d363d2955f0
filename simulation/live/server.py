"""A server of somebody else's program, on loopback and in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

STOP_TIMEOUT_S = 120.0
"""Kafka's own metadata manager waits 30 s for a record that is under way when it closes."""
POLL_S = 0.02


class LiveServer(ABC):
    """One process; a context manager that starts it and leaves neither it nor a file behind."""

    name: ClassVar[str]
    """For people, and in the folder's name."""

    ready_timeout_s = 60.0
    """How long a start may take on a busy machine."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

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
        """Where everything of this server lies."""
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
        """What the server wrote."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    # To be said of each kind of server.

    @abstractmethod
    def _prepare(self) -> None:
        """Fill the new folder."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """What to start on it.

        Raises:
            RuntimeError: It is not installed; says how to.
        """

    @abstractmethod
    def _is_up(self) -> bool:
        """Whether it serves; asked again and again while it starts."""

    def _account(self) -> dict[str, Any]:
        """What `subprocess` has to know to start it under another account."""
        return {}

    # Its process.

    def start(self) -> None:
        """Start it on what the folder holds; returns when it serves.

        Raises:
            RuntimeError: It did not come up, with the end of its log; or it is not installed.
        """
        assert self._process is None, "the server runs already"
        command = self._command()
        with self._log.open("ab") as log:
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._account(),
            )
        deadline = time.monotonic() + self.ready_timeout_s
        while process.poll() is None and time.monotonic() < deadline:
            if self._is_up():
                return
            time.sleep(POLL_S)
        self.kill()
        raise RuntimeError(f"{self.name} did not start: {self.log()[-4000:]}")

    def send(self, what: signal.Signals) -> None:
        """Send its first process a signal that does not end it."""
        self._running().send_signal(what)

    def freeze(self) -> None:
        """Stop it where it is: connections stay open, nothing answers."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal; what it has stays.

        Raises:
            RuntimeError: It did not end, and was killed; with the end of its log.
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
        """End it as a power cut would; `start` brings it back with the same data."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def remove(self) -> None:
        """End it and remove its folder."""
        self.kill()  # Nobody will read what an orderly end would write down.
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
