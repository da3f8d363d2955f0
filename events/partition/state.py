"""One partition's state: the fold of its log up to a position.

Rule 1: only `evolve` changes a state, in place, and only with durable events.
Rule 2: a state follows from the events alone, never from settings, clocks or the order of
arrival; so two replicas at the same position have the same digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, Self

import msgpack
from msgspec import Meta
from typing_extensions import override

from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.tables.epoch_tables import EpochTables
from tierledger.events.tables.int_index import IntIndex
from tierledger.events.tables.paged_map import PagedMap
from tierledger.events.tables.segment_rows import ID_BYTES, SIZE, SegmentRows, unpack_row
from tierledger.events.tables.spilled_map import Spill, SpilledMap
from tierledger.events.typed_fields import Count, Id, Int32, Int64, RequestId, Text

REQUESTS_KEPT = 256
"""Requests of one broker whose outcome is remembered: four rounds of 64 outstanding calls."""

REQUESTS_MAX = 320
"""Requests at which all but the last `REQUESTS_KEPT` are removed in one go. Removing the oldest
one by one would make each search skip the gaps at a dictionary's front."""

PENDING_MAX = 512
"""Changed rows at which a batch's end brings the rows' digest up to date: 0.5 ms."""

DIGEST_MODULUS = 1 << 128


_new = tuple.__new__  # A named tuple's own constructor takes three times as long.
_pack = msgpack.Packer(autoreset=True).pack
"""Does what `msgpack.packb` does, without creating a packer for each call."""


class Session(NamedTuple):
    """The last session: which broker leads or led. (incarnation, announcement) is the lease."""

    number: int
    broker_id: int
    incarnation: int
    announcement: int
    assignment: int
    leader_epoch: int | None
    import_cluster: str | None
    is_open: bool

    @property
    def claim(self) -> Claim:
        return _new(Claim, self[1:4])

    @property
    def pair(self) -> tuple[int, int]:
        """Incarnation and announcement: of one broker's claims, the later has the greater."""
        return (self.incarnation, self.announcement)

    def is_of(self, claim: Claim) -> bool:
        """Whether `claim` opened the session; faster than comparing `self.claim`."""
        return self[1:4] == claim


class DisputeRun(NamedTuple):
    """The last dispute over leadership; it counts while the session it opened is the last."""

    in_a_row: int
    session: int
    log_time_ms: int


class DeleteMetadata(NamedTuple):
    """State of the whole partition's deletion."""

    state: int
    broker_id: int
    event_timestamp_ms: int


class StoredHead(NamedTuple):
    """The stored form of all that is neither a row nor in an epoch's table."""

    log_time_ms: Int64
    session: tuple[Count, Int32, Int64, Int64, Int64, Int32 | None, Text | None, bool] | None
    heard: tuple[tuple[Int32, Int64, Int64], ...]
    requests: tuple[tuple[Int32, tuple[tuple[RequestId, Count], ...]], ...]
    delete: tuple[Annotated[int, Meta(ge=0, le=2)], Int32, Int64] | None
    imported: tuple[tuple[Text, Int32, Count], ...]
    dropped: tuple[tuple[Text, Count], ...]
    strays: tuple[tuple[Id, tuple[Int32, ...]], ...]
    count_by_state: tuple[Count, Count, Count]
    bytes_by_state: tuple[Int64, Int64, Int64]
    disputes: Count
    dispute_run: tuple[Count, Count, Int64] | None


class DepartedIds:
    """Ids of segments that are no longer in the rows, in the order in which they left."""

    __slots__ = ("_positions", "by_position", "digest")

    def __init__(self, spill: Spill | None = None) -> None:
        self.by_position: PagedMap[int, bytes] = (
            PagedMap() if spill is None else SpilledMap(spill)
        )
        """Position of the event to id (16 bytes) and what is remembered of the segment."""
        self._positions = IntIndex()
        """The positions of ids by `hash` of the id, which other ids may have, too."""
        self.digest = 0

    def __contains__(self, segment_id: bytes) -> bool:
        return self.position_of(segment_id) is not None

    def __len__(self) -> int:
        return len(self._positions)

    def position_of(self, segment_id: bytes) -> int | None:
        """The position at which `segment_id` left the rows; None if not remembered."""
        if not len(self._positions):
            return None
        for position in self._positions.of(hash(segment_id)):
            value = self.by_position.get(position)
            if value is not None and value[:ID_BYTES] == segment_id:
                return position
        return None

    def put(self, position: int, value: bytes) -> None:
        self.by_position.set(position, value)
        self.index(position, value)

    def index(self, position: int, value: bytes) -> None:
        """Index an entry that `by_position` has already; a load adds these a page at a time."""
        self._positions.put(hash(value[:ID_BYTES]), position)
        self.digest = (self.digest + hash_of(value)) % DIGEST_MODULUS

    def drop(self, segment_id: bytes) -> None:
        """Forget `segment_id`: imported history may add a deleted segment again."""
        position = self.position_of(segment_id)
        if position is not None:
            self.drop_at(position)

    def drop_at(self, position: int) -> None:
        value = self.by_position.get(position)
        if value is not None:
            self.by_position.delete(position)
            self._positions.drop(hash(value[:ID_BYTES]), position)
            self.digest = (self.digest - hash_of(value)) % DIGEST_MODULUS

    def copy(self) -> Self:
        """The same entries; later changes of either do not affect the other."""
        copy = type(self)()
        copy.by_position, copy._positions = self.by_position.snapshot(), self._positions.copy()
        copy.digest = self.digest
        return copy

    def dismantle(self) -> Iterator[None]:
        yield from self._positions.dismantle()
        yield from self.by_position.dismantle()


