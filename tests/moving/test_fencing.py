"""Of two mirrors into one topic, on a real broker, the earlier one writes nothing any more."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.actors.local_world import (
    CLUSTER,
    LocalWorld,
    moved,
    partition,
    segment,
    sqlite_in,
)
from tests.models.kafka.clients import WAIT_S, create_topic
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.wall_clock import WallClock
from tierledger.benchmarks.kafka_broker import KafkaBroker
from tierledger.events.errors import StorageUnavailable
from tierledger.moving.mirroring import Mirror, producer_of
from tierledger.moving.topic import reading
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.storage.catalog import Catalog
from tierledger.storage.kafka_brokers import KafkaBrokers

ORDERS, AHEAD = partition(0), partition(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        asyncio.run(create_topic(broker.address, METADATA_TOPIC, 2))
        yield broker


@asynccontextmanager
async def mirror_of(world: LocalWorld, brokers: KafkaBrokers) -> AsyncIterator[Mirror]:
    settings = ServiceSettings(CLUSTER, world.storage)
    connector = settings.connector()
    backend = await connector.backend(read_only=True)
    catalog = Catalog(backend, connector.key_factory(CLUSTER), settings.serde(), CLUSTER)
    try:
        async with producer_of(brokers) as producer, reading(brokers) as reader:
            yield Mirror(catalog, reader, producer, brokers)
    finally:
        await backend.close()


async def test_a_mirror_that_was_frozen_behind_its_reading_writes_nothing_twice(
    broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = KafkaBrokers(broker.address)
    world = LocalWorld(sqlite_in(tmp_path))
    await world.start()
    leader = await world.leader(ORDERS)
    await leader.add_remote_log_segment_metadata(segment(1))

    async with mirror_of(world, brokers) as frozen:
        await frozen.round()
        assert frozen.mirrored == 1
        await leader.update_remote_log_segment_metadata(moved(segment(1)))
        async with mirror_of(world, brokers) as mirror:
            await mirror.round()
            assert mirror.mirrored == 1
        with monkeypatch.context() as patch:
            patch.setattr(frozen, "_read", lambda: asyncio.sleep(0))
            with pytest.raises(StorageUnavailable, match="newer producer"):
                await frozen.round()
    await world.stop()

    async with reading(brokers) as reader:
        ends = await reader.ends()
        found = [one async for some in reader.read(ends) for one in some]
    assert [one.mirrored.position for one in found if one.mirrored] == [1, 2]
    assert sum(ends.values()) == 4, "two fences, and no markers of transactions"


async def test_a_mirror_ends_while_the_broker_is_away_with_what_it_had_to_write(
    tmp_path: Path,
) -> None:
    with KafkaBroker() as broker:
        brokers = KafkaBrokers(broker.address)
        await create_topic(brokers.addresses, METADATA_TOPIC, 2)
        async with asyncio.timeout(WAIT_S):
            async with producer_of(brokers) as producer:
                await producer.send_and_wait(METADATA_TOPIC, b"one", partition=0)
                broker.stop(signal.SIGKILL)
                written = await producer.send(METADATA_TOPIC, b"two", partition=0)
                await asyncio.wait([written], timeout=1)
        assert not written.done() or written.exception() is not None


class AheadClock(WallClock):
    """The clock of a host that is hours ahead; Kafka takes no record that is."""

    @override
    def now_ms(self) -> int:
        return super().now_ms() + 3 * 3_600_000


async def test_logs_whose_time_is_hours_ahead_are_mirrored(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    brokers = KafkaBrokers(broker.address)
    world = LocalWorld(sqlite_in(tmp_path), clock=AheadClock())
    await world.start()
    leader = await world.leader(AHEAD)
    await leader.add_remote_log_segment_metadata(segment(1, AHEAD))

    async with mirror_of(world, brokers) as mirror:
        await mirror.round()

        assert mirror.mirrored == 1
    await world.stop()
