"""Answers from a partition's state: Kafka's answers, or better ones where Kafka's are wrong.

Rule: an offset that a finished segment holds is never answered with None.

A view is a state, or a `Snapshot` of one, which does not change while the state does.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.epoch_tables import OFFSET_BIAS, EpochTables
from tierledger.events.tables.paged_map import Page, PagedMap
from tierledger.events.tables.segment_rows import (
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

WALK_STEPS = 200
"""Segments or pages that a walk visits before it returns to its caller: below 10 ms."""

OFFSET_MAX = (1 << 63) - 1
"""The highest possible offset, where a walk ends."""

ROWS_PER_YIELD = 250
"""Rows of a list after which its reader may let others run: below 2 ms."""

PAGES_PER_YIELD = 1
"""Pages that a list sorts before its reader may let others run: 512 segments, 1 ms."""


class Snapshot:
    """A state as of one position, for answers while the state changes."""

    __slots__ = ("epochs", "position", "rows")

    def __init__(self, state: PartitionState, epoch: int | None = None) -> None:
        """Copy on write: all rows of `state`, and all tables or those of `epoch` only."""
        self.position = state.next_position - 1
        self.rows: SegmentRows = state.rows.snapshot()
        self.epochs: dict[int, EpochTables] = {
            number: tables.snapshot()
            for number, tables in state.epochs.items()
            if epoch is None or number == epoch
        }


def lookup(view: PartitionState | Snapshot, epoch: int, offset: int) -> bytes | None:
    """The row of the segment that serves `offset` in `epoch`; None if no segment holds it.

    Kafka's own answer if it has one. Otherwise the segment that finished last of all finished
    ones in that epoch that hold the offset.
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
    """Bytes of all segments of `list_epoch(epoch)`, in any state; O(1) (KIP-852).

    A segment of several epochs counts fully in each, so the sum over epochs exceeds the log.
    """
    tables = view.epochs.get(epoch)
    return 0 if tables is None else tables.size


class PartitionSummary(NamedTuple):
    """Counts of a partition; each segment counts once."""

    count_by_state: tuple[int, ...]
    """Segments in COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED and DELETE_SEGMENT_STARTED."""
    bytes_by_state: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    """Epochs that list segments, ascending."""
    delete_state: int | None
    """State of the whole partition's deletion; None before it begins."""


def summary(state: PartitionState) -> PartitionSummary:
    """The counts of `state`, which must not be a sparse one; O(epochs)."""
    return PartitionSummary(
        tuple(state.count_by_state),
        tuple(state.bytes_by_state),
        tuple(epoch for epoch, tables in sorted(state.epochs.items()) if _lists(tables)),
        None if state.delete is None else state.delete.state,
    )


def _lists(tables: EpochTables) -> bool:
    return bool(len(tables.referenced) or len(tables.unreferenced) or len(tables.lost))


class WalkPaused(NamedTuple):
    """The walk has no answer up to `offset`; call it again from there."""

    offset: int


def next_segment_with_txn_index(
    view: PartitionState | Snapshot, epoch: int, offset: int
) -> bytes | WalkPaused | None:
    """The row of the first segment from `offset` on that may have a transaction index.

    The answer is defined by a walk (KIP-1058): look up `offset`; if the segment has no index,
    look up its end + 1, and so on. The walk ends without an answer where the lookup finds no
    segment, or one that ends before the offset. Pages without gaps and indexes are skipped.
    `WalkPaused` after `WALK_STEPS`, so that no step of the caller's loop takes long.
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
            return None  # The epoch begins after its segment's end: the walk cannot go on.
        offset = fields[END] + 1
        assert tables is not None, "the lookup found a segment"
        offset = _skip_page(view, tables, epoch, offset)
    return WalkPaused(offset)


def _skip_page(
    view: PartitionState | Snapshot, tables: EpochTables, epoch: int, offset: int
) -> int:
    """The offset after the page that starts at `offset` if it can be skipped, else `offset`."""
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
    """The last offset of `page` if it has no gap and no transaction index; else -1."""
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

    Kafka lists referenced segments by their offset in the epoch. If there are unreferenced
    ones, it sorts all by start offset, referenced before unreferenced. A lost segment follows
    Kafka's own at the same start offset. Ids without metadata are skipped. `None` comes where
    the reader may let others run, at least once in `ROWS_PER_YIELD` segments visited.
    """
    tables = snapshot.epochs.get(epoch)
    if tables is None:
        return
    ranked: tuple[PagedMap[Any, Any], ...] = (
        tables.referenced,
        tables.unreferenced,
        tables.lost,
    )
    referenced, unreferenced, lost = (
        [_PageOfIds(snapshot, page, rank, at) for at, page in enumerate(table.pages)]
        for rank, table in enumerate(ranked)
    )
    kafka: Iterator[bytes] = chain.from_iterable(referenced)
    runs = yield from _runs(unreferenced)
    if runs:
        kafka = heapq.merge(*(yield from _runs(referenced)), *runs)
    late = heapq.merge(*(yield from _runs(lost)))
    behind = next(late, None)
    for count, entry in enumerate(kafka, 1):
        while behind is not None and behind[:START_BYTES] < entry[:START_BYTES]:
            yield behind[_PLACE.size :]
            behind = next(late, None)
        yield entry[_PLACE.size :]
        if count % ROWS_PER_YIELD == 0:
            yield None
    while behind is not None:
        yield behind[_PLACE.size :]
        behind = next(late, None)


_PLACE = struct.Struct(">QBIH")
"""Sort key of a list's entry, before its row: start offset, rank (referenced, unreferenced,
lost), page and index in the epoch's table. As bytes, which the garbage collector does not
traverse as it would tuples."""

START_BYTES = 8


class _PageOfIds:
    """The entries of a table's page, created anew for each iteration."""

    __slots__ = ("_at", "_page", "_rank", "_snapshot")

    def __init__(self, snapshot: Snapshot, page: Page[Any, Any], rank: int, at: int) -> None:
        self._snapshot, self._page, self._rank, self._at = snapshot, page, rank, at

    def __iter__(self) -> Iterator[bytes]:
        row_of, rank, at, place = self._snapshot.rows.get, self._rank, self._at, _PLACE.pack
        for i, segment_id in enumerate(self._page.keys if rank else self._page.values):
            row = row_of(segment_id)
            if row is not None:
                yield place(unpack_row(row)[START] + OFFSET_BIAS, rank, at, i) + row


def _runs(pages: Iterable[_PageOfIds]) -> Generator[None, None, list[Iterator[bytes]]]:
    """The entries of `pages` in runs that are sorted by start offset, for a lazy merge.

    Pages are in the order of offsets in the epoch, and start offsets mostly ascend with them,
    except around segments of several epochs. Successive sorted pages make one run. Any other
    page is sorted on its own; sorting all at once would block the loop for too long.
    """
    runs: list[Iterator[bytes]] = []
    stretch: list[_PageOfIds] = []
    end = b""
    for count, page in enumerate(pages, 1):
        found = list(page)
        ordered = sorted(found)
        if ordered != found:
            runs.append(_used_up(ordered))
            stretch = []
        elif found:
            if not stretch or found[0] < end:
                stretch = []
                runs.append(chain.from_iterable(stretch))  # Sees pages that are added later.
            stretch.append(page)
            end = found[-1]
        if count % PAGES_PER_YIELD == 0:
            yield
    return runs


def _used_up(entries: list[bytes]) -> Iterator[bytes]:
    """`entries`, each freed when it has been read: freeing all at once takes long."""
    entries.reverse()
    while entries:
        yield entries.pop()


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