class Tombstones(DepartedIds):
    """Ids of deleted segments, each with the log time (8 bytes) of its deletion."""

    __slots__ = ()

    def add(self, segment_id: bytes, position: int, log_time_ms: int) -> None:
        self.put(position, segment_id + log_time_ms.to_bytes(8, "big", signed=True))

    def oldest(self, limit: int) -> list[tuple[int, int]]:
        """Position and log time of the first `limit` tombstones."""
        found: list[tuple[int, int]] = []
        for position, value in self.by_position.items():
            if len(found) == limit:
                break
            found.append((position, int.from_bytes(value[16:], "big", signed=True)))
        return found


class KeptSegment(NamedTuple):
    """A segment that its broker has deleted, and whose data stays in the tier."""

    row: bytes
    """As of a finished copy, with the broker that deleted it and the time of the deletion."""
    until_ms: int
    cause: int
    """A `DeletionCause`."""
    reason: str
    log_time_ms: int
    """When it was kept."""
    purger: int | None = None
    """Who deletes its data: a broker with a guard, or a command (-1); None: nobody yet."""
    lease_until_ms: int = 0
    """Until then the purge is given to nobody else."""

    @property
    def is_unreleased(self) -> bool:
        """Whether it stays until somebody releases it, and nobody has."""
        return self.until_ms == UNTIL_RELEASED_MS and self.purger is None

    def is_due_at(self, now_ms: int, *, released: bool) -> bool:
        """Whether its time is over; a purge that has begun is never taken back."""
        if self.until_ms == UNTIL_RELEASED_MS:
            return released or self.purger is not None
        return now_ms >= self.until_ms

    def is_free(self, broker_id: int, now_ms: int) -> bool:
        """Whether that broker may be given it, as nobody else deletes its data now."""
        return self.purger in {None, broker_id} or now_ms >= self.lease_until_ms


class KeptSegments(DepartedIds):
    """Segments that were kept from deletion, each packed with its whole row.

    With a `Spill` each takes 16 bytes of memory, however large its row.
    """

    __slots__ = ("_found", "bytes", "unreleased")

    def __init__(self, spill: Spill | None = None) -> None:
        super().__init__(spill)
        self.bytes = 0
        """How much data of theirs is in the tier."""
        self.unreleased = IntIndex()
        """The positions of those that stay until somebody releases them."""
        self._found: dict[int, KeptSegment] = {}
        """What `first` and `first_unreleased` have found: a status, which is asked for every
        few seconds, opens no page."""

    @override
    def index(self, position: int, value: bytes) -> None:
        super().index(position, value)
        kept = _kept_in(value)
        self.bytes += unpack_row(kept.row)[SIZE]
        if kept.is_unreleased:
            self.unreleased.put(position, position)

    @override
    def drop_at(self, position: int) -> None:
        if (kept := self.at(position)) is not None:
            self.bytes -= unpack_row(kept.row)[SIZE]
        super().drop_at(position)
        self.unreleased.drop(position, position)
        self._found.pop(position, None)

    @override
    def copy(self) -> Self:
        copy = super().copy()
        copy.bytes, copy.unreleased = self.bytes, self.unreleased.copy()
        return copy

    def first(self) -> KeptSegment | None:
        """The one that was kept first; None if nothing is kept."""
        pages = self.by_position.pages
        return self._remembered(pages[0].first) if pages else None

    def first_unreleased(self) -> KeptSegment | None:
        """The same, of those that stay until somebody releases them."""
        position = self.unreleased.first()
        return None if position is None else self._remembered(position)

    def _remembered(self, position: int) -> KeptSegment | None:
        if position not in self._found and (kept := self.at(position)) is not None:
            if len(self._found) == 2:
                self._found.clear()
            self._found[position] = kept
        return self._found.get(position)

    def add(self, segment_id: bytes, position: int, kept: KeptSegment) -> None:
        # Digests from before segments were purged have no such fields.
        fields = kept[:-2] if kept.purger is None else kept
        self.put(position, segment_id + _pack(fields))

    def get(self, segment_id: bytes) -> KeptSegment | None:
        position = self.position_of(segment_id)
        return None if position is None else self.at(position)

    def at(self, position: int) -> KeptSegment | None:
        """The segment that the event at `position` kept."""
        value = self.by_position.get(position)
        return None if value is None else _kept_in(value)

    def all(self) -> Iterator[tuple[int, KeptSegment]]:
        """Position and segment of each, in the order of their deletion."""
        for position, value in self.by_position.items():
            yield position, _kept_in(value)

    def after(self, position: int) -> Iterator[tuple[int, KeptSegment]]:
        """The same, of those behind `position`."""
        for at, value in self.by_position.items_behind(position):
            yield at, _kept_in(value)


