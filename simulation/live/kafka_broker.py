"""A real Kafka broker: one process with both roles, on loopback, in its own folder.

tests/kafka_broker/pom.xml names what it consists of; `scripts/setup.sh --with-java` fetches it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tierledger.simulation.live.postgres_server import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

JARS = Path(__file__).parents[2] / ".venv" / "kafka"
OLDEST = JARS.with_name("kafka-3.9.1")
"""The oldest release that the plugin is for."""
PLUGIN = Path(__file__).parents[2] / "kafka-plugin" / "target"
"""What `scripts/setup.sh --with-plugin` builds: the jar, and the classes of its tests."""
PLUGIN_JAR = PLUGIN / "tierledger-kafka-plugin.jar"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

READY = "Kafka Server started"
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.05

_LOGGING = """\
<Configuration status="off">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class KafkaBroker:
    """A broker; a context manager that starts it and removes everything."""

    java: tuple[str, ...] = (
        "java",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-XX:TieredStopAtLevel=1",
    )
    """What starts soonest, not what serves fastest."""

    def __init__(self, settings: Mapping[str, object] | None = None, jars: Path = JARS) -> None:
        """`settings`: beyond those that all tests need, or in place of them; none: left out.

        `jars`: the release that it is of.
        """
        self.jars = jars
        self.settings = dict(settings or {})
        self.port, self.controller_port = free_port(), free_port()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if not (self.jars / ".key").exists() or shutil.which("java") is None:
            raise RuntimeError(
                f"the Kafka broker is not in {self.jars}, or there is no Java: "
                "run scripts/setup.sh --with-java, which installs both or says how to"
            )
        self._folder = Path(tempfile.mkdtemp(prefix="tierledger-kafka-"))
        try:
            (self.folder / "log4j2.xml").write_text(_LOGGING)
            (self.folder / "server.properties").write_text(self._properties())
            self._format()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    @property
    def folder(self) -> Path:
        assert self._folder is not None, "enter the broker first"
        return self._folder

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def logs(self) -> Path:
        """The broker's log folder: one folder for each partition, with its segments."""
        return self.folder / "data"

    def log(self) -> str:
        """What the broker wrote."""
        return (self.folder / "server.log").read_text(errors="replace")

    def _properties(self) -> str:
        lines: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.logs,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "auto.create.topics.enable": "false",
            # Recorded times are old, and none of what is produced may go.
            "log.retention.ms": -1,
        }
        given = (lines | self.settings).items()
        return "".join(f"{key}={value}\n" for key, value in given if value is not None)

    def _command(self, *words: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        return [*self.java, logging, "-cp", f"{self.jars}/*", *words]

    def _format(self) -> None:
        config = str(self.folder / "server.properties")
        done = subprocess.run(
            self._command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", config),
            capture_output=True,
            text=True,
            timeout=READY_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the broker's folder: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start its process on its folder, and return once it serves."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self.folder / "server.properties")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        deadline = time.monotonic() + READY_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            if READY in self.log():
                return
            time.sleep(POLL_S)
        raise RuntimeError(f"the broker did not come up:\n{self.log()[-4000:]}")

    def restart(self, how: signal.Signals) -> None:
        """End its process by a signal, and start it again on its folder, with a new log."""
        self.stop(how)
        (self.folder / "server.log").unlink()
        self.start()

    def send(self, what: signal.Signals) -> None:
        """Send its process a signal that does not end it."""
        assert self._process is not None, "start the broker first"
        self._process.send_signal(what)

    def stop(self, how: signal.Signals) -> None:
        """End its process by a signal; what it has stays."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(STOP_TIMEOUT_S)

    def _remove(self) -> None:
        self.stop(signal.SIGKILL)
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None
