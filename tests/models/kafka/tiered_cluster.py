"""Three stock brokers with a controller of their own; each broker can be killed."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import RecordsToDelete  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped] # No types.
from aiokafka.conn import create_conn  # type: ignore[import-untyped] # It has no types.
from aiokafka.errors import KafkaError  # type: ignore[import-untyped] # It has no types.

from tests.models.kafka.clients import (
    WAIT_S,
    administered,
    consumed,
    create_topic,
    produced,
    producing,
)
from tests.models.kafka.log_dirs_request import log_dirs_request
from tests.models.kafka.reassignment_request import reassignment_request
from tests.models.kafka.tiered_broker import TIERED, TieredBroker
from tierledger.benchmarks.kafka_broker import SHORT_SESSION, KafkaBroker

BROKERS = (1, 2, 3)
CONTROLLER = 100

REQUEST_MS = 5000
"""Timeout of a request; after it a client of a frozen broker asks another broker."""

PACE_S = 0.1
"""Seconds between two records of a continuous producer: a segment or two each second."""

DURABLE = {"acks": "all", "request_timeout_ms": REQUEST_MS}

QUICK = {
    **SHORT_SESSION,
    "replica.lag.time.max.ms": 3000,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
}


class TieredCluster:
    """A context manager that starts controller and brokers, and at its end removes them."""

    def __init__(
        self,
        service: str,
        tier: Path,
        settings: Mapping[str, object] | None = None,
        disks: tuple[str, ...] = ("data",),
    ) -> None:
        """`service`: the service's address, where it must listen when this is entered.

        `settings`: settings of the brokers in addition to those of `TieredBroker`. `disks`: the
        log folders of each broker.
        """
        self._tier = tier
        self.controller = KafkaBroker()
        voters = f"{CONTROLLER}@127.0.0.1:{self.controller.controller_port}"
        self.controller.settings = {
            "process.roles": "controller",
            "node.id": CONTROLLER,
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://127.0.0.1:{self.controller.controller_port}",
            "advertised.listeners": None,
            "remote.log.storage.system.enable": "true",  # Else no tiered topics.
        }
        self.brokers = {one: TieredBroker(service, tier, settings) for one in BROKERS}
        for number, broker in self.brokers.items():
            broker.disks = disks
            broker.settings |= {
                **QUICK,
                "process.roles": "broker",
                "node.id": number,
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{broker.address}",
            }
        self._running = ExitStack()
        self.dead: set[int] = set()

    def __enter__(self) -> Self:
        try:
            self._running.enter_context(self.controller)
            with ThreadPoolExecutor() as threads:
                for broker in self.brokers.values():
                    self._running.push(broker)
                    threads.submit(broker.__enter__)
            for broker in self.brokers.values():
                broker.log()  # Fails unless the broker has started.
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    @property
    def bootstrap(self) -> list[str]:
        """The addresses of all brokers, dead ones included."""
        return [broker.address for broker in self.brokers.values()]

    def kill(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        self.dead.add(number)
        self.brokers[number].stop(how)

    async def replace(self, number: int) -> None:
        """Start a dead broker again on empty disks."""
        broker = self.brokers[number]
        for disk in broker.disks:
            for one in (broker.folder / disk).iterdir():
                if one.name != "meta.properties":
                    await asyncio.to_thread(shutil.rmtree if one.is_dir() else Path.unlink, one)
        await self.revive(number)

    async def revive(self, number: int) -> None:
        """Start a dead broker again on its data."""
        await asyncio.to_thread(self.brokers[number].start)
        self.dead.discard(number)

    # Topics.

    async def create(self, topic: str, replicas: Sequence[int], **more: object) -> None:
        """Create a tiered topic of one partition on these brokers; the first one leads."""
        settings = TIERED | {name.replace("_", "."): str(value) for name, value in more.items()}
        await create_topic(
            self.bootstrap,
            topic,
            replicas=replicas,
            settings=settings,
            request_timeout_ms=REQUEST_MS,
        )
        await self.in_sync(topic, replicas)

    def admin(self) -> AbstractAsyncContextManager[Any]:
        return administered(self.bootstrap, request_timeout_ms=REQUEST_MS)

    async def led_by(self, topic: str, number: int) -> None:
        """Return once broker `number` leads the topic's partition."""

        async def is_so() -> bool:
            return await self.leader(topic) == number

        await self.until(is_so)

    async def reassign(self, topic: str, replicas: Sequence[int]) -> None:
        """Reassign the topic; returns once these brokers have it, and no others."""
        connection = await create_conn("127.0.0.1", self.brokers[1].port)
        answer = await connection.send(reassignment_request(topic, replicas))
        connection.close()
        assert answer.error_code == 0, answer
        await self.in_sync(topic, replicas)

    async def move_log(self, topic: str, number: int, disk: str) -> None:
        """Move broker `number`'s log of the topic's partition to another of its log folders."""
        broker = self.brokers[number]
        to = broker.folder / disk
        connection = await create_conn("127.0.0.1", broker.port)
        answer = await connection.send(log_dirs_request(topic, to))
        connection.close()
        assert answer.results == [(topic, [(0, 0, {})], {})], answer

        async def is_so() -> bool:
            here = [
                one for one in broker.disks if (broker.folder / one / f"{topic}-0").exists()
            ]
            return here == [disk]

        await self.until(is_so)

    async def in_sync(self, topic: str, replicas: Sequence[int]) -> None:
        """Return once exactly these brokers have the topic, and all are in sync."""

        async def is_so() -> bool:
            found = await self._partitions(topic)
            kinds = [{*one[kind]} for one in found for kind in ("replicas", "isr")]
            return bool(found) and all(kind == {*replicas} for kind in kinds)

        await self.until(is_so)

    async def configure(self, topic: str, **settings: object) -> None:
        """Set the topic's settings to those of a tiered topic and these, and no others."""
        given = TIERED | {name: str(value) for name, value in settings.items()}
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, given)
        async with self.admin() as admin:
            (answer,) = await admin.alter_configs([resource])
        assert [one[0] for one in answer.resources] == [0], answer

    async def delete_records(self, topic: str, before: int) -> None:
        """Move the log's start to offset `before`."""
        async with self.admin() as admin:
            wanted = RecordsToDelete(before_offset=before)
            await admin.delete_records({TopicPartition(topic, 0): wanted})

    def tiered_logs(self, topic: str) -> int:
        """The number of the topic's segments in the tier."""
        return len(list(self._tier.rglob(f"{topic}-0-*/*.log")))

    async def has_fewer_logs(self, topic: str, count: int) -> bool:
        """Whether the tier has fewer than `count` segments of the topic."""
        return self.tiered_logs(topic) < count

    async def leader(self, topic: str) -> int:
        """Which broker leads the topic's partition; -1: none."""
        return next((int(one["leader"]) for one in await self._partitions(topic)), -1)

    async def _partitions(self, topic: str) -> list[dict[str, Any]]:
        """The topic's partitions as a broker describes them; empty if it does not know it."""
        async with self.admin() as admin:
            found = await admin.describe_topics([topic])
        return [partition for one in found for partition in one["partitions"]]

    async def produced(
        self, topic: str, first: int, end: int, producer: Mapping[str, object] | None = None
    ) -> list[bytes]:
        """Produce records in order, each acknowledged by all replicas in sync."""
        return await produced(self.bootstrap, topic, first, end, **DURABLE, **(producer or {}))

    def producing(
        self, topic: str, sent: list[bytes], pace_s: float = PACE_S
    ) -> AbstractAsyncContextManager[None]:
        """Produce records during the block, each once; after it `sent` holds all of them."""
        return producing(
            self.bootstrap, topic, sent, **DURABLE, pace_s=pace_s, enable_idempotence=True
        )

    async def transaction(self, topic: str, turn: int, *, commits: bool) -> list[bytes]:
        """Produce records in a transaction, and commit or abort it; returns the records."""
        values = [b"in %d: %03d" % (turn, number) + bytes(200) for number in range(10)]
        async with AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=f"{topic}-{turn}"
        ) as sending:
            await sending.begin_transaction()
            for value in values:
                await sending.send_and_wait(topic, value, partition=0)
            await (sending.commit_transaction() if commits else sending.abort_transaction())
        return values

    async def consumed(
        self, topic: str, isolation_level: str = "read_uncommitted"
    ) -> list[bytes]:
        """All values from the first offset there is to the end."""
        return await consumed(
            self.bootstrap,
            topic,
            request_timeout_ms=REQUEST_MS,
            isolation_level=isolation_level,
        )

    async def tiered(self, topic: str, offset: int) -> None:
        """Return once the leader's local log starts at `offset` or later."""

        async def is_so() -> bool:
            leader = await self.leader(topic)
            return leader > 0 and self.brokers[leader].local_start(topic) >= offset

        await self.until(is_so)

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Return once `is_so()` is true; brokers act at their own intervals."""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    if await is_so():
                        return
                except (KafkaError, OSError):
                    pass  # The broker is dead, or does not know the topic yet.
                await asyncio.sleep(0.2)

    def errors(self) -> list[str]:
        """Errors in the brokers' logs, each with its broker's number.

        Kinds that are left out: a leader was fenced in the middle of a copy, or killed in the
        middle of a follower's request; Kafka copies from a log of which the topic's
        deletion has removed files or leader epochs; and Kafka's own manager tries again to
        create its topic until all brokers are registered.
        """
        expected = (
            ": FENCED: ",
            "was disconnected before the response was read",
            "offsetIndex can not be null",
            "segmentLeaderEpochs can not be null",
            "broker(s) are registered",
        )
        return [
            f"broker {number}: {line}"
            for number, broker in self.brokers.items()
            for line in broker.errors()
            if not any(kind in line for kind in expected)
        ]
