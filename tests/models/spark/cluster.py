"""Spark's own standalone cluster on this machine: a master and workers, all on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from typing_extensions import override

from tests.models.spark.processes import SPARK_HOME, SparkProcesses, said
from tierledger.simulation.live.server import QUICK_JAVA

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


class StandaloneCluster(SparkProcesses):
    """A cluster that runs during the block."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        """Keep logs and the executors' files below `folder`."""
        super().__init__(folder, DEFAULTS)
        self._workers = workers
        self.url = ""
        """The value for `--master`."""

    @override
    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.write_defaults()
            log = self._started("master", MASTER)
            self.url = said(log, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                name = f"worker-{number}"
                place = ("--work-dir", str(self.work_folder(number)))
                size = ("--cores", "1", "--memory", "1g")
                log = self._started(name, WORKER, *size, *place, self.url)
                said(log, "(Successfully registered with master)")
        except BaseException:
            self.close()
            raise
        return self

    def work_folder(self, worker: int) -> Path:
        return self.folder / f"work-{worker}"

    def tasks_done(self, worker: int) -> int:
        """The number of tasks of all drivers that the worker's executors have finished."""
        logs = self.work_folder(worker).glob("app-*/*/stderr")
        return sum(log.read_text().count("Finished task ") for log in logs)

    def _started(self, name: str, program: str, *arguments: str) -> Path:
        java = ("java", "-Xmx256m", *QUICK_JAVA, "-cp", f"{SPARK_HOME}/jars/*")
        return self.start(name, *java, program, *ON_LOOPBACK, *arguments)
