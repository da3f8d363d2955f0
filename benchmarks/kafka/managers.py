"""Both managers in one Java process, as in a broker, and the service or topic of each."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import NamedTuple, Self

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.benchmarks.on_ray import on_ray
from tierledger.benchmarks.report import Figure, Goal, number
from tierledger.benchmarks.workload import CLUSTER
from tierledger.simulation.live.kafka_broker import JARS, PLUGIN, PLUGIN_JAR, KafkaBroker

KAFKAS_CLASS = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
OUR_CLASS = "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
BROKERS = {"ours": 1, "kafkas": 2}
"""The broker id of each manager."""

HEAP = "-Xmx6g"
LOGGED_MAX = 4_000
"""Characters of the process's log in an error."""


class Broker(KafkaBroker):
    """A broker with options for speed, where tests want a fast start."""

    java: tuple[str, ...] = ("java", "-Xmx2g")


class Managers:
    """The Java process; Managers.java lists its commands."""

    def __init__(self, broker: KafkaBroker, doors: str) -> None:
        """`broker` holds the topic of Kafka's manager; `doors` are those of our service."""
        self._broker = broker
        self._doors = doors
        self._log = broker.folder / "managers.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        path = f"{PLUGIN / 'test-classes'}:{PLUGIN_JAR}:{JARS / '*'}"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                ["java", HEAP, "-cp", path, "org.tierledger.kafka.Managers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None, "it was entered"
        self._process.kill()
        self._process.communicate()

    async def figures(self, name: str, question: str, *arguments: object) -> list[float]:
        """A manager's answer, as numbers."""
        return [float(one) for one in (await self.ask(name, question, *arguments)).split()]

    async def ask(self, name: str, question: str, *arguments: object) -> str:
        """A manager's answer.

        Raises:
            RuntimeError: The command failed; quotes the end of the process's log.
        """
        line = " ".join(map(str, (BROKERS[name], question, *arguments)))
        answer = await asyncio.to_thread(self._ask, line)
        if answer.startswith("failed"):
            logged = self._log.read_text(errors="replace")[-LOGGED_MAX:]
            raise RuntimeError(f"{line}: {answer}\n{logged}")
        return answer

    def _ask(self, line: str) -> str:
        assert self._process is not None, "enter it first"
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return answer.strip() if answer else "failed: the process has ended"

    async def lead(self, name: str, topic: str, first: int = 0, count: int = 1) -> float:
        """Lead partitions; returns the seconds until all of them are ready."""
        await self.ask(name, "lead", topic, first, count)
        [took] = await self.figures(name, "ready", topic, first, count)
        return took

    async def write(
        self,
        name: str,
        topic: str,
        first: int,
        count: int,
        many: int = 1,
        *,
        partitions: int = 1,
        state: str = "COPY_SEGMENT_STARTED",
    ) -> list[float]:
        """Bring segments to `state`, `many` at a time; returns all seconds, then those of each.

        The segments go to the first `partitions` in turn.
        """
        return await self.figures(
            name, "write", topic, 0, partitions, first, count, many, state
        )

    async def copy(self, topic: str, partitions: int) -> None:
        """Copy the history of our partitions, which we lead, to Kafka's topic."""
        await self.ask("ours", "copy", topic, 0, partitions, self._broker.address)

    async def open_ours(self) -> None:
        await self._open("ours", OUR_CLASS, {"tierledger.bootstrap": self._doors})

    async def open_kafkas(self) -> None:
        await self._open(
            "kafkas",
            KAFKAS_CLASS,
            {
                "remote.log.metadata.topic.replication.factor": 1,
                "remote.log.metadata.topic.min.isr": 1,
                "remote.log.metadata.common.client.bootstrap.servers": self._broker.address,
                "log.dir": self._broker.folder,
            },
        )

    async def _open(self, name: str, kind: str, settings: dict[str, object]) -> None:
        given = {"cluster.id": CLUSTER} | settings
        await self.ask(name, "open", kind, *(f"{key}={given[key]}" for key in given))


@asynccontextmanager
async def managers(store: str) -> AsyncIterator[Managers]:
    """The Java process, a service on the store named `store`, and a broker with an empty topic.

    Raises:
        RuntimeError: Java, the broker's jars or the plugin's is missing; tells how to get it.
    """
    if not PLUGIN_JAR.exists():
        raise RuntimeError(f"{PLUGIN_JAR} is not there: `make plugin` builds it")
    with Broker() as broker:
        async with on_ray(store) as service:
            coordinator = service.connection.coordinator
            await coordinator.ask(Handover(Owner.TIERLEDGER, Owner.NOBODY))
            doors = ",".join((await coordinator.ask(DoorsCall())).values())
            with Managers(broker, doors) as both:
                yield both


class Compared(NamedTuple):
    """The cost of the same work in both managers."""

    ours: float
    kafkas: float
    unit: str

    def times_faster(self, name: str, bound: float) -> Figure:
        """How many times as long Kafka's manager takes; the goal is at least `bound`."""
        return self._figure(name, self.kafkas / self.ours, Goal(bound, at_least=True))

    def share(self, name: str, bound: float) -> Figure:
        """Our cost as a share of that of Kafka's manager; the goal is at most `bound`."""
        return self._figure(name, self.ours / self.kafkas, Goal(bound))

    def _figure(self, name: str, value: float, goal: Goal) -> Figure:
        ours, kafkas = (number(one) for one in (self.ours, self.kafkas))
        return Figure(name, value, "x", goal, f"{ours} {self.unit}; Kafka's {kafkas}")
