"""Checkpoints: a partition's state in the store, a cache of its log that can be verified.

A checkpoint is one value for the partition (with the deletion state, and a checksum for each
leader epoch), one value per leader epoch (its tables are kept in pages, so that no write grows
with the epoch) and one row per segment. The partition's value has position, chain hash, digest.

Rule 1: a checkpoint is written in one atomic step, which expects the partition's value that it
replaces. So a process that slept, and was overtaken by another writer, changes nothing.
Rule 2: a checkpoint that is read counts only if its digest is that of the folded log.
Rule 3: a checkpoint never goes back. It replaces one of an earlier position; one of the same
position or a later one stays.
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Generator, Iterator, Sequence
from enum import Enum
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeAlias

from tierledger.events.errors import (
    CorruptCheckpoint,
    CorruptLog,
    FormatTooNew,
    InvalidArgument,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.state import (
    DIGEST_MODULUS,
    DepartedIds,
    PartitionState,
    StoredHead,
    hash_of,
)
from tierledger.events.tables.epoch_tables import EpochTables
from tierledger.events.tables.paged_map import K, PagedMap, StoredPage, V
from tierledger.events.tables.segment_rows import SegmentRows, id_of_row
from tierledger.events.tables.spilled_map import Spill
from tierledger.events.typed_fields import (
    Count,
    Id,
    Int32,
    Int64,
    PartitionNumber,
    Text,
    Topic,
    checked,
    made_of,
)
from tierledger.storage.backend import (
    AtomicConflict,
    Create,
    MetadataStorageBackend,
    Operation,
    Put,
    Remove,
    Update,
)
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.serde import MetadataSerDe

ROWS_PER_READ = 500
"""Rows that a load reads between two yields: below 2 ms of work."""

EPOCHS_PER_READ = 32
"""Leader epochs whose values a load reads between two yields."""

PAGES_PER_READ = 100
"""Pages that a load reads between two yields: 1.2 MB."""

ROWS_AT_ONCE = 4000
"""Changed rows up to which a draft copies each instead of taking a snapshot: 1 ms."""

OPERATIONS_PER_STEP = 100
"""Rows, or KiB of pages, that are planned or freed between two yields: below 1 ms."""

TOMBSTONES, KEPT = "tombstones", "kept"
"""In place of a leader epoch's table, with 0 in place of the epoch. The store has tombstones
under epoch 0, from where `sweep` removes them, and kept segments in a place that stays."""

COPY_BEHIND_MAX = 1000
"""Events that a copied state may lack of the stored checkpoint: 4 ms to replay. One that lacks
more is of a follower that stood still, and the checkpoint is read sooner than the log."""

LOAD_ATTEMPTS = 5
"""Attempts to read a checkpoint that others keep replacing, before the log is read instead."""


Directory: TypeAlias = tuple[tuple[Count, Any, Count, Count], ...]
"""Number, first key, size and checksum of each page of a table."""


@types.coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Yield once to the event loop, asyncio's or another."""
    yield


class PartitionValue(NamedTuple):
    """The partition's own value, against which the rest of the checkpoint is verified."""

    topic_id: Id
    partition: PartitionNumber
    topic: Topic
    delete_state: Int64 | None
    next_position: Count
    next_batch: Count
    chain_hash: Id
    digest: Id
    head: StoredHead
    epochs: tuple[tuple[Int32, Count], ...]
    """Per leader epoch its number and the checksum of its value."""
    row_count: Count
    tombstones: Directory
    """Directory of the tombstones' pages."""
    kept: Directory = ()
    """The same of segments that were kept from deletion. Left out without any, as it was before
    there were such."""

    def plain(self) -> list[Any]:
        """The fields as they are stored."""
        return list(self if self.kept else self[:-1])


class _EpochValue(NamedTuple):
    """A leader epoch's own value."""

    epoch: Int32
    highest: Int64 | None
    size: Int64
    directories: tuple[tuple[Text, Directory], ...]


class _PageValue(NamedTuple):
    packed: bytes


class PagePlace(NamedTuple):
    """A page and the table that it is of."""

    epoch: int
    table: str
    page: StoredPage


def _places(epoch: int, table: str, directory: Directory) -> list[PagePlace]:
    return [
        PagePlace(epoch, table, StoredPage(number, first, size, proof, b""))
        for number, first, size, proof in directory
    ]


