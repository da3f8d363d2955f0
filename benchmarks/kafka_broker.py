"""A real Kafka broker: one process with both roles, on loopback, in its own folder.

tests/kafka_broker/pom.xml names its jars; `scripts/setup.sh --with-java` fetches them.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from tierledger.simulation.live.server import QUICK_JAVA, LiveServer, free_ports

JARS = Path(__file__).parents[1] / ".venv" / "kafka"
TIER = JARS.with_name("kafka-tier")
"""Kafka's tier in a folder; some releases are published without it."""
OLDEST = JARS.with_name("kafka-3.9.1")
"""The oldest release that the plugin supports."""
SUITE = JARS.with_name("kafka-suite")
"""The newest release that is published with Kafka's own tests (tests/kafka/suite)."""
PLUGIN = Path(__file__).parents[1] / "kafka-plugin" / "target"
"""What `scripts/setup.sh --with-plugin` builds: the jar, and the classes of its tests."""
PLUGIN_JAR = PLUGIN / "tierledger-kafka-plugin.jar"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

READY = "Kafka Server started"

SHORT_SESSION = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
"""Settings with which a broker that was killed may register again soon."""

_LOGGING = """\
<Configuration status="off">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%p %c{1} %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class KafkaBroker(LiveServer):
    """A broker; a context manager that starts it and removes everything."""

    java: tuple[str, ...] = ("java", "-Xmx512m", *QUICK_JAVA)
    """Options for a fast start, not for fast service."""

    name = "kafka"
    ready_timeout_s = 120.0

    def __init__(self, settings: Mapping[str, object] | None = None, jars: Path = JARS) -> None:
        """`settings`: beyond those that all tests need, or in their place; none leaves one out.

        `jars`: of the broker's release.
        """
        super().__init__()
        self.jars = jars
        self.settings = dict(settings or {})
        self.formatting: tuple[str, ...] = ()
        """Further options for formatting the broker's folder."""
        self.disks: tuple[str, ...] = ("data",)
        """The broker's log folders (`log.dirs`)."""
        self.controller_port = free_ports()

    @override
    def _prepare(self) -> None:
        if not (self.jars / ".key").exists() or shutil.which("java") is None:
            raise RuntimeError(
                f"the Kafka broker is not in {self.jars}, or there is no Java: "
                "run scripts/setup.sh --with-java, which installs both or says how to"
            )
        (self.folder / "log4j2.xml").write_text(_LOGGING)
        self.configure()
        self._format()

    def configure(self) -> None:
        """Write the broker's settings to its folder; they hold from its next start on."""
        (self.folder / "server.properties").write_text(self._properties())

    @property
    def address(self) -> str:
        """The host and port that the broker listens on."""
        return f"127.0.0.1:{self.port}"

    @property
    def logs(self) -> Path:
        """The broker's first log folder: one folder for each partition, with its segments."""
        return self.folder / self.disks[0]

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
            "log.dirs": ",".join(str(self.folder / one) for one in self.disks),
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "auto.create.topics.enable": "false",
            # Recorded times are old, and produced records must stay.
            "log.retention.ms": -1,
        }
        given = (lines | self.settings).items()
        return "".join(f"{key}={value}\n" for key, value in given if value is not None)

    def _java(self, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        return [*self.java, logging, "-cp", f"{self.jars}/*:{TIER}/*", *arguments]

    def _format(self) -> None:
        config = str(self.folder / "server.properties")
        done = subprocess.run(
            self._java(
                *("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", config),
                *self.formatting,
            ),
            capture_output=True,
            text=True,
            timeout=self.ready_timeout_s,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the broker's folder: {done.stdout}{done.stderr}")

    @override
    def _command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self.folder / "server.properties"))

    @override
    def _is_up(self) -> bool:
        return READY in self.said()

    def restart(self, how: signal.Signals) -> None:
        """End the process by a signal, and start it again on its folder, with a new log."""
        self.stop(how)
        self._log.unlink()
        self.start()
