"""One partition as its store holds it, read without any actor.

Rule: the log is the truth. A checkpoint only saves time; one that does not verify is left
aside, and `notes` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import (
    CorruptCheckpoint,
    CorruptLog,
    InvalidArgument,
    RemoteResourceNotFound,
)
from tierledger.events.event_codec import chain, genesis
from tierledger.events.evolve import evolve_all
from tierledger.events.partition_state import PartitionState
from tierledger.storage.checkpoint import LOAD_ATTEMPTS, CheckpointStore, PartitionValue
from tierledger.storage.event_log import (
    BATCHES_PER_READ,
    DecodedBatch,
    EventLog,
    StoredBatch,
    decode_batch,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.log_events import Event
    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe


class LoadedPartition(NamedTuple):
    """A state, and the number of the log's batch that follows it."""

    state: PartitionState
    next_batch: int


class LogEntry(NamedTuple):
    """Where a log can be entered: before batch `next_batch`, which is at `next_position`."""

    next_position: int
    next_batch: int
    chain_hash: bytes


class PartitionReader:
    """Reads one partition; what was odd about it is collected in `notes`."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        cluster_id: str,
        topic_id_partition: TopicIdPartition,
    ) -> None:
        self.backend = backend
        self.keys = keys
        self.serde = serde
        self.topic_id_partition = topic_id_partition
        self.log = EventLog(backend, keys, topic_id_partition)
        self.checkpoints = CheckpointStore(backend, keys, serde, topic_id_partition)
        self.notes: list[str] = []
        self._genesis = genesis(
            cluster_id, topic_id_partition.topic_id, topic_id_partition.partition
        )

    async def state(self) -> LoadedPartition:
        """The newest state: checkpoint and tail, or the whole log.

        Raises:
            RemoteResourceNotFound: The store knows no such partition.
            CorruptLog: The log does not verify.
        """
        loaded = await self._from_checkpoint() or await self.start()
        return await self._fold(loaded)

    async def state_as_of(
        self, *, position: int | None = None, time_ms: int | None = None
    ) -> PartitionState:
        """The state after the event at `position`, or after the last one from until `time_ms`.

        Raises:
            InvalidArgument: The log does not reach `position`.
            RemoteResourceNotFound: There is no such partition, or nothing is known of it then.
            CorruptLog: The log does not verify.
        """
        value = await self._checkpoint_value()
        loaded = None
        if value is not None and _is_within(value, position, time_ms):
            loaded = await self._from_checkpoint()
        # It may have been renewed in between, and lie behind the cut now.
        if loaded is None or not _has_state_within(loaded.state, position, time_ms):
            loaded = await self.start()
        first = loaded.state.next_position
        state = (await self._fold(loaded, position, time_ms)).state
        tip = self.topic_id_partition
        if position is not None and state.next_position <= position:
            raise InvalidArgument(
                f"{tip}: expected a position up to {state.next_position - 1}, got {position}"
            )
        if state.next_position == first and not _has_state_within(state, position, time_ms):
            asked = f"position {position}" if time_ms is None else "that time"
            raise RemoteResourceNotFound(f"nothing is known of {tip} as of {asked}")
        return state

    async def events(
        self, from_position: int = 0, *, batches_per_read: int = BATCHES_PER_READ
    ) -> AsyncIterator[Event]:
        """The log's events from `from_position` on, verified.

        Args:
            from_position: Where to begin; a log that was forgotten before begins later.
            batches_per_read: How many batches may be in memory at a time.

        Raises:
            RemoteResourceNotFound: The store knows no such partition.
            CorruptLog: The log does not verify; the events before have been given.
        """
        entry = await self._entry_before(from_position)
        async for decoded in self.decoded_batches(entry, batches_per_read):
            for event in decoded.events:
                if event.position >= from_position:
                    yield event

    async def decoded_batches(
        self, entry: LogEntry, batches_per_read: int = BATCHES_PER_READ
    ) -> AsyncIterator[DecodedBatch]:
        """The log's batches from `entry` on, verified."""
        position, previous = entry.next_position, entry.chain_hash
        async for batch in self.log.batches(entry.next_batch, batches_per_read):
            decoded = decode_batch(self.serde, batch, position, previous)
            position, previous = position + len(decoded.events), decoded.chain_hash
            yield decoded

    async def start(self) -> LoadedPartition:
        """The state before the first event that the log still holds.

        Raises:
            RemoteResourceNotFound: There is no log.
            CorruptLog: It does not begin with its first batch, nor with a boundary.
        """
        tip = self.topic_id_partition
        found = await self.backend.get_like(self.keys.log(tip), limit=1)
        if not found:
            raise RemoteResourceNotFound(f"the store knows no partition {tip}")
        key, value = found[0]
        _, _, number = self.keys.parse_log_batch(key)
        boundary = self.boundary(number, value)
        if boundary is not None:
            return LoadedPartition(self.checkpoints.blank(boundary), number + 1)
        if number > 0:
            raise CorruptLog(f"{tip}: the log begins at batch {number}, not at 0")
        return LoadedPartition(PartitionState(tip, self._genesis), 0)

    def boundary(self, number: int, value: bytes) -> PartitionValue | None:
        """What stands in place of a forgotten log at its last batch, if `value` is that.

        Raises:
            CorruptLog: It is a boundary of another place.
        """
        try:
            boundary = self.checkpoints.parse_partition(value)
        except CorruptCheckpoint:
            return None
        if boundary.next_batch != number + 1:
            raise CorruptLog(
                f"{self.topic_id_partition}: the boundary in batch {number} is that of batch "
                f"{boundary.next_batch - 1}"
            )
        return boundary

    async def _from_checkpoint(self) -> LoadedPartition | None:
        trouble: CorruptCheckpoint | None = None
        for _ in range(LOAD_ATTEMPTS):
            stored = await self.checkpoints.read_stored()
            if stored is None:
                return None
            try:
                value = self.checkpoints.parse_partition(stored)
                state = await self.checkpoints.load(stored, value)
            except CorruptCheckpoint as error:
                trouble = error
            else:
                return LoadedPartition(state, value.next_batch)
            if await self.checkpoints.read_stored() == stored:
                break  # It is damaged; nobody was renewing it.
        self.notes.append(f"read from the log alone: {trouble}")
        return None

    async def _checkpoint_value(self) -> PartitionValue | None:
        try:
            found = await self.checkpoints.read_partition()
        except CorruptCheckpoint:
            return None
        return None if found is None else found[1]

    async def _entry_before(self, position: int) -> LogEntry:
        value = await self._checkpoint_value()
        if value is not None and value.next_position <= position:
            return LogEntry(value.next_position, value.next_batch, value.chain_hash)
        state, next_batch = await self.start()
        return LogEntry(state.next_position, next_batch, state.chain_hash)

    async def _fold(
        self,
        loaded: LoadedPartition,
        position: int | None = None,
        time_ms: int | None = None,
    ) -> LoadedPartition:
        """`loaded` and the log's events after it, up to the cut if one is given."""
        state, next_batch = loaded
        async for batch in self.log.batches(next_batch):
            decoded = decode_batch(self.serde, batch, state.next_position, state.chain_hash)
            events = decoded.events
            count = sum(1 for event in events if _is_event_within(event, position, time_ms))
            if count < len(events):
                if count:
                    evolve_all(state, events[:count], self._hash_after(batch, count))
                break
            evolve_all(state, events, decoded.chain_hash)
            next_batch = batch.number + 1
        return LoadedPartition(state, next_batch)

    def _hash_after(self, batch: StoredBatch, count: int) -> bytes:
        _, _, stored = self.serde.deserialize("batch", batch.value)
        return chain(stored[count - 1])


def _is_event_within(event: Event, position: int | None, time_ms: int | None) -> bool:
    if position is not None and event.position > position:
        return False
    return time_ms is None or event.log_time_ms <= time_ms


def _is_within(value: PartitionValue, position: int | None, time_ms: int | None) -> bool:
    if position is not None and value.next_position > position + 1:
        return False
    return time_ms is None or value.head[0] <= time_ms


def _has_state_within(state: PartitionState, position: int | None, time_ms: int | None) -> bool:
    """Whether `state` is not empty, and nothing in it lies behind the cut."""
    if state.next_position == 0:
        return False
    if position is not None and state.next_position > position + 1:
        return False
    return time_ms is None or state.log_time_ms <= time_ms