class CheckpointDraft(NamedTuple):
    """What a checkpoint of a state has to write; does not change while the state does."""

    value: PartitionValue
    """The partition's value, still without the checksums of epochs and tombstones."""
    rows: SegmentRows
    """Rows of the state, at least the changed ones."""
    changed_rows: dict[int, set[bytes]]
    epochs: dict[int, tuple[EpochTables, EpochTables | None]]
    """Per leader epoch the state's own tables, which get their checksums when planned, and a
    frozen copy; None if the tables have not changed."""
    tombstones: PagedMap[int, bytes]
    kept: PagedMap[int, bytes]
    is_whole: bool
    is_finished: bool

    def dismantle(self) -> Iterator[None]:
        """Free rows and tables in small steps; the draft cannot be used afterwards."""
        yield from self.rows.dismantle()
        for _, frozen in self.epochs.values():
            for _, table in frozen.tables() if frozen is not None else ():
                yield from table.dismantle()
        yield from self.tombstones.dismantle()
        yield from self.kept.dismantle()


class CheckpointPlan(NamedTuple):
    """One atomic step, and the partition's value that it writes."""

    operations: list[Operation]
    partition_value: bytes
    next_position: int
    is_finished: bool
    """Whether the partition's deletion is finished: its rows and epochs may then be swept."""


def dismantle_operations(operations: list[Operation]) -> Iterator[None]:
    """Free `operations` in small steps.

    Pass a copy of a plan's list: the store may still be writing it after a timeout.
    """
    while operations:
        del operations[-OPERATIONS_PER_STEP:]
        yield


class Standing(Enum):
    """Which checkpoint the store has after an attempt to write one, by its position."""

    OURS = "ours"
    LESS = "less than ours"
    AS_MUCH = "as much as ours, or more"


