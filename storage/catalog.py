"""Lists a store's clusters, and each cluster's topics and partitions.

The keys of a partition's log are contiguous, and so are those of its checkpoint. A scan reads
the first and skips the others, so it takes two reads per partition, however long the logs are.
A key that belongs to nothing known is a stray; scans skip it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from difflib import get_close_matches
from typing import NamedTuple, TypeAlias

from tierledger.events.errors import (
    CorruptLog,
    DataError,
    InvalidArgument,
    RemoteResourceNotFound,
)
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import UUID_BYTES, TopicIdPartition, Uuid
from tierledger.events.log_events import SessionOpened
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.keys import (
    INT32_MAX,
    DefaultMetadataKeyFactory,
    MetadataKeyFactory,
    behind,
)
from tierledger.storage.partition.event_log import StoredBatch, decode_batch
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.serde import MetadataSerDe

Found: TypeAlias = "tuple[TopicIdPartition, StoredBatch | None]"
"""A partition, and the first batch of its log; None if it has none."""


ID_PREFIX_MIN = 8
"""The fewest characters of a topic's id that stand for it."""

PARTITIONS_AT_FIRST, PARTITIONS_PER_PAGE = 8, 512
"""How many partitions one request finds: few if only some are wanted, and then more."""

ANY_PARTITION = TopicIdPartition(Uuid(bytes(UUID_BYTES)), 0, "")

LIKE_MAX = 3
"""Names that an error suggests in place of one that is unknown."""


class CatalogEntry(NamedTuple):
    """One partition, and the time of its log's first event."""

    topic_id_partition: TopicIdPartition
    first_log_time_ms: int
    is_forgotten: bool
    """Whether only a boundary is left of the log."""


class FoundTopic(NamedTuple):
    """The topic for a name or an id."""

    topic_id: Uuid
    topic: str
    others: tuple[Uuid, ...]
    """Older topics of the same name, newest first."""


async def clusters(backend: MetadataStorageBackend) -> list[str]:
    """The ids of the clusters in the store."""
    return [keys.cluster_id async for keys, _ in _by_cluster(backend) if keys is not None]


def chosen_cluster(known: Sequence[str], named: str | None = None) -> str:
    """The cluster `named` of a store with the clusters `known`, or the only one.

    Raises:
        InvalidArgument: The store has several clusters, and none was named.
        RemoteResourceNotFound: The store has no cluster, or not the named one.
    """
    listed = ", ".join(known)
    if named is not None and named not in known:
        holds = f"it holds {listed}" if known else "it is empty"
        raise RemoteResourceNotFound(f"the store has no cluster {named!r}; {holds}")
    if not known:
        raise RemoteResourceNotFound("the store is empty")
    if named is None and len(known) > 1:
        raise InvalidArgument(
            f"the store holds several clusters; the option cluster names one: {listed}"
        )
    return named or known[0]


async def stray_keys(backend: MetadataStorageBackend) -> AsyncIterator[str]:
    """Stray keys of the store, which belong neither to a cluster nor to a partition."""
    async for keys, first in _by_cluster(backend):
        if keys is None:
            yield first
            continue
        after: str | None = None
        folder = first.partition("/")[0] + "/"
        while rows := await backend.get_like(folder, after=after, limit=1):
            key = rows[0][0]
            after = _known(keys, key)
            if after is None:
                after = key
                yield key


async def _by_cluster(
    backend: MetadataStorageBackend,
) -> AsyncIterator[tuple[DefaultMetadataKeyFactory | None, str]]:
    """Each top folder's key factory and first key; None if the folder is no cluster's."""
    after: str | None = None
    while rows := await backend.get_like("", after=after, limit=1):
        first = rows[0][0]
        name, slash, _ = first.partition("/")
        keys = await _cluster_in(backend, first) if slash else None
        yield keys, first
        after = behind(f"{name}/") if slash else first


async def _cluster_in(
    backend: MetadataStorageBackend, key: str
) -> DefaultMetadataKeyFactory | None:
    """The key factory of the cluster in whose folder `key` is; None if it is no cluster's."""
    try:
        keys = DefaultMetadataKeyFactory(DefaultMetadataKeyFactory.cluster_of(key))
    except InvalidArgument:
        return None
    prefixes = [keys.logs(), keys.states(), keys.coordinator_log(), keys.service()]
    if not key.startswith(prefixes[0].partition("/")[0] + "/"):
        return None
    return keys if any(await backend.last_keys(prefixes)) else None


def _known(keys: MetadataKeyFactory, key: str) -> str | None:
    """A text after all keys of the log or table that has `key`; None if it is a stray."""
    if key == keys.service():
        return key
    if key.startswith(keys.coordinator_log()):
        return behind(keys.coordinator_log())
    try:
        tip = TopicIdPartition(*keys.parse_partition(key), "")
    except InvalidArgument:
        return None
    if key.startswith(keys.log(tip)):
        return behind(keys.log(tip))
    for prefix in (keys.leader_epochs(tip), keys.kept(tip), keys.segments(tip)):
        if key.startswith(prefix):
            return behind(prefix)
    return key if key == keys.partition(tip) else None


