"""What a partition's state answers: Kafka's answers, or better ones where Kafka's are wrong.

Rule: no offset that a finished segment holds is ever answered with "none".

A view is a state, or a `Snapshot` of one, which stays as it is while the state goes on.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.epoch_tables import EpochTables
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.events.segment_rows import (
    BROKER,
    CUSTOM,
    END,
    EPOCHS,
    EVENT_TIMESTAMP,
    FINISHED_AT,
    ID,
    MAX_TIMESTAMP,
    SIZE,
    START,
    STATE,
    TXN_EMPTY,
    Row,
    SegmentRows,
    end_in_epoch,
    unpack_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierledger.events.paged_map import Page
    from tierledger.events.partition_state import PartitionState

WALK_STEPS = 200
"""Segments or pages a walk visits before it lets its caller breathe: below 10 ms."""

OFFSET_MAX = (1 << 63) - 1
"""The highest offset there is; no walk goes on behind it."""

BREATH_ROWS = 1000
"""Rows a list reads ahead before it lets its caller breathe: below 10 ms."""


class Snapshot:
    """A state's answers at one position."""

    __slots__ = ("epochs", "position", "rows")

    def __init__(self, state: PartitionState, epoch: int | None = None) -> None:
        """Take all that `state` holds, or the tables of one `epoch` only."""
        self.position = state.next_position - 1
        self.rows: SegmentRows = state.rows.snapshot()
        self.epochs: dict[int, EpochTables] = {
            number: tables.snapshot()
            for number, tables in state.epochs.items()
            if epoch is None or number == epoch
        }


def lookup(view: PartitionState | Snapshot, epoch: int, offset: int) -> bytes | None:
    """The row of the segment that serves `offset` in `epoch`, or none if none holds it.

    Kafka's own answer if it has one; else, of the finished segments of that epoch that hold the
    offset, the one that finished last.
    """
    tables = view.epochs.get(epoch)
    if tables is None:
        return None
    entry = tables.referenced.floor(offset)
    if entry is not None:
        row = view.rows.get(entry[1])
        if row is not None and offset <= end_in_epoch(unpack_row(row), epoch):
            return row
    if not tables.hidden.pages:
        return None
    best: tuple[int, bytes] | None = None
    for segment_id in tables.holders(offset):
        row = view.rows.get(segment_id)
        assert row is not None, "a hidden segment has metadata"
        candidate = (unpack_row(row)[FINISHED_AT], row)
        if best is None or candidate[0] > best[0]:
            best = candidate
    return None if best is None else best[1]


def highest_offset_for_epoch(view: PartitionState | Snapshot, epoch: int) -> int | None:
    """The highest offset that ever finished in `epoch`; Kafka never lowers it."""
    tables = view.epochs.get(epoch)
    return None if tables is None else tables.highest


def remote_log_size(view: PartitionState | Snapshot, epoch: int) -> int:
    """Bytes over `list_epoch(epoch)`, whatever their state; O(1) (KIP-852).

    A segment of several epochs counts fully in each, so the sum over epochs exceeds the log.
    """
    tables = view.epochs.get(epoch)
    return 0 if tables is None else tables.size


class PartitionSummary(NamedTuple):
    """What a partition holds, in numbers; each segment counts once."""

    count_by_state: tuple[int, ...]
    """Segments, by the number of their state (COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED,
    DELETE_SEGMENT_STARTED)."""
    bytes_by_state: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    """Epochs that list segments, ascending."""
    delete_state: int | None
    """How far the deletion of the whole partition has come, if it has begun."""


def summary(state: PartitionState) -> PartitionSummary:
    """What `state`, which must be whole, holds in numbers; O(epochs)."""
    return PartitionSummary(
        tuple(state.count_by_state),
        tuple(state.bytes_by_state),
        tuple(epoch for epoch, tables in sorted(state.epochs.items()) if _lists(tables)),
        None if state.delete is None else state.delete.state,
    )


def _lists(tables: EpochTables) -> bool:
    return bool(len(tables.referenced) or len(tables.unreferenced) or len(tables.lost))


class WalkPaused(NamedTuple):
    """The walk got as far as `offset` without an answer; ask again from there."""

    offset: int


def next_segment_with_txn_index(
    view: PartitionState | Snapshot, epoch: int, offset: int
) -> bytes | WalkPaused | None:
    """The row of the first segment from `offset` on that may have a transaction index.

    By definition the walk: look `offset` up; while the segment has none, look up its end + 1;
    a miss ends it (KIP-1058), and so does a segment that ends before the offset asked for.
    Pages without any index and without a gap are skipped whole.
    Pauses after `WALK_STEPS`, so that no step of the caller's loop takes long.
    """
    tables = view.epochs.get(epoch)
    for _ in range(WALK_STEPS):
        row = lookup(view, epoch, offset) if offset <= OFFSET_MAX else None
        if row is None:
            return None
        fields = unpack_row(row)
        if not fields[TXN_EMPTY]:
            return row
        if fields[END] < offset:
            return None  # An epoch that claims offsets behind its segment's end leads nowhere.
        offset = fields[END] + 1
        assert tables is not None, "the lookup found a segment"
        offset = _skip_page(view, tables, epoch, offset)
    return WalkPaused(offset)


