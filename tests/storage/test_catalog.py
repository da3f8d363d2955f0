"""Partitions of a store are found by cluster, topic and number."""

import pytest

from tests.models.storage.stored_partitions import CLUSTER, SERDE, TIME_MS, StoredPartition
from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.catalog import Catalog, clusters
from tierledger.storage.keys import DefaultMetadataKeyFactory

OLD, NEW, OTHER = (Uuid(bytes([one]) * 16) for one in (9, 3, 5))


async def stored(
    backend: MemoryBackend, topic_id: Uuid, partition: int, topic: str, time_ms: int = TIME_MS
) -> StoredPartition:
    written = StoredPartition(backend, TopicIdPartition(topic_id, partition, topic))
    await written.open(time_ms=time_ms)
    await written.fill(range(3))
    return written


@pytest.fixture
async def catalog() -> Catalog:
    backend = MemoryBackend()
    for partition in (0, 1, 10):
        await stored(backend, OLD, partition, "orders", TIME_MS - 5)
    await stored(backend, NEW, 1, "orders")
    await stored(backend, OTHER, 0, "payments")
    return Catalog(backend, DefaultMetadataKeyFactory(CLUSTER), SERDE, CLUSTER)


async def test_every_cluster_of_a_store_is_found_once() -> None:
    backend = MemoryBackend()
    names = ["a", "a-b", "a/b", "a0", "ä %", "\n", "a\U0010ffff"]
    for name in names:
        tip = TopicIdPartition(OLD, 0, "orders")
        await StoredPartition(backend, tip, name).open()
        await backend.create(DefaultMetadataKeyFactory(name).service(), b"")

    found = await clusters(backend)

    assert sorted(found) == sorted(names)
    assert await clusters(MemoryBackend()) == []


async def test_every_partition_is_found_with_its_name_and_first_time(catalog: Catalog) -> None:
    found = [entry async for entry in catalog.partitions()]

    assert sorted(
        (entry.topic_id_partition.topic, entry.topic_id_partition.partition) for entry in found
    ) == [("orders", 0), ("orders", 1), ("orders", 1), ("orders", 10), ("payments", 0)]
    assert {entry.first_log_time_ms for entry in found} == {TIME_MS, TIME_MS - 5}


async def test_of_several_topics_of_one_name_the_newest_is_meant(catalog: Catalog) -> None:
    found = await catalog.topic("orders")

    assert found.topic_id == NEW
    assert found.others == (OLD,)


async def test_a_topic_is_found_by_its_id(catalog: Catalog) -> None:
    found = await catalog.topic(str(OLD))

    assert (found.topic_id, found.topic, found.others) == (OLD, "orders", ())
    partitions = [entry async for entry in catalog.partitions(OLD)]
    assert [entry.topic_id_partition.partition for entry in partitions] == [0, 1, 10]


@pytest.mark.parametrize("name", ["nothing", "", str(Uuid(bytes(16))), "order"])
async def test_an_unknown_topic_is_said_to_be_unknown(catalog: Catalog, name: str) -> None:
    with pytest.raises(RemoteResourceNotFound, match="no topic"):
        await catalog.topic(name)


async def test_an_unknown_partition_of_a_known_topic_is_told_apart(catalog: Catalog) -> None:
    topic = await catalog.topic("payments")

    assert (await catalog.partition(topic, 0)).topic == "payments"
    with pytest.raises(RemoteResourceNotFound, match="no partition 1"):
        await catalog.partition(topic, 1)
    with pytest.raises(InvalidArgument):
        await catalog.partition(topic, -1)


async def test_a_damaged_log_hides_no_other(catalog: Catalog) -> None:
    tip = TopicIdPartition(OLD, 0, "")
    await catalog.backend.update(catalog.keys.log_batch(tip, 0), b"damaged")

    found = [entry async for entry in catalog.partitions()]

    assert len(found) == 5
    assert [entry.topic_id_partition.topic for entry in found].count("") == 1
