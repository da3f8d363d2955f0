"""Plugins of Kafka brokers, in a Java process that asks them what brokers do."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tierledger.events.identifiers import Uuid
from tierledger.simulation.live.kafka_broker import JARS, PLUGIN, PLUGIN_JAR

KAFKAS = {"oldest": PLUGIN / "kafka-3.9.1", "newest": JARS}
"""Classes of brokers, from the oldest to the newest that the plugin is for."""

CLASS = "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
TOPIC = "orders"
TOPIC_ID = Uuid(TOPIC.encode().ljust(16, b"."))
RETRIED = ("ReplicaNotAvailableException", "IllegalStateException")
"""What brokers repeat a question for."""


LOG4J = """\
<Configuration status="off">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="%p %c %m%n%ex"/>
  </Console></Appenders>
  <Loggers><Root level="{level}"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


def log_level(folder: Path, level: str) -> str:
    """The option of Java by which plugins log so much, with a file in `folder`."""
    file = folder / "log4j2.xml"
    file.write_text(LOG4J.format(level=level))
    return f"-Dlog4j2.configurationFile={file}"


class Plugins:
    """Plugins of several brokers in one Java process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def open(self, broker: int, cluster_id: str, doors: str, **more: object) -> str:
        """Make the plugin of a broker, with more settings."""
        settings = {"cluster.id": cluster_id, "tierledger.bootstrap": doors, **more}
        given = " ".join(f"{key}={value}" for key, value in settings.items())
        return await self.say(f"{broker} open {CLASS} {given}")

    async def ask(self, question: str) -> str:
        """What a broker's plugin answers, or the exception; Managers.java names the questions.

        Beside those: `ready` and `found` (a lookup) wait until there is an answer, and `copy`
        adds and finishes so many segments behind those that are there.
        """
        broker, command, *words = question.split()
        if command == "found":
            question = " ".join((broker, "lookup", *words))
            while (found := await self.ask(question)) in RETRIED:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            return found
        if command == "copy":
            highest = int(await self.ask(f"{broker} highest {words[0]}"))
            words = [
                words[0],
                "1",
                str(highest // 10 + 1),
                words[1],
                "1",
                "COPY_SEGMENT_FINISHED",
            ]
            command = "write"
        if words and command != "metric":
            words = [TOPIC, *words]
        answer = await self.say(" ".join((broker, command, *words)))
        if answer.startswith("failed "):
            return answer.split()[1]
        return {"ready": "ready", "write": "done"}.get(command, answer)

    async def say(self, line: str) -> str:
        """The answer to a line, as it is."""
        return await asyncio.to_thread(self._say, line)

    def _say(self, line: str) -> str:
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def started(jars: Path, *options: str, log: Path | None = None) -> Iterator[Plugins]:
    """Plugins on the classes of a Kafka, in their process with those options of Java.

    Raises:
        RuntimeError: Java or the plugin is missing; it says what to do.
    """
    if not PLUGIN_JAR.exists() or shutil.which("java") is None:
        raise RuntimeError(
            f"{PLUGIN_JAR} or Java is missing: run scripts/setup.sh --with-plugin"
        )
    path = f"{PLUGIN / 'test-classes'}:{PLUGIN_JAR}:{jars / '*'}"
    command = ["java", "-Xmx256m", *options, "-cp", path, "org.tierledger.kafka.Managers"]
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
            process.kill()  # A plugin that was not closed may keep it.
            if stderr:
                stderr.close()