class CheckpointStore:
    """Writes and reads the checkpoints of one partition."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        topic_id_partition: TopicIdPartition,
        spill: Spill | None = None,
    ) -> None:
        """`spill`: for what is kept, in the states that are read."""
        self.backend = backend
        self.keys = keys
        self.serde = serde
        self.topic_id_partition = topic_id_partition
        self._spill = spill

    def freeze(
        self, state: PartitionState, next_batch: int, *, whole: bool = False
    ) -> CheckpointDraft:
        """A draft of what a checkpoint of `state` has to write.

        The state forgets its changes. If the draft is not stored, the next one has to be whole.

        Args:
            state: A state with `tracks_changes`, at the end of batch `next_batch - 1`.
            next_batch: The number of the batch that follows.
            whole: Draft all of the state, instead of the changes since the last draft.
        """
        digest = state.digest()
        changed, state.changed_rows = state.changed_rows, {}
        if whole or sum(map(len, changed.values())) > ROWS_AT_ONCE:
            rows = state.rows.snapshot()
        else:  # A snapshot would make the state copy each shard at its next change.
            rows = state.rows.only(chain.from_iterable(changed.values()))
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
            head=StoredHead(*state.head_fields()),
            epochs=(),
            row_count=len(state.rows),
            tombstones=(),
        )
        epochs = {
            epoch: (tables, tables.freeze(whole=whole) if whole or tables.changed else None)
            for epoch, tables in sorted(state.epochs.items())
        }
        tombstones = state.tombstones.by_position.freeze(whole=whole)
        kept = state.kept.by_position.freeze(whole=whole)
        return CheckpointDraft(
            value, rows, changed, epochs, tombstones, kept, whole, state.is_finished
        )

    def plan(
        self, state: PartitionState, next_batch: int, expected: bytes | None
    ) -> CheckpointPlan:
        """The step that stores the changes of `state` since the last draft; blocks meanwhile.

        `expected`: the partition's value as it was last read or written; None if absent.
        """
        steps = self.steps(self.freeze(state, next_batch), expected)
        while (plan := _last_of(steps)) is None:
            pass
        return plan

    async def plan_in_slices(
        self, draft: CheckpointDraft, expected: bytes | None
    ) -> CheckpointPlan:
        """The step that stores `draft`; lets others run while it is made.

        If the draft is whole, the step also removes everything else that the store has.
        """
        steps = self.steps(draft, expected)
        while (plan := _last_of(steps)) is None:
            await yield_to_loop()
        # The step of a finished deletion does not remove rows; `sweep` does that afterwards.
        return await self._in_place_of_all(plan) if draft.is_whole else plan

    def steps(
        self, draft: CheckpointDraft, expected: bytes | None
    ) -> Generator[None, None, CheckpointPlan]:
        """The plan for `draft`, with a break after every `OPERATIONS_PER_STEP`."""
        operations: list[Operation] = []
        made = 0
        for operation in self._changes(draft):
            operations.append(operation)
            made += 1 if isinstance(operation, Remove) else 1 + len(operation.value) // 1024
            if made >= OPERATIONS_PER_STEP:
                made = 0
                yield
        yield
        filled = draft.value._replace(
            epochs=tuple((epoch, tables.proof) for epoch, (tables, _) in draft.epochs.items()),
            tombstones=tuple(map(tuple, draft.tombstones.directory())),
            kept=tuple(map(tuple, draft.kept.directory())),
        )
        value = self.serde.serialize("partition", filled.plain())
        operations.insert(0, self._guard(value, expected))
        return CheckpointPlan(operations, value, filled.next_position, draft.is_finished)

    def _guard(self, value: bytes, expected: bytes | None) -> Operation:
        """The operation that fails the whole step if another writer was faster."""
        key = self.keys.partition(self.topic_id_partition)
        return Create(key, value) if expected is None else Update(key, value, expected)

    def _changes(self, draft: CheckpointDraft) -> Iterator[Operation]:
        tip, key_of, serialize = (
            self.topic_id_partition,
            self.keys.segment,
            self.serde.serialize_row,
        )
        if draft.is_whole:
            for row in draft.rows:
                yield Put(key_of(tip, id_of_row(row)), serialize(row))
        else:
            for _, shard in sorted(draft.changed_rows.items()):
                for segment_id in sorted(shard):
                    key, changed = key_of(tip, segment_id), draft.rows.get(segment_id)
                    yield Remove(key) if changed is None else Put(key, serialize(changed))
        for epoch, (tables, frozen) in draft.epochs.items():
            if frozen is not None:
                yield from self._epoch(epoch, tables, frozen)
        yield from self._pages(0, TOMBSTONES, draft.tombstones)
        yield from self._pages(0, KEPT, draft.kept)

    def _epoch(
        self, epoch: int, tables: EpochTables, frozen: EpochTables
    ) -> Iterator[Operation]:
        directories = []
        for name, table in frozen.tables():
            yield from self._pages(epoch, name, table)
            directories.append([name, table.directory()])
        value = self.serde.serialize("epoch", [epoch, frozen.highest, frozen.size, directories])
        tables.proof = zlib.crc32(value)
        yield Put(self.keys.leader_epoch(self.topic_id_partition, epoch), value)

    def _pages(self, epoch: int, name: str, table: PagedMap[K, V]) -> Iterator[Operation]:
        """The operations for the changed pages of a frozen table.

        The live table shares these pages until it changes them, and so gets their checksums.
        """
        for page in table.pages:
            if page.number in table.changed:
                value = self.serde.serialize("page", [page.pack()])
                page.proof = zlib.crc32(value)
                yield Put(self._page_key(epoch, name, page.number), value)
        for number in sorted(table.dropped):
            yield Remove(self._page_key(epoch, name, number))

    def _page_key(self, epoch: int, name: str, page: int) -> str:
        tip = self.topic_id_partition
        if name == KEPT:
            return self.keys.kept_page(tip, page)
        return self.keys.leader_epoch_page(tip, epoch, name, page)

    async def _in_place_of_all(self, plan: CheckpointPlan) -> CheckpointPlan:
        """A whole plan reduced to the differences from what the store has.

        The plan's guard expects the partition's value that was read before the store is listed
        here. So a process that is overtaken meanwhile changes nothing.
        """
        guard, *puts = plan.operations
        wanted: dict[str, Operation] = {}
        for put in puts:
            wanted[put.key] = put
            if len(wanted) % ROWS_PER_READ == 0:
                await yield_to_loop()
        removals: list[Operation] = []
        after: str | None = None
        while True:
            found = await self.backend.get_like(
                self.keys.state(self.topic_id_partition), after=after, limit=ROWS_PER_READ
            )
            for key, stored in found:
                if wanted.get(key) == Put(key, stored):
                    del wanted[key]
                elif key not in wanted and key != guard.key:
                    removals.append(Remove(key))
            if len(found) < ROWS_PER_READ:
                break
            after = found[-1][0]
            await yield_to_loop()
        return plan._replace(operations=[guard, *removals, *wanted.values()])

    async def read_partition(self) -> tuple[bytes, PartitionValue] | None:
        """The partition's value, as stored and parsed; None if there is no checkpoint."""
        stored = await self.read_stored()
        return None if stored is None else (stored, self.parse_partition(stored))

    def parse_partition(self, stored: bytes) -> PartitionValue:
        """A stored partition value, parsed; raises as the function `parse_partition` does."""
        return parse_partition(self.serde, self.topic_id_partition, stored)

    async def load(
        self, stored: bytes, value: PartitionValue, *, tracks_changes: bool = False
    ) -> PartitionState:
        """The state in the checkpoint `stored`, verified by its digest.

        Lets others run after every few hundred rows.

        Raises:
            CorruptCheckpoint: It does not verify, or a writer replaced it during the read.
            FormatTooNew: A newer program wrote it.
        """
        try:
            return await self._load(stored, value, tracks_changes=tracks_changes)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # The checksums are right, but the contents are not those of a checkpoint.
            raise CorruptCheckpoint(
                f"the checkpoint of {self.topic_id_partition} has damaged contents: {error!r}"
            ) from error

    async def _load(
        self, stored: bytes, value: PartitionValue, *, tracks_changes: bool
    ) -> PartitionState:
        state = self.blank(value, tracks_changes=tracks_changes)
        for start in range(0, len(value.epochs), EPOCHS_PER_READ):
            await self._load_epochs(state, value.epochs[start : start + EPOCHS_PER_READ])
        await self._load_departed(state.tombstones, TOMBSTONES, value.tombstones)
        await self._load_departed(state.kept, KEPT, value.kept)
        if not state.is_finished:  # Rows of a finished deletion wait to be swept.
            await self._load_rows(state)
        if len(state.rows) != value.row_count or state.digest() != value.digest:
            is_renewed = await self.read_stored() != stored
            what = "was renewed while it was read" if is_renewed else "does not verify"
            raise CorruptCheckpoint(
                f"the checkpoint of {self.topic_id_partition} at {value.next_position} {what}"
            )
        return state

    def blank(self, value: PartitionValue, *, tracks_changes: bool = False) -> PartitionState:
        """The checkpoint's state without rows, tables and tombstones."""
        tip = self.topic_id_partition
        known = type(tip)(tip.topic_id, tip.partition, value.topic)
        state = PartitionState(
            known, value.chain_hash, tracks_changes=tracks_changes, spill=self._spill
        )
        state.next_position = value.next_position
        state.restore_head(value.head)
        return state

    async def _load_epochs(
        self, state: PartitionState, epochs: Sequence[tuple[int, int]]
    ) -> None:
        """Load epochs that one request reads; the pages of all their tables come together."""
        places: list[PagePlace] = []
        for (epoch, _), read in zip(epochs, await self.read_epochs(epochs), strict=True):
            state.epochs[epoch], directories = read
            for name, _ in state.epochs[epoch].tables():
                places += _places(epoch, name, directories[name])
        for start in range(0, len(places), PAGES_PER_READ):
            part = places[start : start + PAGES_PER_READ]
            read_pages = zip(part, await self.read_pages(part), strict=True)
            for (epoch, name), some in groupby(read_pages, lambda one: one[0][:2]):
                table: PagedMap[Any, Any] = getattr(state.epochs[epoch], name)
                table.adopt(page for _, page in some)

    async def read_epochs(
        self, epochs: Sequence[tuple[int, int]]
    ) -> list[tuple[EpochTables, dict[str, Directory]]]:
        """Each epoch's tables without their pages, and the directory of each table's pages.

        `epochs`: the number of each, and the checksum of its value.
        """
        tip = self.topic_id_partition
        found = await self.backend.get_each(
            [self.keys.leader_epoch(tip, epoch) for epoch, _ in epochs]
        )
        return [
            self._parse_epoch(epoch, proof, stored)
            for (epoch, proof), stored in zip(epochs, found, strict=True)
        ]

    def _parse_epoch(
        self, epoch: int, proof: int, stored: bytes | None
    ) -> tuple[EpochTables, dict[str, Directory]]:
        if stored is None or zlib.crc32(stored) != proof:
            raise CorruptCheckpoint(
                f"{self.topic_id_partition}: leader epoch {epoch} is "
                + ("missing" if stored is None else "not the one the checkpoint names")
            )
        _, highest, size, directories = _read(self.serde, "epoch", _EpochValue, stored)
        tables = EpochTables()
        tables.highest, tables.size = highest, size
        tables.changed, tables.proof = False, proof
        by_name = dict(directories)
        if missing := {name for name, _ in tables.tables()} - by_name.keys():
            raise CorruptCheckpoint(
                f"leader epoch {epoch} without {', '.join(sorted(missing))}"
            )
        return tables, by_name

    async def read_pages(self, wanted: Sequence[PagePlace]) -> list[StoredPage]:
        """The pages `wanted`, with their bytes, each verified by its directory's checksum."""
        keys = [self._page_key(one.epoch, one.table, one.page.number) for one in wanted]
        found = await self.backend.get_each(keys)
        pages = []
        for key, (_, _, page), stored in zip(keys, wanted, found, strict=True):
            if stored is None or zlib.crc32(stored) != page.proof:
                what = "missing" if stored is None else "not the one its directory names"
                raise CorruptCheckpoint(f"page {key} is {what}")
            (packed,) = _read(self.serde, "page", _PageValue, stored)
            pages.append(page._replace(packed=packed))
        return pages

    async def _load_departed(
        self, departed: DepartedIds, name: str, directory: Directory
    ) -> None:
        pages = departed.by_position
        for start in range(0, len(directory), PAGES_PER_READ):
            part, before = directory[start : start + PAGES_PER_READ], len(pages.pages)
            pages.adopt(await self.read_pages(_places(0, name, part)))
            for page in pages.pages[before:]:
                for position, entry in zip(page.keys, page.values, strict=True):
                    departed.index(position, entry)
                await yield_to_loop()

    async def read_kept(self, value: PartitionValue) -> PagedMap[int, bytes]:
        """The segments that were kept from deletion, by the position of that."""
        kept: PagedMap[int, bytes] = PagedMap()
        for start in range(0, len(value.kept), PAGES_PER_READ):
            part = value.kept[start : start + PAGES_PER_READ]
            kept.adopt(await self.read_pages(_places(0, KEPT, part)))
        return kept

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
        """The partition's value as stored now; None if there is no checkpoint."""
        return await self.backend.get(self.keys.partition(self.topic_id_partition))

    async def sweep(self) -> None:
        """Remove the rows and leader epochs that a finished deletion has left."""
        await self.backend.remove_like(self.keys.segments(self.topic_id_partition))
        await self.backend.remove_like(self.keys.leader_epochs(self.topic_id_partition))


