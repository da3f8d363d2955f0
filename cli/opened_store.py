"""The store that a command works on, opened, and the chosen cluster in it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tierledger.cli.output import print_note
from tierledger.cli.settings import cluster_setting, store_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tierledger.cli.options import AsOf
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.partition.state import PartitionState
    from tierledger.storage.catalog import Catalog, FoundTopic
    from tierledger.storage.partition.reader import PartitionReader

T = TypeVar("T")


class StoreOptions(NamedTuple):
    """The user's choice of a store and cluster."""

    store: str | None = None
    cluster: str | None = None


@asynccontextmanager
async def opened_catalog(
    options: StoreOptions, *, read_only: bool = True
) -> AsyncIterator[Catalog]:
    """The catalog of the chosen cluster.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        RemoteResourceNotFound: It does not hold the named cluster, or holds none.
        StoreRefused: It is no store, or (for a writer) another process writes it.
    """
    from tierledger.storage.catalog import Catalog, chosen_cluster, clusters
    from tierledger.storage.connector import load_connector, load_serde

    config = store_config(options.store)
    connector, serde = load_connector(config), load_serde(config)
    backend = await connector.backend(read_only=read_only)
    try:
        cluster = chosen_cluster(await clusters(backend), cluster_setting(options.cluster))
        catalog = Catalog(backend, connector.key_factory(cluster), serde, cluster)
        yield catalog
        for key in catalog.strays:
            print_note(f"{key!r} is no key of a partition; it is left aside")
    finally:
        await backend.close()


async def found_topic(catalog: Catalog, topic: str) -> FoundTopic:
    """The topic that `topic` names; notes it if several topics have that name."""
    found = await catalog.topic(topic)
    if found.others:
        others = ", ".join(str(one) for one in found.others)
        print_note(
            f"several topics were called {topic!r}; this is the newest, {found.topic_id} "
            f"(the others by id: {others})"
        )
    return found


async def found_partition(catalog: Catalog, topic: str, partition: int) -> TopicIdPartition:
    """The partition that is named; unknown topics and unknown partitions give other errors."""
    return await catalog.partition(await found_topic(catalog, topic), partition)


async def chosen_partitions(
    catalog: Catalog, topic: str | None, partition: int | None
) -> list[TopicIdPartition]:
    """All partitions, or those of a topic, or one of them; as the catalog has them."""
    if topic is None:
        return [entry.topic_id_partition async for entry in catalog.partitions()]
    if partition is not None:
        return [await found_partition(catalog, topic, partition)]
    found = await found_topic(catalog, topic)
    entries = catalog.partitions(found.topic_id)
    return [entry.topic_id_partition async for entry in entries]


async def ask(
    reader: PartitionReader, as_of: AsOf | None, question: Callable[[PartitionState], T]
) -> T:
    """The answer to `question` on the state at `as_of`, or on the newest one."""
    if as_of is None:
        from tierledger.storage.partition.point_reads import ask as ask_newest

        answer = await ask_newest(reader, question)
    else:
        answer = question(await reader.state_as_of(**as_of._asdict()))
    print_notes(reader)
    return answer


async def whole_state(reader: PartitionReader, as_of: AsOf | None) -> PartitionState:
    """The state at `as_of`, or the newest one, with all its segments."""
    if as_of is None:
        state = (await reader.state()).state
    else:
        state = await reader.state_as_of(**as_of._asdict())
    print_notes(reader)
    return state


def print_notes(reader: PartitionReader) -> None:
    """Print what was odd when the partition was read, and clear it."""
    for note in reader.notes:
        print_note(note)
    reader.notes.clear()
