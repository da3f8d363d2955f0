"""Spark's own Connect server on this machine, on loopback."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self

from typing_extensions import override

from tests.models.spark.processes import SPARK_HOME, SparkProcesses, said
from tierledger.simulation.live.server import QUICK_JAVA

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

DEFAULTS = {
    "spark.master": "local[2]",
    "spark.driver.extraJavaOptions": " ".join(QUICK_JAVA),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.connect.progress.reportInterval": "50ms",
    "spark.log.level": "INFO",  # With this it says its port.
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class ConnectServer(SparkProcesses):
    """A server that runs during the block."""

    def __init__(self, folder: Path) -> None:
        """Keep its log and its tables below `folder`."""
        super().__init__(folder, DEFAULTS | {"spark.sql.warehouse.dir": f"{folder}/warehouse"})
        self.url = ""
        """The value for `--master`."""

    @property
    @override
    def environment(self) -> dict[str, str]:
        """With this Python, as the documents say how a server gets it."""
        given = {**super().environment, "PYSPARK_PYTHON": sys.executable}
        given.pop("PYSPARK_DRIVER_PYTHON", None)  # Of a session in this process.
        return given

    @override
    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.write_defaults()
            submit = str(SPARK_HOME / "bin" / "spark-submit")
            log = self.start("server", submit, "--class", SERVER, "spark-internal")
            port = said(log, r"Spark Connect server started at: .*:(\d+)\n")
            self.url = f"sc://127.0.0.1:{port}"
        except BaseException:
            self.close()
            raise
        return self