def parse_partition(
    serde: MetadataSerDe, topic_id_partition: TopicIdPartition, stored: bytes
) -> PartitionValue:
    """A stored partition value, parsed.

    Raises:
        CorruptCheckpoint: `stored` is no such value, or another partition's.
        FormatTooNew: A newer program wrote it.
    """
    value = _read(serde, "partition", PartitionValue, stored)
    _require_own(topic_id_partition, value.topic_id, value.partition)
    return value


def next_batch_in(
    serde: MetadataSerDe, topic_id_partition: TopicIdPartition, stored: bytes
) -> int:
    """The `next_batch` of a stored partition value, whose other fields are not checked.

    Raises as `parse_partition` does.
    """
    first = serde.first_fields("partition", stored, 6)  # A plan asks for thousands of these.
    try:
        topic_id, partition, _, _, _, next_batch = first
        checked(Count, next_batch, "next_batch")
    except (InvalidArgument, ValueError) as error:
        raise CorruptCheckpoint(f"a partition of another form: {error}") from error
    _require_own(topic_id_partition, topic_id, partition)
    return int(next_batch)


def _require_own(tip: TopicIdPartition, topic_id: object, partition: object) -> None:
    if (topic_id, partition) != (tip.topic_id, tip.partition):
        raise CorruptCheckpoint(f"the checkpoint of {tip} says it is another partition's")


