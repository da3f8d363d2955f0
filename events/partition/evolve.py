"""Applies events to a partition's state; never fails on a log that `decide` wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tierledger.events import log_events as log
from tierledger.events.errors import CorruptLog
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.partition.placement import list_started, reference, unlist, unreference
from tierledger.events.partition.state import (
    PENDING_MAX,
    REQUESTS_KEPT,
    REQUESTS_MAX,
    DeleteMetadata,
    DisputeRun,
    KeptSegment,
    PartitionState,
    Session,
    Tombstones,
)
from tierledger.events.tables.segment_rows import (
    BROKER,
    CUSTOM,
    EVENT_TIMESTAMP,
    FINISHED_AT,
    ID,
    NOT_FINISHED,
    SIZE,
    STATE,
    UNREFERENCED,
    Row,
    SegmentRows,
    pack_row,
    unpack_row,
)

_STARTED = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
_DELETE_STARTED = int(RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


def evolve(state: PartitionState, event: log.Event) -> None:
    """Apply one durable event, in O(log n) of the partition's segments."""
    evolve_each(state, (event,))


def evolve_all(state: PartitionState, events: Sequence[log.Event], chain_hash: bytes) -> None:
    """Apply one decoded batch, whose last event has the hash `chain_hash`."""
    evolve_each(state, events)
    state.chain_hash = chain_hash


def evolve_each(state: PartitionState, events: Iterable[log.Event]) -> None:
    """Apply durable events, in order."""
    apply, requests = _APPLY, state.requests
    expected = state.next_position
    for event in events:
        position, _, log_time_ms, broker_id, request_id, body = event
        if position != expected:
            raise CorruptLog(f"expected position {expected}, the event is at {position}")
        apply[type(body)](state, event, body)
        state.next_position = expected = position + 1
        state.log_time_ms = log_time_ms
        if request_id is not None and broker_id >= 0:  # Only brokers retry requests.
            kept = requests.get(broker_id)
            if kept is None:
                kept = requests[broker_id] = {}
            kept[request_id] = position
            if len(kept) >= REQUESTS_MAX:
                for old in list(kept)[:-REQUESTS_KEPT]:
                    del kept[old]
    if len(state.pending) >= PENDING_MAX:
        state.settle()


def started_fields(body: log.SegmentAdded) -> Row:
    """The row of a segment that was just added."""
    given = body.epochs
    if len(given) == 2:
        epochs = [given[0], given[1], UNREFERENCED]
    else:
        epochs = []
        for at in range(0, len(given), 2):
            epochs += (given[at], given[at + 1], UNREFERENCED)
    return [
        body.segment_id,
        _STARTED,
        body.start_offset,
        body.end_offset,
        epochs,
        body.size,
        body.max_timestamp_ms,
        body.broker_id,
        body.event_timestamp_ms,
        body.custom_metadata,
        body.txn_index_empty,
        NOT_FINISHED,
    ]


def update_fields(fields: Row, body: log.SegmentUpdated) -> None:
    """Replace state, broker, time and custom metadata; an absent one removes the old."""
    fields[STATE] = body.state
    fields[BROKER] = body.broker_id
    fields[EVENT_TIMESTAMP] = body.event_timestamp_ms
    fields[CUSTOM] = body.custom_metadata


def session_after(body: log.SessionOpened) -> Session:
    """The session that `body` opens."""
    return Session(
        number=body.number,
        broker_id=body.broker_id,
        incarnation=body.incarnation,
        announcement=body.announcement,
        assignment=body.assignment,
        leader_epoch=body.leader_epoch,
        import_cluster=body.import_cluster,
        is_open=True,
    )


def run_after(
    event: log.Event, body: log.SessionDisputed, before: DisputeRun | None
) -> DisputeRun | None:
    """The disputes in a row as of `body`; an old `body` that counts none changes nothing."""
    if not body.in_a_row:
        return before
    return DisputeRun(body.in_a_row, event.session, event.log_time_ms)


def _session_opened(state: PartitionState, event: log.Event, body: log.SessionOpened) -> None:
    state.session = session_after(body)
    state.heard[body.broker_id] = (body.incarnation, body.announcement)


def _session_closed(state: PartitionState, event: log.Event, body: log.SessionClosed) -> None:
    if state.session is not None and state.session.number == body.number:
        state.session = state.session._replace(is_open=False)


def _session_disputed(
    state: PartitionState, event: log.Event, body: log.SessionDisputed
) -> None:
    state.disputes += 1
    state.dispute_run = run_after(event, body, state.dispute_run)


def _segment_added(state: PartitionState, event: log.Event, body: log.SegmentAdded) -> None:
    segment_id, size = body.segment_id, body.size
    stood = state.rows.get(segment_id)
    fields = started_fields(body)
    if stood is None:
        list_started(state, fields, None)
        state.count_by_state[_STARTED] += 1
        state.bytes_by_state[_STARTED] += size
    else:
        before = unpack_row(stood)
        list_started(state, fields, before)
        state.bytes_by_state[_STARTED] += size - before[SIZE]
    state.pending.setdefault(segment_id, stood)
    state.rows.put(segment_id, pack_row(fields))
    if body.source is not None:
        state.tombstones.drop(segment_id)  # Only recorded history brings a deleted id back.
        _imported(state, body.source)


