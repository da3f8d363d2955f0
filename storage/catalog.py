"""What a store holds: its clusters, and each cluster's topics and partitions.

Keys of one partition's log lie together, so a scan finds one and jumps past the rest: it costs
one read per partition, however long the logs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import DataError, InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.log_events import SessionOpened
from tierledger.storage.event_log import StoredBatch, decode_batch
from tierledger.storage.keys import INT32_MAX, DefaultMetadataKeyFactory, behind
from tierledger.storage.partition_reader import PartitionReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe


class CatalogEntry(NamedTuple):
    """One partition, and when its log begins."""

    topic_id_partition: TopicIdPartition
    first_log_time_ms: int
    is_forgotten: bool
    """Nothing is left of it but the boundary at which its log could go on."""


class FoundTopic(NamedTuple):
    """The topic that a user means."""

    topic_id: Uuid
    topic: str
    others: tuple[Uuid, ...]
    """Older topics of the same name, newest first."""


async def clusters(backend: MetadataStorageBackend) -> list[str]:
    """The ids of the clusters that the store holds."""
    found: list[str] = []
    after: str | None = None
    while rows := await backend.get_like("", after=after, limit=1):
        key = rows[0][0]
        found.append(DefaultMetadataKeyFactory.cluster_of(key))
        after = behind(key.partition("/")[0] + "/")
    return found


class Catalog:
    """Finds partitions of one cluster."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        cluster_id: str,
    ) -> None:
        self.backend = backend
        self.keys = keys
        self.serde = serde
        self.cluster_id = cluster_id

    def reader(self, topic_id_partition: TopicIdPartition) -> PartitionReader:
        """What reads that partition, whether or not there is one."""
        return PartitionReader(
            self.backend, self.keys, self.serde, self.cluster_id, topic_id_partition
        )

    async def partitions(self, topic_id: Uuid | None = None) -> AsyncIterator[CatalogEntry]:
        """All partitions that have a log, or those of one topic; by topic id and number."""
        after = None if topic_id is None else self._before(topic_id)
        while (found := await self._next(after)) is not None:
            tip, number, value = found
            if topic_id is not None and tip.topic_id != topic_id:
                return
            yield await self._entry(tip, number, value)
            after = behind(self.keys.log(tip))

    async def topic(self, name_or_id: str) -> FoundTopic:
        """The topic with that id, or else the newest of that name.

        Raises:
            RemoteResourceNotFound: There is none.
        """
        by_id = await self._topic_by_id(name_or_id)
        if by_id is not None:
            return by_id
        named = [
            (entry.first_log_time_ms, entry.topic_id_partition)
            async for entry in self._topics()
            if entry.topic_id_partition.topic == name_or_id
        ]
        if not named:
            raise RemoteResourceNotFound(
                f"cluster {self.cluster_id!r} has no topic {name_or_id!r}"
            )
        named.sort(key=lambda one: (one[0], one[1].topic_id), reverse=True)
        newest = named[0][1]
        others = tuple(tip.topic_id for _, tip in named[1:])
        return FoundTopic(newest.topic_id, newest.topic, others)

    async def partition(self, topic: FoundTopic, partition: int) -> TopicIdPartition:
        """That partition of a topic.

        Raises:
            InvalidArgument: There can be none of that number.
            RemoteResourceNotFound: There is none.
        """
        if not 0 <= partition <= INT32_MAX:
            raise InvalidArgument(
                f"expected a partition from 0 to {INT32_MAX}, got {partition}"
            )
        wanted = TopicIdPartition(topic.topic_id, partition, topic.topic)
        rows = await self.backend.get_like(self.keys.log(wanted), limit=1)
        if rows:
            _, _, number = self.keys.parse_log_batch(rows[0][0])
            entry = await self._entry(wanted, number, rows[0][1])
            if not entry.is_forgotten:
                return entry.topic_id_partition
        raise RemoteResourceNotFound(
            f"topic {topic.topic!r} ({topic.topic_id}) has no partition {partition}"
        )

    async def _topics(self) -> AsyncIterator[CatalogEntry]:
        """The first partition of each topic."""
        after: str | None = None
        while (found := await self._next(after)) is not None:
            tip, number, value = found
            entry = await self._entry(tip, number, value)
            if not entry.is_forgotten:
                yield entry
                last = TopicIdPartition(tip.topic_id, INT32_MAX, "")
                after = behind(self.keys.log(last))
            else:
                after = behind(self.keys.log(tip))

    async def _topic_by_id(self, text: str) -> FoundTopic | None:
        try:
            topic_id = Uuid.parse(text)
        except InvalidArgument:
            return None
        async for entry in self.partitions(topic_id):
            if not entry.is_forgotten:
                return FoundTopic(topic_id, entry.topic_id_partition.topic, ())
        return None

    def _before(self, topic_id: Uuid) -> str:
        """A text before every key of the topic's logs, and behind those of the topic before."""
        return self.keys.log(TopicIdPartition(topic_id, 0, ""))

    async def _next(self, after: str | None) -> tuple[TopicIdPartition, int, bytes] | None:
        rows = await self.backend.get_like(self.keys.logs(), after=after, limit=1)
        if not rows:
            return None
        key, value = rows[0]
        topic_id, partition, number = self.keys.parse_log_batch(key)
        return TopicIdPartition(topic_id, partition, ""), number, value

    async def _entry(self, tip: TopicIdPartition, number: int, value: bytes) -> CatalogEntry:
        """What the first batch of a log says; if it is damaged, what the checkpoint says."""
        reader = self.reader(tip)
        try:
            boundary = reader.boundary(number, value)
            if boundary is not None:
                named = TopicIdPartition(tip.topic_id, tip.partition, boundary.topic)
                rest = await reader.log.read(number + 1, 1)
                return CatalogEntry(named, boundary.head[0], is_forgotten=not rest)
            start = await reader.start()
            batch = StoredBatch(number, value)
            state = start.state
            decoded = decode_batch(self.serde, batch, state.next_position, state.chain_hash)
        except DataError:
            return CatalogEntry(await self._named_by_checkpoint(reader), 0, is_forgotten=False)
        first = decoded.events[0]
        topic = first.body.topic if isinstance(first.body, SessionOpened) else ""
        named = TopicIdPartition(tip.topic_id, tip.partition, topic)
        return CatalogEntry(named, first.log_time_ms, is_forgotten=False)

    async def _named_by_checkpoint(self, reader: PartitionReader) -> TopicIdPartition:
        tip = reader.topic_id_partition
        try:
            found = await reader.checkpoints.read_partition()
        except DataError:
            return tip
        topic = "" if found is None else found[1].topic
        return TopicIdPartition(tip.topic_id, tip.partition, topic)
