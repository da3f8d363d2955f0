"""A stock broker with its remote log metadata in tierledger: it tiers, serves and deletes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import (  # type: ignore[import-untyped] # It has no types.
    AIOKafkaConsumer,
    AIOKafkaProducer,
)
from aiokafka.admin import (  # type: ignore[import-untyped] # It has no types.
    AIOKafkaAdminClient,
    NewTopic,
)
from typing_extensions import override

from tests.models.kafka_broker import CLUSTER_ID, KafkaBroker
from tests.ray.test_serve import served

JAR = Path(__file__).parents[2] / "kafka-plugin/target/tierledger-kafka-plugin.jar"
RECORDS = 6_000
LOOK_S = 0.1
"""Between two looks at a folder, which tells nobody; the test's own timeout is the limit."""

TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1024 * 1024),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}

pytestmark = pytest.mark.ray


class TieredBroker(KafkaBroker):
    """A broker with Kafka's own tier in a folder, and the plugin."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    @property
    def tier(self) -> Path:
        return self.folder / "tier"

    @override
    def _properties(self) -> str:
        package = "org.apache.kafka.server.log.remote.storage"
        lines: dict[str, object] = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": f"{package}.LocalTieredStorage",
            "rsm.config.dir": self.tier,
            "remote.log.metadata.manager.class.name": (
                "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
            ),
            "remote.log.metadata.manager.class.path": JAR,
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.tierledger.bootstrap": self._url,
            "remote.log.manager.task.interval.ms": 500,
            "log.retention.check.interval.ms": 500,
            "log.initial.task.delay.ms": 500,
        }
        return super()._properties() + "".join(f"{key}={lines[key]}\n" for key in lines)

    def in_tier(self) -> list[str]:
        return sorted(path.name[:20] for path in self.tier.rglob("*.log"))

    def local(self) -> list[str]:
        return sorted(path.name[:20] for path in self.logs.glob("tiered-0/*.log"))


async def test_a_broker_tiers_serves_and_deletes(tmp_path: Path) -> None:
    options = ["--cluster", CLUSTER_ID, "--hosts", 2, "--listen", "127.0.0.1:0"]
    with served(f"sqlite:{tmp_path / 'store.sqlite'}", *options) as process:
        assert process.stdout is not None, "it is a pipe"
        url = process.stdout.readline().split()[-1]
        with TieredBroker(url) as broker:
            await tier_and_delete(broker)
            assert [
                line for line in broker.log().splitlines() if line.startswith("ERROR")
            ] == []


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(LOOK_S)


async def tier_and_delete(broker: TieredBroker) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
        await admin.create_topics([NewTopic("tiered", 1, 1, topic_configs=TIERED)])
        values = [number.to_bytes(4, "big") * 250 for number in range(RECORDS)]
        await asyncio.gather(*[await producer.send("tiered", one) for one in values])
        await until(lambda: len(broker.in_tier()) >= 5 and len(broker.local()) == 1)
        assert broker.local()[0] > broker.in_tier()[-1]

        consumer = AIOKafkaConsumer(
            "tiered", bootstrap_servers=broker.address, auto_offset_reset="earliest"
        )
        async with consumer:
            consumed = [await anext(consumer) for _ in values]
        assert [one.value for one in consumed] == values

        await admin.delete_topics(["tiered"])
        await until(lambda: not broker.in_tier())
    await admin.close()
