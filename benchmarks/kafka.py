"""Kafka's own remote log metadata manager in a stock broker, compared with ours.

Both managers run in one Java process, as in a broker. A side of a comparison notes its samples
under the manager's name: `ours_ready`, `kafkas_ready`.
"""

import asyncio
import os
import statistics
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.kafka_broker import JARS, PLUGIN, PLUGIN_JAR, TIER, KafkaBroker
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.services import (
    OUTSTANDING,
    PARTITIONS,
    new_partition,
    on_ray,
    quantile,
)
from tierledger.benchmarks.workload import CLUSTER, LEADER_EPOCHS

KAFKAS_CLASS = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
OUR_CLASS = "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
BROKERS = {"kafkas": 2, "ours": 1}
"""The broker id of each manager, in the order of measuring."""

HEAP = "-Xmx6g"
LOGGED_MAX = 4_000
"""Characters of the process's log in an error."""

FINISHED = "COPY_SEGMENT_FINISHED"
PLENTY = 1_000_000
"""The first of the segment numbers that no other measurement uses."""

MEMORY = Path("/dev/shm")  # noqa: S108 - A folder of our own in it.
"""A folder in which a store's fsync costs nothing; Kafka's topic does not fsync either."""

LIST_EPOCH = LEADER_EPOCHS // 2
"""A leader epoch with a tenth of the segments."""


class BenchBroker(KafkaBroker):
    """A broker with options for speed, where tests want a fast start."""

    java: tuple[str, ...] = ("java", "-Xmx2g")


class Managers:
    """The Java process; Managers.java lists its commands."""

    def __init__(self, broker: KafkaBroker, doors: str, coordinator: CoordinatorHandle) -> None:
        """`broker` holds the topic of Kafka's manager; the others are of our service."""
        self.coordinator = coordinator
        self._broker = broker
        self._log = broker.folder / "managers.log"
        self._process: subprocess.Popen[str] | None = None
        kafkas = {
            "remote.log.metadata.topic.replication.factor": 1,
            "remote.log.metadata.topic.min.isr": 1,
            "remote.log.metadata.common.client.bootstrap.servers": broker.address,
            "log.dir": broker.folder,
        }
        self._settings: dict[str, tuple[str, dict[str, object]]] = {
            "ours": (OUR_CLASS, {"tierledger.bootstrap": doors}),
            "kafkas": (KAFKAS_CLASS, kafkas),
        }

    def __enter__(self) -> Self:
        path = f"{PLUGIN / 'test-classes'}:{PLUGIN_JAR}:{JARS / '*'}:{TIER / '*'}"
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

    async def open(self, name: str, *, warm: bool = True) -> None:
        kind, settings = self._settings[name]
        given = {"cluster.id": CLUSTER} | settings
        await self.ask(name, "open", kind, *(f"{key}={given[key]}" for key in given))
        if warm:
            await self.lead(name, "warm")


@asynccontextmanager
async def managers(store: Path) -> AsyncIterator[Managers]:
    """The Java process, a service on the store at `store`, and a broker with an empty topic.

    Raises:
        RuntimeError: Java, the broker's jars or the plugin's is missing; tells how to get it.
    """
    if not PLUGIN_JAR.exists():
        raise RuntimeError(f"{PLUGIN_JAR} is not there: `make plugin` builds it")
    with BenchBroker() as broker:
        async with on_ray(url_of(store)) as service:
            coordinator = service.connection.coordinator
            await coordinator.ask(Handover(Owner.TIERLEDGER, Owner.NOBODY))
            doors = ",".join((await coordinator.ask(DoorsCall())).values())
            with Managers(broker, doors, coordinator) as both:
                yield both


