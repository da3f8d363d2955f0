"""Spark's own standalone cluster on this machine: a master and workers, all on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyspark
from typing_extensions import override

from tierledger.simulation.live.server import QUICK_JAVA

SPARK_HOME = Path(pyspark.__file__).parent
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.02

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
ON_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")

DEFAULTS = {
    "spark.driver.extraJavaOptions": " ".join(QUICK_JAVA),
    "spark.executor.extraJavaOptions": " ".join(QUICK_JAVA),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    # No task starts before both executors have registered, so both get tasks.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
}


class StandaloneCluster(ExitStack):
    """A cluster that runs during the block; ends only the processes that it started."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        """Keep logs and the executors' files below `folder`."""
        super().__init__()
        self._folder = folder
        self._workers = workers
        self.url = ""
        """The value for `--master`."""

    @override
    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._write_defaults()
            log = self._start("master", MASTER)
            self.url = _said(log, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                name = f"worker-{number}"
                place = ("--work-dir", str(self.work_folder(number)))
                size = ("--cores", "1", "--memory", "1g")
                log = self._start(name, WORKER, *size, *place, self.url)
                _said(log, "(Successfully registered with master)")
        except BaseException:
            self.close()
            raise
        return self

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for the process of a driver on this cluster."""
        return self._environment()

    def work_folder(self, worker: int) -> Path:
        return self._folder / f"work-{worker}"

    def tasks_done(self, worker: int) -> int:
        """The number of tasks of all drivers that the worker's executors have finished."""
        logs = self.work_folder(worker).glob("app-*/*/stderr")
        return sum(log.read_text().count("Finished task ") for log in logs)

    def _environment(self) -> dict[str, str]:
        own = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self._folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",  # As Spark's own scripts set it.
        }
        return {**os.environ, **own}

    def _write_defaults(self) -> None:
        lines = (f"{name} {value}\n" for name, value in DEFAULTS.items())
        (self._folder / "spark-defaults.conf").write_text("".join(lines))

    def _start(self, name: str, program: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        java = ("java", "-Xmx256m", *QUICK_JAVA, "-cp", f"{SPARK_HOME}/jars/*")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*java, program, *ON_LOOPBACK, *arguments],
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.callback(_end, process)
        return log


def _said(log: Path, pattern: str) -> str:
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