def boundary_in(
    serde: MetadataSerDe, topic_id_partition: TopicIdPartition, number: int, stored: bytes
) -> PartitionValue | None:
    """The boundary in slot `number`, in place of a forgotten log; None if it is a batch.

    Raises:
        CorruptLog: The boundary belongs to another slot.
    """
    try:
        boundary = parse_partition(serde, topic_id_partition, stored)
    except CorruptCheckpoint:
        return None
    if boundary.next_batch != number + 1:
        raise CorruptLog(
            f"{topic_id_partition}: the boundary in batch {number} is that of batch "
            f"{boundary.next_batch - 1}"
        )
    return boundary


def _read(serde: MetadataSerDe, name: str, kind: type[V], stored: bytes) -> V:
    """The fields of a stored value; its checksum may be right although it is no checkpoint."""
    try:
        return made_of(kind, serde.deserialize(name, stored))
    except InvalidArgument as error:
        raise CorruptCheckpoint(f"a {name} of another form: {error}") from error


def _last_of(steps: Generator[None, None, CheckpointPlan]) -> CheckpointPlan | None:
    """Take the next of `steps`; the plan if it was the last, else None."""
    try:
        next(steps)
    except StopIteration as end:
        plan: CheckpointPlan = end.value
        return plan
    return None