def _segment_updated(state: PartitionState, event: log.Event, body: log.SegmentUpdated) -> None:
    segment_id = body.segment_id
    stood = state.rows.get(segment_id)
    if stood is None:
        raise CorruptLog(f"position {event.position}: update of unknown {segment_id.hex()}")
    fields = unpack_row(stood)
    size, was, target = fields[SIZE], fields[STATE], body.state
    counts, totals = state.count_by_state, state.bytes_by_state
    counts[was] -= 1
    totals[was] -= size
    if target > _DELETE_STARTED:
        _remove(state, stood, fields)
        state.tombstones.add(segment_id, event.position, event.log_time_ms)
    else:
        update_fields(fields, body)
        if target == _FINISHED:
            again = fields[FINISHED_AT] != NOT_FINISHED
            fields[FINISHED_AT] = event.position
            reference(state, fields, again=again)
        else:
            unreference(state, fields)
        state.pending.setdefault(segment_id, stood)
        state.rows.put(segment_id, pack_row(fields))
        counts[target] += 1
        totals[target] += size
    if body.source is not None:
        _imported(state, body.source)


def _segment_kept(state: PartitionState, event: log.Event, body: log.SegmentKept) -> None:
    stood = state.rows.get(body.segment_id)
    if stood is None:
        raise CorruptLog(f"position {event.position}: unknown {body.segment_id.hex()} is kept")
    fields = unpack_row(stood)
    state.count_by_state[fields[STATE]] -= 1
    state.bytes_by_state[fields[STATE]] -= fields[SIZE]
    _remove(state, stood, fields)
    fields[STATE] = _FINISHED  # Its data is read as that of a finished copy.
    kept = KeptSegment(
        pack_row(fields), body.until_ms, body.cause, body.reason, event.log_time_ms
    )
    state.kept.add(body.segment_id, event.position, kept)


def _segment_purge_started(
    state: PartitionState, event: log.Event, body: log.SegmentPurgeStarted
) -> None:
    position, kept = _kept(state, event, body.segment_id)
    state.kept.drop_at(position)
    started = kept._replace(purger=event.broker_id, lease_until_ms=body.lease_until_ms)
    state.kept.add(body.segment_id, position, started)


def _segment_purged(state: PartitionState, event: log.Event, body: log.SegmentPurged) -> None:
    position, _ = _kept(state, event, body.segment_id)
    state.kept.drop_at(position)
    if not state.is_finished:  # From its end on, a partition has no ids to remember.
        state.tombstones.add(body.segment_id, event.position, event.log_time_ms)


def _kept(
    state: PartitionState, event: log.Event, segment_id: bytes
) -> tuple[int, KeptSegment]:
    position, kept = state.kept.position_of(segment_id), state.kept.get(segment_id)
    if position is None or kept is None:
        raise CorruptLog(f"position {event.position}: {segment_id.hex()} is not kept")
    return position, kept


def _remove(state: PartitionState, stood: bytes, fields: Row) -> None:
    """Remove a segment, whose row `stood` has `fields`, from every answer."""
    unlist(state, fields)
    state.pending.setdefault(fields[ID], stood)
    state.rows.drop(fields[ID])


def _partition_delete_updated(
    state: PartitionState, event: log.Event, body: log.PartitionDeleteUpdated
) -> None:
    state.delete = DeleteMetadata(body.state, body.broker_id, body.event_timestamp_ms)
    if body.state == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
        if state.tracks_changes:
            state.changed_rows.clear()
        state.rows, state.epochs, state.strays = SegmentRows(), {}, {}
        state.tombstones = Tombstones()
        state.pending.clear()
        state.rows_digest = 0
        state.count_by_state, state.bytes_by_state = [0, 0, 0], [0, 0, 0]
    if body.source is not None:
        _imported(state, body.source)


def _import_record_dropped(
    state: PartitionState, event: log.Event, body: log.ImportRecordDropped
) -> None:
    state.dropped[body.reason] = state.dropped.get(body.reason, 0) + 1
    if body.source is not None:
        _imported(state, body.source)


def _tombstones_dropped(
    state: PartitionState, event: log.Event, body: log.TombstonesDropped
) -> None:
    for position, _ in state.tombstones.oldest(body.ids):
        if position < body.until:
            state.tombstones.drop_at(position)


def _imported(state: PartitionState, source: tuple[int, int]) -> None:
    cluster = state.session.import_cluster if state.session is not None else None
    state.imported[(cluster or "", source[0])] = source[1]


_APPLY: dict[type[Any], Callable[[PartitionState, log.Event, Any], None]] = {
    log.SessionOpened: _session_opened,
    log.SessionClosed: _session_closed,
    log.SessionDisputed: _session_disputed,
    log.SegmentAdded: _segment_added,
    log.SegmentUpdated: _segment_updated,
    log.SegmentKept: _segment_kept,
    log.SegmentPurgeStarted: _segment_purge_started,
    log.SegmentPurged: _segment_purged,
    log.PartitionDeleteUpdated: _partition_delete_updated,
    log.ImportRecordDropped: _import_record_dropped,
    log.TombstonesDropped: _tombstones_dropped,
}
