"""Plugins of Kafka brokers, in a Java process that calls them as brokers do."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierledger.benchmarks.kafka_broker import JARS, PLUGIN, PLUGIN_JAR
from tierledger.events.identifiers import Uuid
from tierledger.simulation.live.server import QUICK_JAVA

KAFKAS = {"oldest": PLUGIN / "kafka-3.9.1", "newest": JARS}
"""Brokers' classes of the oldest and of the newest release that the plugin supports."""

EACH_KAFKA = [pytest.param("oldest", marks=pytest.mark.long), "newest"]
"""Parameters of fixtures. `make test` tries the oldest release with a real broker only."""

CLASS = "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
TOPIC = "orders"
TOPIC_ID = Uuid(TOPIC.encode().ljust(16, b"."))
RETRIED = ("ReplicaNotAvailableException", "IllegalStateException")
"""Exceptions after which brokers retry a question or a write."""

ONCE = {"found": "lookup", "moved": "move"}
"""By the name of a question that is retried, the same question asked once."""


LOG4J = """\
<Configuration status="off">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="%p %c %m%n%ex"/>
  </Console></Appenders>
  <Loggers><Root level="{level}"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


def log_level(folder: Path, level: str) -> str:
    """The Java option that sets the plugins' log level; writes its file into `folder`."""
    file = folder / "log4j2.xml"
    file.write_text(LOG4J.format(level=level))
    return f"-Dlog4j2.configurationFile={file}"


class Plugins:
    """Plugins of several brokers in one Java process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def open(self, broker: int, cluster_id: str, doors: str, **more: object) -> str:
        """Create the plugin of a broker, with further settings; returns the answer."""
        settings = {"cluster.id": cluster_id, "tierledger.bootstrap": doors, **more}
        given = " ".join(f"{key}={value}" for key, value in settings.items())
        return await self.say(f"{broker} open {CLASS} {given}")

    async def ask(self, question: str) -> str:
        """The answer of a broker's plugin, or the name of its exception.

        Managers.java names the questions. In addition, `found` and `moved` are a lookup and a
        move that are retried as brokers do, and `copy` adds and finishes further segments after
        the last.
        """
        broker, command, *rest = question.split()
        if command in ONCE:
            question = " ".join((broker, ONCE[command], *rest))
            while (answer := await self.ask(question)) in RETRIED:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            return answer
        if command == "copy":
            highest = int(await self.ask(f"{broker} highest {rest[0]}"))
            rest = [
                rest[0],
                "1",
                str(highest // 10 + 1),
                rest[1],
                "1",
                "COPY_SEGMENT_FINISHED",
            ]
            command = "write"
        if rest and command != "metric":
            rest = [TOPIC, *rest]
        answer = await self.say(" ".join((broker, command, *rest)))
        if answer.startswith("failed "):
            return answer.split()[1]
        return {"ready": "ready", "write": "done"}.get(command, answer)

    async def say(self, line: str) -> str:
        """The unchanged answer of the Java process to a line."""
        return await asyncio.to_thread(self._say, line)

    def _say(self, line: str) -> str:
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def started(jars: Path, *options: str, log: Path | None = None) -> Iterator[Plugins]:
    """Plugins on the classes of a Kafka release, in a process with these Java options.

    Raises:
        RuntimeError: Java or the plugin is missing; the message tells what to do.
    """
    if not PLUGIN_JAR.exists() or shutil.which("java") is None:
        raise RuntimeError(
            f"{PLUGIN_JAR} or Java is missing: run scripts/setup.sh --with-plugin"
        )
    path = f"{PLUGIN / 'test-classes'}:{PLUGIN_JAR}:{jars / '*'}"
    java = ["java", "-Xmx256m", *QUICK_JAVA, *options]
    command = [*java, "-cp", path, "org.tierledger.kafka.Managers"]
    stderr = log.open("w") if log else None
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:
        try:
            yield Plugins(process)
            assert process.stdin is not None, "it is a pipe"
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()  # A plugin that was not closed may keep it running.
            if stderr:
                stderr.close()