class CheckpointWriter:
    """Replaces the stored checkpoint by newer ones, on behalf of one process."""

    def __init__(self, store: CheckpointStore) -> None:
        self.stored: bytes | None = None
        """The partition's value that the next checkpoint has to replace; None if absent."""
        self.is_whole = False
        """Whether the stored rows and tables are not known, so that all have to be replaced."""
        self._store = store

    async def begin_with_copy(self, state: PartitionState) -> int | None:
        """Begin with a copied state; the number of its events that no checkpoint has.

        The next checkpoint will replace the one that is stored now. None, and nothing has
        begun, if the state is so far behind that one that loading it takes less time.

        Raises:
            CorruptCheckpoint: What is stored is none.
            FormatTooNew: A newer program wrote it.
            RemoteStorageError: The store could not be read.
        """
        # Which checkpoint is stored is read, and not taken from the follower, which reads only
        # the log: whoever led since may have written one, and the next one replaces exactly
        # the stored value. Nor does anybody know how the stored rows and pages differ from the
        # state, so the next checkpoint is whole: it reads what is stored, and writes what
        # differs. That is as much as the load that was left out, but nobody waits for it.
        stored = await self._store.read_stored()
        covered = 0 if stored is None else self._store.parse_partition(stored).next_position
        if covered - state.next_position > COPY_BEHIND_MAX:
            return None
        self.stored, self.is_whole = stored, True
        return max(0, state.next_position - covered)

    def freeze(self, state: PartitionState, next_batch: int) -> CheckpointDraft:
        """A draft of the next checkpoint, as of now; see `CheckpointStore.freeze`."""
        draft = self._store.freeze(state, next_batch, whole=self.is_whole)
        self.is_whole = True  # Until the draft is stored: the state has forgotten its changes.
        return draft

    async def plan(self, draft: CheckpointDraft) -> CheckpointPlan:
        """The step that stores `draft` in place of the stored checkpoint."""
        return await self._store.plan_in_slices(draft, self.stored)

    async def write(self, plan: CheckpointPlan) -> Standing:
        """Carry out `plan`; returns which checkpoint the store has then.

        Raises:
            OutcomeUnknown: The plan may be stored; a retry tells.
            RemoteStorageError: Nothing changed.
        """
        try:
            await self._store.backend.execute_atomically(plan.operations)
        except AtomicConflict:
            return self.found(plan, await self._store.read_stored())
        return self.found(plan, plan.partition_value)

    def found(self, plan: CheckpointPlan, stored: bytes | None) -> Standing:
        """Note that the store has `stored` after an attempt to carry out `plan`.

        It may be the plan's own value, if the answer to an earlier attempt was lost.
        """
        # Two leaders write checkpoints of one partition whenever one of them has not noticed
        # yet that it was replaced. The one of the older state must not win: the log before a
        # checkpoint may be forgotten, so a state that goes back is not a slower start but a
        # hole. Therefore a plan replaces exactly the value that it was made from
        # (`execute_atomically` compares), and who loses reads what won.
        #
        # After a loss to less than this plan covers, the next plan is made from what was found.
        # After a loss to as much or more it is not: a later plan of this leader may still cover
        # less, and replacing the value it has just read would put the state back. Keeping the
        # outdated `stored` makes that attempt fail, and compare, again.
        standing = self._standing(plan, stored)
        if standing is not Standing.AS_MUCH:
            self.stored = stored
        if standing is Standing.OURS:
            self.is_whole = False
        return standing

    def _standing(self, plan: CheckpointPlan, stored: bytes | None) -> Standing:
        if stored == plan.partition_value:
            return Standing.OURS
        try:
            position = (
                0 if stored is None else self._store.parse_partition(stored).next_position
            )
        except FormatTooNew:
            return Standing.AS_MUCH  # A newer program has taken over.
        except CorruptCheckpoint:
            return Standing.LESS
        return Standing.LESS if position < plan.next_position else Standing.AS_MUCH
