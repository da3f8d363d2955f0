"""The store that a command works on, opened, and the chosen cluster in it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.output import print_note
from tierledger.cli.settings import cluster_setting, store_config
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from tierledger.events.as_of import AsOf
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.partition.state import PartitionState
    from tierledger.storage.catalog import Catalog, FoundTopic
    from tierledger.storage.partition.reader import PartitionReader

T = TypeVar("T")


class StoreOptions(NamedTuple):
    """The user's choice of a store and cluster."""

    store: str | None = None
    cluster: str | None = None
    doors: Mapping[str, str] | None = None
    """The files with which to come in at the service's doors, as a client's settings; None:
    those that the environment names."""


@asynccontextmanager
async def opened_catalog(
    options: StoreOptions, *, read_only: bool = True
) -> AsyncIterator[Catalog]:
    """The catalog of the chosen cluster.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        RemoteResourceNotFound: It does not hold the named cluster, or holds none.
        StoreRefused: It is no store, there is none, or (for a writer) another process writes
            it.
    """
    from tierledger.storage.catalog import Catalog, chosen_cluster, clusters
    from tierledger.storage.connector import load_connector, load_serde

    config = store_config(options.store)
    connector, serde = load_connector(config), load_serde(config)
    backend = await connector.backend(read_only=True)
    if not read_only:
        # A store that is missing is not made: nothing could be done with an empty one.
        await backend.close()
        backend = await connector.backend(read_only=False)
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
    try:
        found = await catalog.topic(topic)
    except RemoteResourceNotFound as error:
        error.add_note("tierledger ls lists the topics")
        raise
    if found.others:
        others = ", ".join(str(one) for one in found.others)
        print_note(
            f"several topics were called {topic!r}; this is the newest, {found.topic_id} "
            f"(the others by id: {others})"
        )
    return found


async def found_partition(catalog: Catalog, topic: str, partition: int) -> TopicIdPartition:
    """The partition that is named; unknown topics and unknown partitions give other errors."""
    found = await found_topic(catalog, topic)
    try:
        return await catalog.partition(found, partition)
    except RemoteResourceNotFound as error:
        error.add_note(f"tierledger describe {topic} shows its partitions")
        raise


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


def kept_text(count: int) -> str:
    """What a note or an error adds about segments that were deleted and are kept."""
    return (
        f"{count} of its segments were deleted and are in the trash: --deleted reads them, "
        "tierledger undelete brings them back"
    )


async def ask(
    reader: PartitionReader, as_of: AsOf | None, question: Callable[[PartitionState], T]
) -> T:
    """The answer to `question` on the state at `as_of`, or on the newest one."""
    answer, ahead_ms = await ask_timed(reader, as_of, question)
    note_ahead(reader.topic_id_partition, ahead_ms)
    return answer


async def state_then(reader: PartitionReader, as_of: AsOf) -> PartitionState:
    """The state at `as_of`; one without any event if the log began later than that.

    Raises:
        RemoteResourceNotFound: What the log had then is forgotten.
    """
    try:
        return await reader.state_as_of(**as_of._asdict())
    except RemoteResourceNotFound:
        start = (await reader.start()).state
        if start.next_position:
            raise
        return start


def note_later(log: object) -> None:
    """Print a note why nothing is found: the log of a partition began after `--as-of`."""
    print_note(f"nothing was known of {log} then: its log began later")


async def ask_timed(
    reader: PartitionReader, as_of: AsOf | None, question: Callable[[PartitionState], T]
) -> tuple[T, int]:
    """The answer, as of `ask`, and by how much (ms) the log's time is ahead of now, or 0."""

    def with_time(state: PartitionState) -> tuple[T, int]:
        return question(state), state.log_time_ms

    if as_of is None:
        from tierledger.storage.partition.point_reads import ask as ask_newest

        answer, log_time_ms = await ask_newest(reader, with_time)
    else:
        answer, log_time_ms = with_time(await state_then(reader, as_of))
    print_notes(reader)
    return answer, await _ahead_ms(reader, as_of, log_time_ms)


async def _ahead_ms(reader: PartitionReader, as_of: AsOf | None, log_time_ms: int) -> int:
    from tierledger.storage.partition.log_times import ahead_ms, newest_times

    if as_of is not None:
        (newest,) = await newest_times([reader])
        log_time_ms = log_time_ms if newest is None else newest
    return ahead_ms(log_time_ms, WallClock().now_ms())


def note_ahead(log: object, ahead_ms: int) -> None:
    """Print a note if the time of that log is ahead of now."""
    if ahead_ms:
        print_note(
            f"the log time of {log} is {span_text(ahead_ms)} ahead of now: a clock was wrong; "
            "what goes by log time, as --as-of and stuck do, is wrong until then"
        )


async def whole_state(reader: PartitionReader, as_of: AsOf | None) -> PartitionState:
    """The state at `as_of`, or the newest one, with all its segments."""
    if as_of is None:
        state = (await reader.state()).state
    else:
        state = await state_then(reader, as_of)
        if not state.next_position:
            note_later(reader.topic_id_partition)
    print_notes(reader)
    ahead_ms = await _ahead_ms(reader, as_of, state.log_time_ms)
    note_ahead(reader.topic_id_partition, ahead_ms)
    return state


def print_notes(reader: PartitionReader) -> None:
    """Print what was odd when the partition was read, and clear it."""
    for note in reader.notes:
        print_note(note)
    reader.notes.clear()