def _skip_page(
    view: PartitionState | Snapshot, tables: EpochTables, epoch: int, offset: int
) -> int:
    """The offset after the page that starts at `offset`, if that page is one unbroken run."""
    at = tables.referenced.page_at(offset)
    if at < 0:
        return offset
    page = tables.referenced.pages[at]
    if page.first != offset:
        return offset
    if page.summary is None:
        page.summary = _run_end(view, page, epoch)
    return offset if page.summary < 0 else int(page.summary) + 1


def _run_end(view: PartitionState | Snapshot, page: Page[int, bytes], epoch: int) -> int:
    """The last offset of `page` if it is one unbroken run without any index; else -1."""
    end = page.first - 1
    for start, segment_id in zip(page.keys, page.values, strict=True):
        row = view.rows.get(segment_id)
        assert row is not None, "a referenced segment has metadata"
        fields = unpack_row(row)
        whole = start == end + 1 and min(fields[END], end_in_epoch(fields, epoch)) >= start
        if not whole or not fields[TXN_EMPTY]:
            return -1
        end = fields[END]
    return end


def list_all(snapshot: Snapshot) -> Iterator[bytes]:
    """The rows of all segments, in no order."""
    return iter(snapshot.rows)


def list_epoch(snapshot: Snapshot, epoch: int) -> Iterator[bytes | None]:
    """The rows of `epoch`'s segments in Kafka's order, with those that Kafka has lost.

    Kafka gives its referenced segments by their offset in the epoch; if it has unreferenced
    ones, all are sorted by start offset, referenced before unreferenced. A lost one follows
    Kafka's own at its start offset. Ids without metadata are skipped. `None` comes where the
    reader may let others run.
    """
    tables = snapshot.epochs.get(epoch)
    if tables is None:
        return
    kafka = _by_offset(snapshot, tables)
    unreferenced = _sorted_rows(snapshot, tables.unreferenced.items(), 1)
    if unreferenced:
        runs: list[Iterator[tuple[int, int, bytes]]] = []
        for found in _runs(snapshot, tables):
            if found is None:
                yield None
            else:
                runs.append(_run(snapshot, tables, *found))
        runs.append(iter(unreferenced))
        kafka = heapq.merge(*runs, key=lambda entry: entry[:2])
    lost = _sorted_rows(snapshot, tables.lost.items(), 2)
    for start, _, row in kafka:
        while lost and lost[0][0] < start:
            yield lost.pop(0)[2]
        yield row
    for _, _, row in lost:
        yield row


Entry = tuple[int, int, bytes]


def _by_offset(snapshot: Snapshot, tables: EpochTables) -> Iterator[Entry]:
    for page in tables.referenced.pages:
        for segment_id in page.values:
            row = snapshot.rows.get(segment_id)
            assert row is not None, "a referenced segment has metadata"
            yield unpack_row(row)[START], 0, row


def _runs(snapshot: Snapshot, tables: EpochTables) -> Iterator[tuple[int, int] | None]:
    """First index and length of each stretch of ascending start offsets.

    By the epoch's offset, start offsets ascend except around segments of several epochs.
    """
    first, previous = 0, -1
    for index, (start, _, _) in enumerate(_by_offset(snapshot, tables)):
        if start < previous:
            yield first, index - first
            first = index
        previous = start
        if index % BREATH_ROWS == BREATH_ROWS - 1:
            yield None
    yield first, len(tables.referenced) - first


def _run(snapshot: Snapshot, tables: EpochTables, first: int, length: int) -> Iterator[Entry]:
    skipped = 0
    for page in tables.referenced.pages:
        if skipped + page.size > first:
            break
        skipped += page.size
    entries = islice(tables.referenced.items_from(skipped), first - skipped, None)
    for _, segment_id in islice(entries, length):
        row = snapshot.rows.get(segment_id)
        assert row is not None, "a referenced segment has metadata"
        yield unpack_row(row)[START], 0, row


def _sorted_rows(
    snapshot: Snapshot, ids: Iterator[tuple[bytes, None]], rank: int
) -> list[Entry]:
    rows = ((segment_id, snapshot.rows.get(segment_id)) for segment_id, _ in ids)
    return sorted(
        ((unpack_row(row)[START], rank, row) for _, row in rows if row is not None),
        key=lambda entry: entry[:2],
    )


def metadata_of(topic_id_partition: TopicIdPartition, row: bytes) -> RemoteLogSegmentMetadata:
    """The segment that `row` holds, as Kafka's object."""
    return metadata_of_fields(topic_id_partition, unpack_row(row))


def metadata_of_fields(
    topic_id_partition: TopicIdPartition, fields: Row
) -> RemoteLogSegmentMetadata:
    """The segment whose row has `fields`."""
    epochs = fields[EPOCHS]
    custom = fields[CUSTOM]
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(topic_id_partition, Uuid(fields[ID])),
        start_offset=fields[START],
        end_offset=fields[END],
        max_timestamp_ms=fields[MAX_TIMESTAMP],
        broker_id=fields[BROKER],
        event_timestamp_ms=fields[EVENT_TIMESTAMP],
        segment_size_in_bytes=fields[SIZE],
        state=RemoteLogSegmentState(fields[STATE]),
        segment_leader_epochs=dict(zip(epochs[::3], epochs[1::3], strict=True)),
        custom_metadata=None if custom is None else CustomMetadata(custom),
        txn_index_empty=fields[TXN_EMPTY],
    )
