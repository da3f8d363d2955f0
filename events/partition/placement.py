"""Updates the tables of a segment's leader epochs as it changes, exactly by Kafka's rules.

`_reference_over` is Kafka's loop (`handleSegmentWithCopySegmentFinishedState` of its
`RemoteLogLeaderEpochState`), which leaks segments. The tables `lost` and `hidden` have the
leaked segments, so that lookups and lists still find them.
"""

from __future__ import annotations

from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.epoch_tables import EpochTables, interval_key
from tierledger.events.tables.segment_rows import (
    END,
    EPOCHS,
    ID,
    LOST,
    REFERENCED,
    SIZE,
    UNREFERENCED,
    Row,
    end_in_epoch,
    pack_row,
    unpack_row,
)


def list_started(state: PartitionState, fields: Row, before: Row | None) -> None:
    """List a segment whose copy started; `before` is its row if it was started before."""
    segment_id, size = fields[ID], fields[SIZE]
    if before is not None:
        for epoch in before[EPOCHS][::3]:
            state.epochs[epoch].size -= before[SIZE]
    if before is not None or state.strays:
        _keep_strays(state, fields, before)
    epochs = state.epochs
    for epoch in fields[EPOCHS][::3]:
        tables = epochs.get(epoch)
        if tables is None:
            tables = epochs[epoch] = EpochTables()
        tables.unreferenced.set(segment_id, None)
        tables.size += size
        tables.changed = True


def _keep_strays(state: PartitionState, fields: Row, before: Row | None) -> None:
    """Keep an id in the epochs of its earlier metadata when it is added again, like Kafka."""
    segment_id = fields[ID]
    old = state.strays.pop(segment_id, ())
    if before is not None:
        for epoch in old:
            state.epochs[epoch].size -= before[SIZE]
    former = set(old) | set(before[EPOCHS][::3] if before is not None else ())
    strays = tuple(sorted(former - set(fields[EPOCHS][::3])))
    if strays:
        state.strays[segment_id] = strays
        for epoch in strays:
            state.epochs[epoch].size += fields[SIZE]
            state.epochs[epoch].changed = True


def reference(state: PartitionState, fields: Row, *, again: bool) -> None:
    """Serve a finished segment in each of its epochs; sets the placements in `fields`.

    `again`: the segment had finished before, so `lost` or `hidden` may have it.
    """
    epochs = fields[EPOCHS]
    segment_id = fields[ID]
    for at in range(0, len(epochs), 3):
        epoch, start = epochs[at], epochs[at + 1]
        end = end_in_epoch(fields, epoch) if len(epochs) > 3 else fields[END]
        tables = state.epochs[epoch]
        highest = tables.highest
        tables.unreferenced.delete(segment_id)
        grows = not again and highest is not None and highest < start
        if not (grows and tables.referenced.append(start, segment_id)):
            _reference_over(state, epoch, tables, segment_id, start, end)
        if highest is None or end > highest:
            tables.highest = end
        tables.changed = True
        epochs[at + 2] = REFERENCED


def _reference_over(
    state: PartitionState,
    epoch: int,
    tables: EpochTables,
    segment_id: bytes,
    start: int,
    end: int,
) -> None:
    referenced = tables.referenced
    highest = tables.highest
    while (last := referenced.last()) is not None and last[0] >= start:
        if highest is not None and highest > end:
            break
        referenced.delete(last[0])
        if last[1] != segment_id:
            _unserve(state, epoch, tables, last[1], last[0], UNREFERENCED)
    overwritten = referenced.get(start)
    if overwritten is not None and overwritten != segment_id:
        _unserve(state, epoch, tables, overwritten, start, LOST)
    referenced.set(start, segment_id)
    tables.lost.delete(segment_id)
    _hide_if_overlapped(tables, start, segment_id, end)
    _review_before(state, epoch, tables, start)


def _unserve(
    state: PartitionState,
    epoch: int,
    tables: EpochTables,
    segment_id: bytes,
    start: int,
    placement: int,
) -> None:
    """Stop serving a finished segment that another replaced.

    `placement`: UNREFERENCED if Kafka's tables keep it, LOST if they do not.
    """
    row = state.rows.get(segment_id)
    assert row is not None, "a referenced segment has metadata"
    fields = unpack_row(row)
    epochs = fields[EPOCHS]
    epochs[epochs[::3].index(epoch) * 3 + 2] = placement
    state.pending.setdefault(segment_id, row)
    state.rows.put(segment_id, pack_row(fields))
    (tables.lost if placement == LOST else tables.unreferenced).set(segment_id, None)
    tables.hidden.set(interval_key(start, segment_id), end_in_epoch(fields, epoch))


def _hide_if_overlapped(tables: EpochTables, start: int, segment_id: bytes, end: int) -> None:
    following = tables.referenced.above(start)
    key = interval_key(start, segment_id)
    if following is not None and end >= following[0]:
        tables.hidden.set(key, end)
    else:
        tables.hidden.delete(key)


def _review_before(state: PartitionState, epoch: int, tables: EpochTables, start: int) -> None:
    """Hide or show the entry before `start`: its new neighbour may overlap it, or not."""
    before = tables.referenced.below(start)
    if before is not None:
        row = state.rows.get(before[1])
        assert row is not None, "a referenced segment has metadata"
        _hide_if_overlapped(tables, before[0], before[1], end_in_epoch(unpack_row(row), epoch))


def unreference(state: PartitionState, fields: Row) -> None:
    """Stop serving a segment whose deletion starts; sets the placements in `fields`."""
    epochs = fields[EPOCHS]
    segment_id = fields[ID]
    for at in range(0, len(epochs), 3):
        epoch, start = epochs[at], epochs[at + 1]
        tables = state.epochs[epoch]
        if tables.referenced.get(start) == segment_id:
            tables.referenced.delete(start)
            _review_before(state, epoch, tables, start)
        if tables.hidden.pages:
            tables.hidden.delete(interval_key(start, segment_id))
        if tables.lost.pages:
            tables.lost.delete(segment_id)
        tables.unreferenced.set(segment_id, None)
        tables.changed = True
        epochs[at + 2] = UNREFERENCED


def unlist(state: PartitionState, fields: Row) -> None:
    """Remove a deleted segment from the lists; strays keep its id, as Kafka's sets do."""
    segment_id, size = fields[ID], fields[SIZE]
    for epoch in fields[EPOCHS][::3]:
        tables = state.epochs[epoch]
        tables.unreferenced.delete(segment_id)
        tables.size -= size
        tables.changed = True
    for epoch in state.strays.get(segment_id, ()):
        state.epochs[epoch].size -= size
        state.epochs[epoch].changed = True
