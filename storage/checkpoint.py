"""A partition's state as it is stored: a cache of its log, with a proof.

The layout is that of the storage-backed manager's document: one value for the partition
(deletion state and, per leader epoch, what is there), one per leader epoch (`offsetToId`,
`unreferencedSegmentIds`, `highestLogOffset`, kept in pages so that no write grows with the
epoch), one per segment. The partition's value carries position, chain hash and digest.

Rule 1: a checkpoint is written in one atomic step that expects the partition's value it was
computed from. A process that was overtaken while it slept changes nothing.
Rule 2: what is read back counts only if its digest is that of the fold.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.events.epoch_tables import EpochTables
from tierledger.events.errors import CorruptCheckpoint
from tierledger.events.paged_map import K, PagedMap, StoredPage, V
from tierledger.events.partition_state import DIGEST_MODULUS, PartitionState, hash_of
from tierledger.events.segment_rows import id_of_row
from tierledger.storage.backend import Create, Operation, Put, Remove, Update

if TYPE_CHECKING:
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe

ROWS_PER_READ = 500
"""Rows a load takes between two breaths: below 2 ms of work."""

PAGES_PER_READ = 100
"""Pages a load takes between two breaths: 1.2 MB."""

LOAD_ATTEMPTS = 5
"""Tries to read a checkpoint that is being renewed, before the log is read instead."""


class PartitionValue(NamedTuple):
    """The partition's own value: what the rest of the checkpoint stands for."""

    topic_id: bytes
    partition: int
    topic: str
    delete_state: int | None
    next_position: int
    next_batch: int
    chain_hash: bytes
    digest: bytes
    head: list[Any]
    epochs: list[list[int]]
    """Per leader epoch its number and the checksum of its value."""
    row_count: int
    tombstones: list[list[Any]]
    """Directory of the tombstones' pages."""


class CheckpointPlan(NamedTuple):
    """One atomic step, and the partition's value that the next step will expect."""

    operations: list[Operation]
    partition_value: bytes
    is_finished: bool = False
    """Whether it is of a finished deletion: what the partition has left may be swept then."""


