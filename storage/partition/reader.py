"""Reads a partition from the store, without any actor.

Rule: the log is the truth. A checkpoint only saves time; one that does not verify is ignored,
and noted in `notes`. But a log that ends before its checkpoint is damaged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from tierledger.events.errors import (
    CorruptCheckpoint,
    CorruptLog,
    DataError,
    InvalidArgument,
    RemoteResourceNotFound,
)
from tierledger.events.event_codec import chain, genesis
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event, SegmentKept
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.spilled_map import Spill
from tierledger.events.typed_fields import time_text
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.keys import INT64_MAX, MetadataKeyFactory
from tierledger.storage.partition.checkpoint import (
    CheckpointStore,
    PartitionValue,
    boundary_in,
    next_batch_in,
)
from tierledger.storage.partition.event_log import (
    BATCHES_PER_READ,
    DecodedBatch,
    EventLog,
    LogPage,
    StoredBatch,
    apply_events,
    decode_batch,
    stored_events,
)
from tierledger.storage.partition.loading import LoadedPartition, Loading
from tierledger.storage.serde import MetadataSerDe


class LogEntry(NamedTuple):
    """Where reading of a log begins: batch `next_batch`, at `next_position`."""

    next_position: int
    next_batch: int
    chain_hash: bytes


class PartitionReader:
    """Reads one partition; `notes` has what was wrong with its checkpoint."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        cluster_id: str,
        topic_id_partition: TopicIdPartition,
        spill: Spill | None = None,
    ) -> None:
        """`spill`: for what is kept, in the states that are read; None: it is in memory."""
        self.backend = backend
        self.keys = keys
        self.serde = serde
        self.topic_id_partition = topic_id_partition
        self.log = EventLog(backend, keys, topic_id_partition)
        self.checkpoints = CheckpointStore(backend, keys, serde, topic_id_partition, spill)
        self.notes: list[str] = []
        self._spill = spill
        self._cluster_id = cluster_id

    @property
    def _genesis(self) -> bytes:
        tip = self.topic_id_partition
        return genesis(self._cluster_id, tip.topic_id, tip.partition)

    async def state(self) -> LoadedPartition:
        """The newest state: checkpoint and tail, or the whole log.

        Raises:
            RemoteResourceNotFound: The store has no such partition.
            CorruptLog: The log does not verify.
        """
        folded = await self._fold(await self._loaded())
        if folded.next_batch == 0:
            raise self._unknown()
        return folded

    async def state_as_of(
        self, *, position: int | None = None, time_ms: int | None = None
    ) -> PartitionState:
        """The state after the event at `position`, or after the last one up to `time_ms`.

        Raises:
            InvalidArgument: The log does not reach `position`.
            RemoteResourceNotFound: There is no such partition, or it had no event then.
            CorruptLog: The log does not verify.
        """
        value = await self._checkpoint_value()
        loaded = None
        if value is not None and _is_within(value, position, time_ms):
            loaded = await self._loaded()
        # A writer may have replaced the checkpoint in between by one of after the cut.
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
            asked = f"position {position}" if time_ms is None else time_text(time_ms)
            raise RemoteResourceNotFound(f"nothing is known of {tip} as of {asked}")
        return state

    async def events(
        self, from_position: int = 0, *, batches_per_read: int = BATCHES_PER_READ
    ) -> AsyncIterator[Event]:
        """The log's events from `from_position` on, verified.

        Args:
            from_position: Where to begin; a log whose beginning was forgotten begins later.
            batches_per_read: How many batches may be in memory at a time.

        Raises:
            RemoteResourceNotFound: The store has no such partition.
            CorruptLog: The log does not verify; the events before the damage were yielded.
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

    async def keeps(self) -> bool:
        """Whether deleted segments may be kept, by the checkpoint and what comes behind it.

        Raises:
            CorruptLog: The log does not verify.
            RemoteResourceNotFound: There is no log.
        """
        value = await self._checkpoint_value()
        if value is None:
            state, next_batch = await self.start()
            entry = LogEntry(state.next_position, next_batch, state.chain_hash)
        elif value.kept:
            return True
        else:
            entry = LogEntry(value.next_position, value.next_batch, value.chain_hash)
        async for batch in self.decoded_batches(entry):
            if any(isinstance(event.body, SegmentKept) for event in batch.events):
                return True
        return False

    async def tail(self, value: PartitionValue) -> AsyncIterator[DecodedBatch]:
        """The log's batches after the checkpoint with `value`, verified.

        Raises:
            CorruptLog: The log does not verify, or ends before the checkpoint.
            CorruptCheckpoint: The checkpoint is of another log.
        """
        position, previous = value.next_position, value.chain_hash
        async for batch in self.log.batches(value.next_batch - 1):
            if batch.number < value.next_batch:
                self._check_end(value, batch)
                continue
            decoded = decode_batch(self.serde, batch, position, previous)
            position, previous = position + len(decoded.events), decoded.chain_hash
            yield decoded

    async def start(self) -> LoadedPartition:
        """The state before the first event that the log still has.

        Raises:
            RemoteResourceNotFound: There is no log.
            CorruptLog: It begins neither with its first batch nor with a boundary.
        """
        start = await self._beginning(tracks_changes=False)
        if start is None:
            raise self._unknown()
        return start

    async def beginning(self, *, tracks_changes: bool = False) -> LoadedPartition:
        """As `start`, but a blank state if there is no log."""
        start = await self._beginning(tracks_changes=tracks_changes)
        return start or LoadedPartition(self._blank(tracks_changes=tracks_changes), 0)

    async def _beginning(self, *, tracks_changes: bool) -> LoadedPartition | None:
        found = await self.backend.get_like(self.keys.log(self.topic_id_partition), limit=1)
        if not found:
            left = await self.backend.get_like(
                self.keys.state(self.topic_id_partition), limit=1
            )
            if not left:
                return None
            # A log may have begun, and been checkpointed, since the list was read.
            first = self.keys.log_batch(self.topic_id_partition, 0)
            begun = await self.backend.get(first)
            if begun is None:
                raise CorruptLog(f"batch 0 is missing: there is no log, and {left[0][0]!r}")
            found = [(first, begun)]
        key, value = found[0]
        number = self._number_of(key)
        boundary = self.boundary(number, value)
        if boundary is not None:
            try:
                state = self.checkpoints.blank(boundary, tracks_changes=tracks_changes)
            except CorruptCheckpoint as error:
                raise CorruptLog(f"the boundary in batch {number}: {error}") from error
            return LoadedPartition(state, number + 1)
        if number > 0:
            raise CorruptLog(f"batch 0 is missing: the log begins at batch {number}")
        return LoadedPartition(self._blank(tracks_changes=tracks_changes), 0)

    def _blank(self, *, tracks_changes: bool) -> PartitionState:
        tip = self.topic_id_partition
        return PartitionState(
            tip, self._genesis, tracks_changes=tracks_changes, spill=self._spill
        )

    async def read_on(self, number: int, limit: int) -> LogPage | None:
        """The log's page from `number` on; None if the log was forgotten up to there meanwhile.

        In that case the caller's state is out of date and has to be loaded again.

        Raises:
            CorruptLog: Batch `number` is missing.
        """
        try:
            page = await self.log.page(number, limit)
        except CorruptLog:
            if (await self.beginning()).next_batch <= number:
                raise
            return None
        if page.batches and self.boundary(number, page.batches[0].value) is not None:
            return None
        return page

    async def has_history(self, position: int, chain_hash: bytes, near: int = 0) -> bool:
        """Whether the log has the event at `position`, with `chain_hash` after it.

        Also true if the log was forgotten beyond that event: nothing is left to compare.
        Batches are read one by one, since a store's list may be behind.

        Args:
            position: Of an event that was durable once.
            chain_hash: The hash after that event.
            near: A guess of the log's last batch, for the search.

        Raises:
            CorruptLog: A batch does not verify, or is in a wrong slot.
        """
        while True:
            low, value = 0, await self.backend.get(self.log.key(0))
            if value is None:
                logs = self.keys.log(self.topic_id_partition)
                found = await self.backend.get_like(logs, limit=1)
                if not found:
                    return False
                low, value = self._number_of(found[0][0]), found[0][1]
            key = self.log.key(low)
            boundary = self.boundary(low, value)
            if boundary is not None and position < boundary.next_position:
                is_last = position + 1 == boundary.next_position
                return not is_last or chain_hash == boundary.chain_hash
            stored: tuple[bytes, ...] = ()
            if boundary is not None:
                first = boundary.next_position
            else:
                first, stored = stored_events(self.serde, StoredBatch(low, value))
            # A binary search: batch `behind` begins after the event, or does not exist.
            number, behind = max(near, low + 1), INT64_MAX
            while behind - low > 1:
                there = await self._batch(number)
                if there is None or there[0] > position:
                    behind = number
                else:
                    low, (first, stored) = number, there
                number = 2 * low if behind == INT64_MAX else (low + behind) // 2
            if position - first < len(stored) and (
                chain(stored[position - first]) == chain_hash
            ):
                return True
            await self._require_joined(low, self._number_of(key), boundary)
            if await self.backend.get(key) is not None:
                return False  # Otherwise the log was forgotten meanwhile: begin again.

    async def _require_joined(
        self, number: int, base: int, boundary: PartitionValue | None
    ) -> None:
        """Check that batch `number` continues the one before it, and is continued by the next.

        A search for a position ends beside a batch that the store has put into a wrong slot.

        Raises:
            CorruptLog: The batches are not of one log.
        """
        end = (0, self._genesis) if number == base else None
        for at in range(max(base, number - 1), number + 2):
            value = await self.backend.get(self.log.key(at))
            if value is None:
                return
            if at == base and boundary is not None:
                end = (boundary.next_position, boundary.chain_hash)
            elif end is None:
                first, stored = stored_events(self.serde, StoredBatch(at, value))
                end = (first + len(stored), chain(stored[-1]))
            else:
                batch = decode_batch(self.serde, StoredBatch(at, value), *end)
                end = (end[0] + len(batch.events), batch.chain_hash)

    async def _batch(self, number: int) -> tuple[int, tuple[bytes, ...]] | None:
        """The first position and the stored events of a batch; None if it does not exist."""
        value = await self.backend.get(self.log.key(number))
        return None if value is None else stored_events(self.serde, StoredBatch(number, value))

    def boundary(self, number: int, value: bytes) -> PartitionValue | None:
        """The boundary in slot `number`, in place of a forgotten log; None if it is a batch.

        Raises:
            CorruptLog: The boundary belongs to another slot.
        """
        return boundary_in(self.serde, self.topic_id_partition, number, value)

    async def from_checkpoint(
        self, stored: bytes, *, tracks_changes: bool = False
    ) -> LoadedPartition:
        """The state in the checkpoint `stored`, verified.

        Raises:
            CorruptCheckpoint: It does not verify, or a writer replaced it during the read.
            CorruptLog: The log ends before the checkpoint.
            FormatTooNew: A newer program wrote it.
        """
        value = self.parse_checkpoint(stored)
        await self._require_end(value)
        state = await self.checkpoints.load(stored, value, tracks_changes=tracks_changes)
        return LoadedPartition(state, value.next_batch)

    def parse_checkpoint(self, stored: bytes) -> PartitionValue:
        """A stored partition value, parsed; from now on the log must reach it.

        Raises:
            CorruptCheckpoint: `stored` is no such value, or another partition's.
            FormatTooNew: A newer program wrote it.
        """
        value = self.checkpoints.parse_partition(stored)
        self.log.require(value.next_batch)
        return value

    async def _loaded(self) -> LoadedPartition:
        loading = Loading(self)
        loaded = await loading.state()
        if loading.trouble is not None:
            self.notes.append(f"read from the log alone: {loading.trouble}")
        return loaded

    async def _checkpoint_value(self) -> PartitionValue | None:
        stored = await self.checkpoints.read_stored()
        try:
            return None if stored is None else self.parse_checkpoint(stored)
        except CorruptCheckpoint:
            return None

    async def _require_end(self, value: PartitionValue) -> None:
        """Check that the log has the batch with which the checkpoint ends."""
        (last,) = await self.log.read(value.next_batch - 1, 1)
        self._check_end(value, last)

    def _check_end(self, value: PartitionValue, last: StoredBatch) -> None:
        boundary = self.boundary(last.number, last.value)
        if boundary is not None:
            end = (boundary.next_position, boundary.chain_hash)
        else:
            first, stored = stored_events(self.serde, last)
            end = (first + len(stored), chain(stored[-1]))
        if end != (value.next_position, value.chain_hash):
            raise CorruptCheckpoint(
                f"the checkpoint of {self.topic_id_partition} at {value.next_position} is none "
                f"of its log, where batch {last.number} ends at {end[0]}"
            )

    async def _entry_before(self, position: int) -> LogEntry:
        value = await self._checkpoint_value()
        if value is not None and value.next_position <= position:
            try:
                await self._require_end(value)
            except CorruptCheckpoint:
                pass  # The checkpoint is not used; the log has everything.
            else:
                return LogEntry(value.next_position, value.next_batch, value.chain_hash)
        state, next_batch = await self.start()
        return LogEntry(state.next_position, next_batch, state.chain_hash)

    def end_behind(self, last: str) -> int:
        """The number of the batch after the log's last key; INT64_MAX if that is no batch."""
        try:
            return self.keys.parse_log_batch(last)[2] + 1
        except InvalidArgument:
            return INT64_MAX

    def _number_of(self, key: str) -> int:
        try:
            return self.keys.parse_log_batch(key)[2]
        except InvalidArgument as error:
            raise CorruptLog(f"the log begins with {key!r}, which is no batch") from error

    def _unknown(self) -> RemoteResourceNotFound:
        return RemoteResourceNotFound(f"the store knows no partition {self.topic_id_partition}")

    async def _fold(
        self,
        loaded: LoadedPartition,
        position: int | None = None,
        time_ms: int | None = None,
    ) -> LoadedPartition:
        """The state `loaded` with the log's later events applied, up to the cut if given."""
        state, next_batch = loaded
        async for batch in self.log.batches(next_batch):
            decoded = decode_batch(self.serde, batch, state.next_position, state.chain_hash)
            events = decoded.events
            count = sum(1 for event in events if _is_event_within(event, position, time_ms))
            if count < len(events):
                if count:
                    last = self._hash_after(batch, count)
                    apply_events(state, batch.number, events[:count], last)
                break
            apply_events(state, batch.number, events, decoded.chain_hash)
            next_batch = batch.number + 1
        return LoadedPartition(state, next_batch)

    def _hash_after(self, batch: StoredBatch, count: int) -> bytes:
        return chain(stored_events(self.serde, batch)[1][count - 1])