def _kept_in(value: bytes) -> KeptSegment:
    return KeptSegment(*msgpack.unpackb(value[ID_BYTES:]))


class PartitionState:
    """A partition's state before `next_position` of its log. Read it through `answers`."""

    __slots__ = (
        "bytes_by_state",
        "chain_hash",
        "changed_rows",
        "count_by_state",
        "delete",
        "dispute_run",
        "disputes",
        "dropped",
        "epochs",
        "heard",
        "imported",
        "kept",
        "log_time_ms",
        "next_position",
        "pending",
        "requests",
        "rows",
        "rows_digest",
        "session",
        "strays",
        "tombstones",
        "topic_id_partition",
        "touched",
        "tracks_changes",
    )

    def __init__(
        self,
        topic_id_partition: TopicIdPartition,
        chain_hash: bytes,
        *,
        tracks_changes: bool = False,
        spill: Spill | None = None,
    ) -> None:
        """`spill`: takes the kept segments out of memory; None: they stay there."""
        self.topic_id_partition = topic_id_partition
        self.next_position = 0
        self.chain_hash = chain_hash
        """Hash of the last event, or the genesis hash."""
        self.log_time_ms = 0
        self.session: Session | None = None
        self.heard: dict[int, tuple[int, int]] = {}
        """Per broker the newest (incarnation, announcement) that opened a session."""
        self.requests: dict[int, dict[bytes, int]] = {}
        """Per origin, request id to the position it led to, oldest first."""
        self.delete: DeleteMetadata | None = None
        self.imported: dict[tuple[str, int], int] = {}
        """(cluster, metadata partition) to the last offset imported from there."""
        self.dropped: dict[str, int] = {}
        """Imported records without effect, by reason."""
        self.disputes = 0
        self.dispute_run: DisputeRun | None = None
        self.rows = SegmentRows()
        self.epochs: dict[int, EpochTables] = {}
        self.strays: dict[bytes, tuple[int, ...]] = {}
        """Segment id to epochs whose `unreferenced` has it, though its newer metadata does not
        list them."""
        self.tombstones = Tombstones()
        self.kept = KeptSegments(spill)
        """Segments that are in no answer, and whose data stays; the deletion of the partition
        does not change them."""
        self.count_by_state = [0, 0, 0]
        self.bytes_by_state = [0, 0, 0]
        self.rows_digest = 0
        self.pending: dict[bytes, bytes | None] = {}
        """Rows changed since the digest was settled, each as it was then (None: absent). Code
        that changes a row has to enter it here first, unless it is here already."""
        self.touched: dict[bytes, bytes | None] | None = None
        """Settled `pending` rows since the feed took them last; None if no replica is fed."""
        self.tracks_changes = tracks_changes
        self.changed_rows: dict[int, set[bytes]] = {}
        """Ids that the next checkpoint has to write or remove, by their first byte. A single
        set of a million would stall for 20 ms when it grows."""

    def copy(self) -> PartitionState:
        """The same state, which tracks changes; later changes of either stay its own.

        Rows and tables are shared until one of the two changes them, so no copy of a million
        segments takes longer than some ms. A copy does not know how it differs from the stored
        checkpoint, so its first checkpoint has to be whole.
        """
        self.settle()
        copy = PartitionState(self.topic_id_partition, self.chain_hash, tracks_changes=True)
        copy.next_position = self.next_position
        copy.restore_head(self.head_fields())
        copy.rows, copy.rows_digest = self.rows.snapshot(), self.rows_digest
        copy.epochs = {epoch: tables.snapshot() for epoch, tables in self.epochs.items()}
        copy.tombstones, copy.kept = self.tombstones.copy(), self.kept.copy()
        return copy

    def dismantle(self) -> Iterator[None]:
        """Free rows and tables in small steps; freeing a million at once takes 0.1 s.

        The state cannot be used afterwards; its snapshots can.
        """
        yield from self.rows.dismantle()
        for tables in self.epochs.values():
            for _, table in tables.tables():
                yield from table.dismantle()
        yield from self.tombstones.dismantle()
        yield from self.kept.dismantle()

    # Lookups.

    def seen(self, broker_id: int, request_id: bytes) -> int | None:
        """The position that a broker's request led to; None if it is not remembered."""
        return self.requests.get(broker_id, {}).get(request_id)

    def imported_offset(self, cluster: str, metadata_partition: int) -> int:
        return self.imported.get((cluster, metadata_partition), -1)

    def last_heard(self, broker_id: int) -> tuple[int, int]:
        return self.heard.get(broker_id, (-1, -1))

    @property
    def is_finished(self) -> bool:
        """Whether the partition's own deletion is complete."""
        return (
            self.delete is not None
            and self.delete.state == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        )

    @property
    def is_open(self) -> bool:
        return self.session is not None and self.session.is_open

    # The digest.

    def settle(self) -> None:
        """Bring the digest of the rows up to date."""
        row_of, total = self.rows.get, self.rows_digest
        for segment_id, before in self.pending.items():
            after = row_of(segment_id)
            if after is not None:
                total += hash_of(after)
            if before is not None:
                total -= hash_of(before)
        self.rows_digest = total % DIGEST_MODULUS
        if self.tracks_changes:
            changed = self.changed_rows
            for segment_id in self.pending:
                changed.setdefault(segment_id[0], set()).add(segment_id)
        if self.touched is not None:
            # In this order: of a row that is in both, `touched` has the older form.
            self.touched = self.pending | self.touched
        self.pending.clear()

    def digest(self) -> bytes:
        """16 bytes, equal if and only if the states are; rows enter as a multiset hash."""
        self.settle()
        head = self.head_fields()
        if self.dispute_run is None:
            head.pop()  # Digests from before disputes in a row were counted have no such field.
        rest = [
            self.next_position,
            self.chain_hash,
            self.rows_digest.to_bytes(16, "big"),
            self.tombstones.digest.to_bytes(16, "big"),
            head,
            [
                [epoch, tables.highest, tables.size, len(tables.unreferenced)]
                for epoch, tables in sorted(self.epochs.items())
            ],
        ]
        if len(self.kept):  # Digests from before segments were kept have no such field.
            rest.append(self.kept.digest.to_bytes(16, "big"))
        return blake2b(_pack(rest), digest_size=16).digest()

    def head_fields(self) -> list[Any]:
        """All that is neither a row nor an epoch's table, as plain data in a fixed order."""
        return [
            self.log_time_ms,
            None if self.session is None else list(self.session),
            [[broker, *pair] for broker, pair in sorted(self.heard.items())],
            [
                [broker, [[request, position] for request, position in kept.items()]]
                for broker, kept in sorted(self.requests.items())
            ],
            None if self.delete is None else list(self.delete),
            [[*source, offset] for source, offset in sorted(self.imported.items())],
            sorted([reason, count] for reason, count in self.dropped.items()),
            sorted([segment_id, list(epochs)] for segment_id, epochs in self.strays.items()),
            list(self.count_by_state),
            list(self.bytes_by_state),
            self.disputes,
            None if self.dispute_run is None else list(self.dispute_run),
        ]

    def restore_head(self, fields: Sequence[Any]) -> None:
        """Set the fields that `head_fields` returned; `fields` must be a valid `StoredHead`."""
        log_time, session, heard, requests, delete, imported, dropped, strays, *rest = fields
        self.log_time_ms = log_time
        self.session = None if session is None else Session(*session)
        self.heard = {broker: (first, second) for broker, first, second in heard}
        self.requests = {broker: dict(kept) for broker, kept in requests}
        self.delete = None if delete is None else DeleteMetadata(*delete)
        self.imported = {(cluster, at): offset for cluster, at, offset in imported}
        self.dropped = dict(dropped)
        self.strays = {segment_id: tuple(epochs) for segment_id, epochs in strays}
        counts, totals, self.disputes, run = rest
        self.count_by_state, self.bytes_by_state = list(counts), list(totals)
        self.dispute_run = None if run is None else DisputeRun(*run)


_unhashed = blake2b(digest_size=16)


def hash_of(data: bytes) -> int:
    """The number that one element adds to a multiset hash."""
    hashed = _unhashed.copy()  # Takes half as long as creating one.
    hashed.update(data)
    return int.from_bytes(hashed.digest(), "big")
