"""Spark's own processes on this machine, all on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.02


class SparkProcesses(ExitStack):
    """Processes that run during the block; it ends only those that it started."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Keep logs below `folder`; `settings` are Spark's in each process."""
        super().__init__()
        self.folder = folder
        self._settings = settings

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for a process of Spark."""
        own = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",  # As Spark's own scripts set it.
        }
        return {**os.environ, **own}

    def write_defaults(self) -> None:
        """Write the settings where the processes look for them."""
        lines = (f"{name} {value}\n" for name, value in self._settings.items())
        (self.folder / "spark-defaults.conf").write_text("".join(lines))

    def start(self, name: str, *command: str) -> Path:
        """Start a process; returns the file with its output."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.callback(_end, process)
        return log


def said(log: Path, pattern: str) -> str:
    """Wait until the log matches `pattern`; returns the first group."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, f"expected {pattern!r} in:\n{log.read_text()}"
        time.sleep(POLL_S)
    return found[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process by SIGTERM, so that a worker ends its executors; then kill its group."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