class Catalog:
    """Finds topics and partitions of one cluster."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        cluster_id: str,
        spill: Spill | None = None,
    ) -> None:
        self.backend = backend
        self.keys = keys
        self.serde = serde
        self.cluster_id = cluster_id
        self._spill = spill
        self.strays: list[str] = []
        """Keys that scans have skipped, as they belong to no partition."""

    def reader(self, topic_id_partition: TopicIdPartition) -> PartitionReader:
        """A reader of that partition, whether or not it exists."""
        return PartitionReader(
            self.backend,
            self.keys,
            self.serde,
            self.cluster_id,
            topic_id_partition,
            self._spill,
        )

    async def partitions(self, topic_id: Uuid | None = None) -> AsyncIterator[CatalogEntry]:
        """All partitions, or those of one topic, by topic id and number.

        Includes a partition that has only a checkpoint, as its log was lost.
        """
        async for tip, first in self.first_batches(topic_id):
            yield await self.entry(tip, first)

    async def first_batches(self, topic_id: Uuid | None = None) -> AsyncIterator[Found]:
        """All partitions, or those of one topic, with their first batches; without names."""
        keys = self.keys
        of_logs = of_states = None
        if topic_id is not None:
            before = TopicIdPartition(topic_id, 0, "")
            of_logs, of_states = keys.log(before), keys.state(before)
        # They hold nothing that would have to be closed.
        logs = self._each_in(keys.logs(), keys.log, of_logs, self._parse_batch)
        states = self._each_in(keys.states(), keys.state, of_states, self._parse_state)
        log, state = await anext(logs, None), await anext(states, None)
        while (first := _first_of(log, state)) is not None:
            if topic_id is not None and first[0].topic_id != topic_id:
                return
            yield first
            if log is not None and log[0] == first[0]:
                log = await anext(logs, None)
            if state is not None and state[0] == first[0]:
                state = await anext(states, None)

    async def _each_in(
        self,
        prefix: str,
        folder_of: Callable[[TopicIdPartition], str],
        after: str | None,
        parse: Callable[[str, bytes], Found],
    ) -> AsyncGenerator[Found]:
        """The partitions that have keys below `prefix`: first some, then many at a time."""
        folder = folder_of(ANY_PARTITION)
        levels = folder.count("/") - prefix.count("/")
        # Keys of another form are looked for one by one.
        most = PARTITIONS_PER_PAGE if folder.endswith("/") else 1
        limit = min(PARTITIONS_AT_FIRST, most)
        while True:
            page = await self.backend.get_firsts(prefix, levels, after=after, limit=limit)
            for row in page:
                try:
                    found: Found | None = parse(*row)
                except InvalidArgument:
                    page = []
                    # What else is in the folder of a stray may be good.
                    found = await self._next_in(prefix, after, parse)
                if found is None:
                    return
                yield found
                after = behind(folder_of(found[0]))
                if not page:
                    break
            else:
                if len(page) < limit:
                    return
                limit = min(4 * limit, most)

    async def entry(self, tip: TopicIdPartition, first: StoredBatch | None) -> CatalogEntry:
        """The entry by the log's first batch, or by the checkpoint if the batch is damaged."""
        reader = self.reader(tip)
        try:
            if first is None:
                raise CorruptLog("there is no log")
            boundary = reader.boundary(first.number, first.value)
            if boundary is not None:
                named = TopicIdPartition(tip.topic_id, tip.partition, boundary.topic)
                rest = await reader.log.read(first.number + 1, 1)
                return CatalogEntry(named, boundary.head[0], is_forgotten=not rest)
            if first.number:
                raise CorruptLog(f"the log begins at batch {first.number}")
            origin = genesis(self.cluster_id, tip.topic_id, tip.partition)
            decoded = decode_batch(self.serde, first, 0, origin)
        except DataError:
            return CatalogEntry(await self._named_by_checkpoint(reader), 0, is_forgotten=False)
        event = decoded.events[0]
        topic = event.body.topic if isinstance(event.body, SessionOpened) else ""
        named = TopicIdPartition(tip.topic_id, tip.partition, topic)
        return CatalogEntry(named, event.log_time_ms, is_forgotten=False)

    async def topic_names(self) -> set[str]:
        """The names of all topics."""
        return {entry.topic_id_partition.topic async for entry in self._topics()}

    async def topic(self, name_or_id: str) -> FoundTopic:
        """The topic with that id, or else the newest one of that name.

        Of ids that `ls` shows in brief, the beginning is enough.

        Raises:
            RemoteResourceNotFound: There is none.
        """
        found = await self._topic_by_id(name_or_id)
        if found is not None:
            return found
        by_id, names = {}, set[str]()
        alike_ids = []
        async for entry in self._topics():
            names.add(entry.topic_id_partition.topic)
            if str(entry.topic_id_partition.topic_id).startswith(name_or_id):
                alike_ids.append(entry.topic_id_partition)
            if entry.topic_id_partition.topic == name_or_id:
                by_id[entry.topic_id_partition.topic_id] = entry
        named = [(one.first_log_time_ms, one.topic_id_partition) for one in by_id.values()]
        if not named and len(name_or_id) >= ID_PREFIX_MIN and len(alike_ids) == 1:
            return FoundTopic(alike_ids[0].topic_id, alike_ids[0].topic, ())
        if not named:
            alike = get_close_matches(name_or_id, sorted(names), LIKE_MAX)
            meant = f"; is it {' or '.join(map(repr, alike))}?" if alike else ""
            raise RemoteResourceNotFound(
                f"cluster {self.cluster_id!r} has no topic {name_or_id!r}{meant}"
            )
        named.sort(key=lambda one: (one[0], one[1].topic_id), reverse=True)
        newest = named[0][1]
        others = tuple(tip.topic_id for _, tip in named[1:])
        return FoundTopic(newest.topic_id, newest.topic, others)

    async def partition(self, topic: FoundTopic, partition: int) -> TopicIdPartition:
        """The partition of a topic with that number.

        Raises:
            InvalidArgument: The number is out of range.
            RemoteResourceNotFound: There is no such partition.
        """
        if not 0 <= partition <= INT32_MAX:
            raise InvalidArgument(
                f"expected a partition from 0 to {INT32_MAX}, got {partition}"
            )
        wanted = TopicIdPartition(topic.topic_id, partition, topic.topic)
        found = await self._next((self.keys.log(wanted), self.keys.state(wanted)))
        if found is not None and self.keys.log(found[0]) == self.keys.log(wanted):
            entry = await self.entry(wanted, found[1])
            if not entry.is_forgotten:
                return entry.topic_id_partition
        raise RemoteResourceNotFound(
            f"topic {topic.topic!r} ({topic.topic_id}) has no partition {partition}"
        )

    async def _topics(self) -> AsyncIterator[CatalogEntry]:
        """For each topic its partitions up to the first with a name."""
        after = None
        while (found := await self._next(after)) is not None:
            tip, first = found
            entry = await self.entry(tip, first)
            if not entry.is_forgotten:
                yield entry
            # A damaged partition may not have the topic's name; the next one may.
            if not entry.is_forgotten and entry.topic_id_partition.topic:
                tip = TopicIdPartition(tip.topic_id, INT32_MAX, "")
            after = self._behind(tip)

    async def _topic_by_id(self, text: str) -> FoundTopic | None:
        try:
            topic_id = Uuid.parse(text)
        except InvalidArgument:
            return None
        async for entry in self.partitions(topic_id):
            if not entry.is_forgotten:
                return FoundTopic(topic_id, entry.topic_id_partition.topic, ())
        return None

    def _behind(self, tip: TopicIdPartition) -> tuple[str, str]:
        return behind(self.keys.log(tip)), behind(self.keys.state(tip))

    async def _next(self, after: tuple[str, str] | None) -> Found | None:
        """The next partition after the keys `after`; None if there are no more."""
        of_logs, of_states = after or (None, None)
        in_logs = await self._next_in(self.keys.logs(), of_logs, self._parse_batch)
        in_states = await self._next_in(self.keys.states(), of_states, self._parse_state)
        return _first_of(in_logs, in_states)

    async def _next_in(
        self, prefix: str, after: str | None, parse: Callable[[str, bytes], Found]
    ) -> Found | None:
        while rows := await self.backend.get_like(prefix, after=after, limit=1):
            after, value = rows[0]
            try:
                return parse(after, value)
            except InvalidArgument:
                if after not in self.strays:
                    self.strays.append(after)
        return None

    def _parse_batch(self, key: str, value: bytes) -> Found:
        topic_id, partition, number = self.keys.parse_log_batch(key)
        return TopicIdPartition(topic_id, partition, ""), StoredBatch(number, value)

    def _parse_state(self, key: str, _: bytes) -> Found:
        return TopicIdPartition(*self.keys.parse_partition(key), ""), None

    async def _named_by_checkpoint(self, reader: PartitionReader) -> TopicIdPartition:
        tip = reader.topic_id_partition
        try:
            found = await reader.checkpoints.read_partition()
        except DataError:
            return tip
        topic = "" if found is None else found[1].topic
        return TopicIdPartition(tip.topic_id, tip.partition, topic)


def _first_of(log: Found | None, state: Found | None) -> Found | None:
    """The partition that comes first; from its log if both are the same."""
    if log is None or state is None:
        return log or state
    if log[0] == state[0]:
        return log
    return min(log, state, key=lambda one: (str(one[0].topic_id), one[0].partition))