async def planned_ends(readers: Sequence[PartitionReader]) -> list[int]:
    """For each log the number of its next batch, up to which it has to be read.

    Takes two requests for all logs of a store. For a log that ends before its checkpoint, or
    with a key that is no batch, the number is so high that reading up to it finds the damage.
    """
    if not readers:
        return []
    backend = readers[0].backend
    # Checkpoints first: a log never ends before a checkpoint that was read earlier.
    keys = [reader.keys.partition(reader.topic_id_partition) for reader in readers]
    checkpoints = await backend.get_each(keys)
    prefixes = [reader.keys.log(reader.topic_id_partition) for reader in readers]
    lasts = await backend.last_keys(prefixes)
    ends = []
    for reader, stored, last in zip(readers, checkpoints, lasts, strict=True):
        if stored is not None:
            with suppress(DataError):  # A caller that needs the checkpoint reports it.
                tip = reader.topic_id_partition
                reader.log.require(next_batch_in(reader.serde, tip, stored))
        ends.append(max(reader.log.reaches, 0 if last is None else reader.end_behind(last)))
    return ends


def _is_event_within(event: Event, position: int | None, time_ms: int | None) -> bool:
    if position is not None and event.position > position:
        return False
    return time_ms is None or event.log_time_ms <= time_ms


def _is_within(value: PartitionValue, position: int | None, time_ms: int | None) -> bool:
    if position is not None and value.next_position > position + 1:
        return False
    return time_ms is None or value.head[0] <= time_ms


def _has_state_within(state: PartitionState, position: int | None, time_ms: int | None) -> bool:
    """Whether `state` is not empty, and nothing in it is from after the cut."""
    if state.next_position == 0:
        return False
    if position is not None and state.next_position > position + 1:
        return False
    return time_ms is None or state.log_time_ms <= time_ms
