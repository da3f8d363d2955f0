"""Segments that no broker hosts are found."""

from pathlib import Path

from tests.models.actors.local_world import (
    CLUSTER,
    KEYS,
    LocalWorld,
    copy,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors.host_settings import ServiceSettings
from tierledger.health.left import LeftPartition, left_in
from tierledger.storage.catalog import Catalog


async def test_what_no_broker_hosts_is_listed_if_it_has_segments(tmp_path: Path) -> None:
    led, followed, left, empty = map(partition, range(4))
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        broker = await world.leader(led, followed, left, empty)
        await copy(broker, *(segment(0, one) for one in (led, followed, left)))
        await world.follower(followed)
        await broker.on_stop_partitions([followed, left, empty])
        settings = ServiceSettings(CLUSTER, world.storage)
        backend = await settings.connector().backend(read_only=True)
        catalog = Catalog(backend, KEYS, settings.serde(), CLUSTER)

        found = await left_in(catalog, world.service.coordinator)

        await backend.close()
        assert found == [LeftPartition("orders", str(left.topic_id), 2, 1, 10)]