async def calls(bench: Bench) -> None:
    """Writes of one leader, singly and many at once, and of a thousand leaders at once."""
    async with managers(bench.new_store("kafka-calls")) as both:
        await both.open("kafkas", warm=False)
        bench.say("Kafka's manager: adds, segments, a topic's deletion, leaders")
        await _called(both, "kafkas", bench, bench["kafka_calls"] // 10)
        await both.ask("kafkas", "forget")
        await both.open("ours", warm=False)
        bench.say("tierledger: the same")
        await _called(both, "ours", bench, bench["kafka_calls"])
    if not os.access(MEMORY, os.W_OK):
        bench.say(f"{MEMORY} is not there: no figures of a store that does not fsync")
        return
    with tempfile.TemporaryDirectory(prefix="tierledger-bench-", dir=MEMORY) as folder:
        async with managers(Path(folder) / "store.sqlite") as both:
            await both.open("ours", warm=False)
            await _called(both, "ours", bench, bench["kafka_calls"], "unsynced")


async def _called(
    both: Managers, name: str, bench: Bench, calls: int, noted: str | None = None
) -> None:
    noted = noted or name
    await both.lead(name, "calls", count=PARTITIONS)
    many = (bench["kafka_many"], OUTSTANDING)
    await both.write(name, "calls", PLENTY, calls // 4)  # Warms up the JVM.
    await both.write(name, "calls", 2 * PLENTY, *many, partitions=PARTITIONS)
    _, *took = await both.write(name, "calls", 0, calls)
    outstanding, *_ = await both.write(name, "calls", 3 * PLENTY, *many, partitions=PARTITIONS)
    lifecycle, *_ = await both.write(name, "calls", 4 * PLENTY, calls // 4, state=FINISHED)
    await both.lead(name, "deleted")
    medium = bench["medium"]
    await both.write(name, "deleted", 0, medium, OUTSTANDING, state=FINISHED)
    deleted, count = await both.figures(name, "delete", "deleted", 0)
    assert count == medium, f"{count} segments were deleted, of {medium}"
    bench.note(**{
        f"{noted}_mean": statistics.fmean(took) * 1e3,
        f"{noted}_p99": quantile(took, 0.99) * 1e3,
        f"{noted}_many": outstanding / bench["kafka_many"] * 1e6,
        f"{noted}_life": lifecycle / (calls // 4) * 1e3,
        f"{noted}_deleted": deleted,
        f"{noted}_leaders": await both.lead(name, "leaders", count=bench["announced"]),
    })  # fmt: skip


async def one(bench: Bench) -> None:
    """A broker's replica of one large partition, and two smaller ones for the same lookups."""
    sizes = {"small": 1_000, "middle": 100_000, "large": bench["segments"]}
    topics = {
        topic: size
        for topic, size in sizes.items()
        if size < bench["segments"] or topic == "large"
    }
    path = bench.new_store("kafka-one")
    for topic, size in topics.items():
        await bench.build(path, size, new_partition(topic))
    async with managers(path) as both:
        await _copy(both, dict.fromkeys(topics, 1))
        answers = {}
        for name in BROKERS:
            bench.say(f"{name}: one large partition")
            await both.open(name)
            answers[name] = await _held(both, name, bench, topics)
            await both.ask(name, "forget")
    assert answers["ours"] == answers["kafkas"], answers
    bench.note(**answers["ours"])


async def _held(
    both: Managers, name: str, bench: Bench, topics: Mapping[str, int]
) -> dict[str, float]:
    """Note one manager's times and its heap; returns what both must agree in."""
    [empty] = await both.figures(name, "heap")
    ready = await both.lead(name, "large")
    [full] = await both.figures(name, "heap")
    heap = (full - empty) / bench["segments"]
    bench.note(**{f"{name}_ready": ready, f"{name}_heap": heap})
    for topic in topics:
        if topic != "large":
            await both.lead(name, topic)
    for topic in topics:
        ns, _ = await both.figures(name, "lookups", topic, 0, bench["lookups"])
        bench.note(**{f"{name}_lookup_{topic}": ns * 1e9})
    agreed = {}
    for what, question, *epoch in (
        ("list", "lists", LIST_EPOCH),
        ("all", "lists"),
        ("size", "sizes", LIST_EPOCH),
    ):
        seconds, found = await both.figures(name, question, "large", 0, *epoch)
        bench.note(**{f"{name}_{what}": seconds * 1e6})
        agreed[f"{what}_of"] = found
    beside = int(await both.ask(name, "beside", "large", 0))
    bench.note(**{f"{name}_added": await both.lead(name, "large", beside)})
    return agreed


async def many(bench: Bench) -> None:
    """The same number of segments, spread over many partitions."""
    count = bench["kafka_partitions"]
    each = bench["segments"] // count
    bench.note(each=each)
    path = bench.new_store("kafka-many")
    for number in range(count):
        if number % 100 == 0:
            bench.say(f"building {count:,} partitions: {number * 100 // count} %")
        await bench.build(path, each, new_partition("many", number))
    async with managers(path) as both:
        await _copy(both, {"many": count})
        for name in BROKERS:
            bench.say(f"{name}: {count:,} partitions")
            await both.open(name)
            bench.note(**{f"{name}_ready": await both.lead(name, "many", count=count)})
            await both.ask(name, "forget")


async def _copy(both: Managers, topics: Mapping[str, int]) -> None:
    """Copy the service's history to Kafka's topic."""
    await both.open("kafkas")  # Creates the topic.
    await both.ask("kafkas", "forget")
    await both.open("ours", warm=False)
    for topic, partitions in topics.items():
        await both.lead("ours", topic, count=partitions)
        await both.copy(topic, partitions)
    await both.ask("ours", "forget")