class CheckpointStore:
    """Writes and reads the checkpoints of one partition."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        topic_id_partition: TopicIdPartition,
    ) -> None:
        self.backend = backend
        self.keys = keys
        self.serde = serde
        self.topic_id_partition = topic_id_partition

    def plan(
        self, state: PartitionState, next_batch: int, expected: bytes | None
    ) -> CheckpointPlan:
        """What to write so that the store holds `state`: only what changed since the last plan.

        The state forgets its changes: if the step fails for good, load it anew.

        Args:
            state: With `tracks_changes`, at the end of batch `next_batch - 1`.
            next_batch: The number of the batch that follows.
            expected: The partition's value as it was last read or written; none if absent.
        """
        digest = state.digest()
        operations: list[Operation] = []
        for segment_id in sorted(state.changed_rows):
            key = self.keys.segment(self.topic_id_partition, segment_id)
            row = state.rows.get(segment_id)
            operations.append(
                Remove(key) if row is None else Put(key, self.serde.serialize_row(row))
            )
        state.changed_rows.clear()
        for epoch, tables in sorted(state.epochs.items()):
            if tables.changed:
                operations += self._epoch(epoch, tables)
        operations += self._pages(0, "tombstones", state.tombstones.by_position)
        value = self._partition_value(state, next_batch, digest)
        key = self.keys.partition(self.topic_id_partition)
        guard = Create(key, value) if expected is None else Update(key, value, expected)
        return CheckpointPlan([guard, *operations], value, state.is_finished)

    def _epoch(self, epoch: int, tables: EpochTables) -> list[Operation]:
        operations: list[Operation] = []
        directories = []
        for name, table in tables.tables():
            operations += self._pages(epoch, name, table)
            directories.append([name, table.directory()])
        value = self.serde.serialize("epoch", [epoch, tables.highest, tables.size, directories])
        key = self.keys.leader_epoch(self.topic_id_partition, epoch)
        tables.changed, tables.proof = False, zlib.crc32(value)
        return [Put(key, value), *operations]

    def _pages(self, epoch: int, name: str, table: PagedMap[K, V]) -> list[Operation]:
        if not table.changed and not table.dropped:
            return []
        key = self.keys.leader_epoch_page
        operations: list[Operation] = []
        for page in table.pages:
            if page.number in table.changed:
                value = self.serde.serialize("page", [page.pack()])
                page.proof = zlib.crc32(value)
                at = key(self.topic_id_partition, epoch, name, page.number)
                operations.append(Put(at, value))
        operations += [
            Remove(key(self.topic_id_partition, epoch, name, number))
            for number in sorted(table.dropped)
        ]
        table.changed.clear()
        table.dropped.clear()
        return operations

    def _partition_value(self, state: PartitionState, next_batch: int, digest: bytes) -> bytes:
        tip = self.topic_id_partition
        value = PartitionValue(
            topic_id=bytes(tip.topic_id),
            partition=tip.partition,
            topic=state.topic_id_partition.topic,
            delete_state=None if state.delete is None else state.delete.state,
            next_position=state.next_position,
            next_batch=next_batch,
            chain_hash=state.chain_hash,
            digest=digest,
            head=state.head_fields(),
            epochs=[[epoch, tables.proof] for epoch, tables in sorted(state.epochs.items())],
            row_count=len(state.rows),
            tombstones=state.tombstones.by_position.directory(),
        )
        return self.serde.serialize("partition", list(value))

    async def read_partition(self) -> tuple[bytes, PartitionValue] | None:
        """The partition's value as stored, and what it says; none if there is no checkpoint."""
        stored = await self.backend.get(self.keys.partition(self.topic_id_partition))
        if stored is None:
            return None
        return stored, self.parse_partition(stored)

    def parse_partition(self, stored: bytes) -> PartitionValue:
        """What a stored partition value says.

        Raises:
            CorruptCheckpoint: It is not one, or another partition's.
        """
        fields = self.serde.deserialize("partition", stored)
        if len(fields) != len(PartitionValue._fields):
            raise CorruptCheckpoint(f"a partition's value with {len(fields)} fields")
        value = PartitionValue(*fields)
        tip = self.topic_id_partition
        if (value.topic_id, value.partition) != (tip.topic_id, tip.partition):
            raise CorruptCheckpoint(f"the checkpoint of {tip} says it is another partition's")
        return value

    async def load(
        self, stored: bytes, value: PartitionValue, *, tracks_changes: bool = False
    ) -> PartitionState:
        """The state that the checkpoint `stored` stands for, verified by its digest.

        Lets others run after every few hundred rows.

        Raises:
            CorruptCheckpoint: It does not verify, or it was renewed while it was read.
        """
        state = self.blank(value, tracks_changes=tracks_changes)
        for epoch, proof in value.epochs:
            tables, directories = await self.read_epoch(epoch, proof)
            state.epochs[epoch] = tables
            for name, table in tables.tables():
                table.adopt(await self._read_pages(epoch, name, directories[name]))
        await self._load_tombstones(state, value)
        if not state.is_finished:  # What a finished deletion has left waits to be swept.
            await self._load_rows(state)
        if len(state.rows) != value.row_count or state.digest() != value.digest:
            now = await self.backend.get(self.keys.partition(self.topic_id_partition))
            what = "was renewed while it was read" if now != stored else "does not verify"
            raise CorruptCheckpoint(
                f"the checkpoint of {self.topic_id_partition} at {value.next_position} {what}"
            )
        return state

    def blank(self, value: PartitionValue, *, tracks_changes: bool = False) -> PartitionState:
        """The state without its rows, tables and tombstones."""
        tip = self.topic_id_partition
        known = type(tip)(tip.topic_id, tip.partition, value.topic)
        state = PartitionState(known, value.chain_hash, tracks_changes=tracks_changes)
        state.next_position = value.next_position
        state.restore_head(value.head)
        # `value` may serve again; these two are changed in place.
        state.count_by_state = list(state.count_by_state)
        state.bytes_by_state = list(state.bytes_by_state)
        return state

    async def read_epoch(
        self, epoch: int, proof: int
    ) -> tuple[EpochTables, dict[str, list[list[Any]]]]:
        """An epoch's tables without their pages, and where the pages are."""
        stored = await self.backend.get(self.keys.leader_epoch(self.topic_id_partition, epoch))
        if stored is None or zlib.crc32(stored) != proof:
            raise CorruptCheckpoint(
                f"{self.topic_id_partition}: leader epoch {epoch} is "
                + ("missing" if stored is None else "not the one the checkpoint names")
            )
        _, highest, size, directories = self.serde.deserialize("epoch", stored)
        tables = EpochTables()
        tables.highest, tables.size = highest, size
        tables.changed, tables.proof = False, proof
        return tables, {entry[0]: entry[1] for entry in directories}

    async def _read_pages(
        self, epoch: int, name: str, directory: list[list[Any]]
    ) -> list[StoredPage]:
        pages: list[StoredPage] = []
        for start in range(0, len(directory), PAGES_PER_READ):
            part = [
                StoredPage(number, first, size, proof, b"")
                for number, first, size, proof in directory[start : start + PAGES_PER_READ]
            ]
            pages += await self.read_pages(epoch, name, part)
        return pages

    async def read_pages(
        self, epoch: int, name: str, wanted: list[StoredPage]
    ) -> list[StoredPage]:
        """`wanted` with their bytes, each checked against its directory's checksum."""
        keys = [
            self.keys.leader_epoch_page(self.topic_id_partition, epoch, name, page.number)
            for page in wanted
        ]
        found = await self.backend.get_each(keys)
        pages = []
        for key, page, stored in zip(keys, wanted, found, strict=True):
            if stored is None or zlib.crc32(stored) != page.proof:
                what = "missing" if stored is None else "not the one its directory names"
                raise CorruptCheckpoint(f"page {key} is {what}")
            (packed,) = self.serde.deserialize("page", stored)
            pages.append(page._replace(packed=packed))
        return pages

    async def _load_tombstones(self, state: PartitionState, value: PartitionValue) -> None:
        tombstones = state.tombstones
        tombstones.by_position.adopt(await self._read_pages(0, "tombstones", value.tombstones))
        for position, entry in tombstones.by_position.items():
            tombstones.index(position, entry)

    async def _load_rows(self, state: PartitionState) -> None:
        prefix = self.keys.segments(self.topic_id_partition)
        after, total, rows = None, 0, state.rows
        deserialize = self.serde.deserialize_row
        while True:
            found = await self.backend.get_like(prefix, after=after, limit=ROWS_PER_READ)
            for _, stored in found:
                row = deserialize(stored)
                rows.put(id_of_row(row), row)
                total += hash_of(row)
            if len(found) < ROWS_PER_READ:
                break
            after = found[-1][0]
        state.rows_digest = total % DIGEST_MODULUS

    async def read_stored(self) -> bytes | None:
        """The partition's value as it stands."""
        return await self.backend.get(self.keys.partition(self.topic_id_partition))

    async def sweep(self) -> None:
        """Remove what a finished deletion has left: segments and leader epochs."""
        await self.backend.remove_like(self.keys.segments(self.topic_id_partition))
        await self.backend.remove_like(self.keys.leader_epochs(self.topic_id_partition))
