"""Plans a read of a store: which logs it covers, and how they are split into tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyspark.sql.datasource import InputPartition

from tierledger.events.errors import DataError, InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.log_ranges import LogPlace, LogPlanner, Piece, corrupt, packed
from tierledger.pipeline.source.options import SourceOptions
from tierledger.storage.catalog import Catalog, chosen_cluster, clusters
from tierledger.storage.connector import load_connector, load_serde

READS_AT_A_TIME = 8
"""Partitions that are planned concurrently."""

NO_PLACE = LogPlace(0, 0, b"", 0)


class ReadTask(InputPartition):
    """The pieces of logs that one Spark task reads."""

    def __init__(self, cluster: str, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.cluster = cluster
        self.pieces = pieces


@asynccontextmanager
async def opened(options: SourceOptions) -> AsyncIterator[Catalog | None]:
    """The catalog of the chosen cluster, read-only; none if the store is empty.

    Raises:
        InvalidArgument: The store holds several clusters and the options name none.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
        StorageUnavailable: The store cannot be reached.
    """
    connector, serde = load_connector(options.config), load_serde(options.config)
    backend = await connector.backend(read_only=True)
    try:
        known = await clusters(backend)
        if not known:
            yield None
        else:
            cluster = chosen_cluster(known, options.cluster)
            yield Catalog(backend, connector.key_factory(cluster), serde, cluster)
    finally:
        await backend.close()


async def plan_batch(options: SourceOptions) -> list[ReadTask]:
    """Tasks that read all events that the store holds now.

    Raises as `opened` does, and:
        RemoteResourceNotFound: No partition matches the topic and partition in the options.
    """
    async with opened(options) as catalog:
        if catalog is None:
            return []
        known = await partitions(catalog, options)
        if not known and (options.topic is not None or options.partition is not None):
            topic = "any topic" if options.topic is None else f"topic {options.topic!r}"
            number = "any" if options.partition is None else options.partition
            raise RemoteResourceNotFound(
                f"cluster {catalog.cluster_id!r} does not have {topic} with partition {number}"
            )
        limit = asyncio.Semaphore(READS_AT_A_TIME)

        async def planned(tip: TopicIdPartition) -> list[Piece]:
            async with limit:
                return await whole_log(LogPlanner(catalog.reader(tip)), tip, options)

        each = await asyncio.gather(*map(planned, known))
        pieces = [piece for one in each for piece in one]
        tasks = packed(pieces, options.rows_per_task)
        return [ReadTask(catalog.cluster_id, one) for one in tasks]


async def whole_log(
    planner: LogPlanner, tip: TopicIdPartition, options: SourceOptions, end: int | None = None
) -> list[Piece]:
    """Pieces of a log from its start to batch `end` (exclusive), or to its present end.

    If the start is damaged, the only piece is a `corrupt` notice.
    """
    try:
        start, notice = await planner.start()
    except DataError as error:
        return [corrupt(tip, NO_PLACE, error)]
    until = await planner.end() if end is None else end
    ranges = await planner.ranges(start, until, options.rows_per_task)
    return ranges if notice is None else [notice, *ranges]


async def partitions(catalog: Catalog, options: SourceOptions) -> list[TopicIdPartition]:
    """The partitions that `options` select, without forgotten ones."""
    topic_id = None if options.topic is None else _parsed(options.topic)
    found = await _partitions(catalog, options, topic_id)
    if not found and topic_id is not None:
        # The topic may have a name that looks like an id.
        found = await _partitions(catalog, options, None)
    return found


async def _partitions(
    catalog: Catalog, options: SourceOptions, topic_id: Uuid | None
) -> list[TopicIdPartition]:
    return [
        entry.topic_id_partition
        async for entry in catalog.partitions(topic_id)
        if not entry.is_forgotten
        and (topic_id or options.topic in {None, entry.topic_id_partition.topic})
        and options.partition in {None, entry.topic_id_partition.partition}
    ]


def _parsed(text: str) -> Uuid | None:
    try:
        return Uuid.parse(text)
    except InvalidArgument:
        return None
