"""A state as it will be once the commands decided so far in a batch are durable.

`decide` reads the state through an overlay, so that a batch can be decided before it is stored
and the partition need not be copied. An overlay has only what `decide` reads: in its rows,
placements and `finished_at` are meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.partition.evolve import (
    run_after,
    session_after,
    started_fields,
    update_fields,
)
from tierledger.events.partition.state import (
    DeleteMetadata,
    DisputeRun,
    KeptSegment,
    PartitionState,
    Session,
)
from tierledger.events.tables.segment_rows import (
    END,
    EPOCHS,
    SIZE,
    START,
    Row,
    id_of_row,
    pack_row,
    state_of_row,
    unpack_row,
)


class Overlay:
    """The state, plus events that were decided on but are not stored yet."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self.topic_id_partition: TopicIdPartition = state.topic_id_partition
        self.next_position = state.next_position
        self.log_time_ms = state.log_time_ms
        self.session: Session | None = state.session
        self.dispute_run: DisputeRun | None = state.dispute_run
        self.delete: DeleteMetadata | None = state.delete
        self._rows: dict[bytes, bytes | None] = {}
        """New rows of segments that were deleted, or changed and then read."""
        self._changes: dict[bytes, list[log.SegmentAdded | log.SegmentUpdated]] = {}
        """Changes not in `_rows` yet: few segments change twice in a batch, so a row is built
        only when it is read."""
        self._ended_bytes = 0
        """Of segments that were finished before this batch, and whose deletion begins in it."""
        self._kept: dict[bytes, KeptSegment | None] = {}
        """Kept segments that this batch changes; None: purged."""
        self._deleted: dict[bytes, int | None] = {}
        """Id to the position of its deletion; None if the id was added again."""
        self._buried: dict[int, int] = {}
        """Tombstones of this batch: position to log time."""
        self._returned: set[int] = set()
        """Positions of stored tombstones whose ids were added again."""
        self._heard: dict[int, tuple[int, int]] = {}
        self._requests: dict[tuple[int, bytes], int] = {}
        self._imported: dict[tuple[str, int], int] = {}
        self._tombstones_dropped_below = 0
        self._tombstones_gone = 0

    @property
    def is_finished(self) -> bool:
        """Whether the partition's own deletion is complete."""
        return (
            self.delete is not None
            and self.delete.state == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        )

    def row(self, segment_id: bytes) -> bytes | None:
        changes = self._changes.pop(segment_id, None)
        if changes is not None:
            row = self._rows[segment_id] = self._changed(segment_id, changes)
            return row
        if segment_id in self._rows:
            return self._rows[segment_id]
        return None if self.is_finished else self._state.rows.get(segment_id)

    def segment_state(self, segment_id: bytes) -> int | None:
        """The state of a segment; None if there is no such."""
        row = self.row(segment_id)
        return None if row is None else state_of_row(row)

    @property
    def has_finished_segments(self) -> bool:
        """Whether a segment is finished, or was before this batch.

        One that this batch adds or changes counts, whatever its state.
        """
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        has_rows = any(row is not None for row in self._rows.values())
        return self._state.count_by_state[finished] > 0 or has_rows or bool(self._changes)

    @property
    def finished_bytes(self) -> int:
        """Bytes of the finished segments, each once; not of copies that this batch finishes."""
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        return self._state.bytes_by_state[finished] - self._ended_bytes

    @property
    def newest(self) -> tuple[int, Row | None]:
        """The highest offset that ever was in the tier, -1 if none, and its segment if known.

        Before this batch, and by the newest leader epoch with a finished segment.
        """
        for _, tables in sorted(self._state.epochs.items(), reverse=True):
            if tables.highest is not None:
                last = tables.referenced.last()
                row = None if last is None else self._state.rows.get(last[1])
                return tables.highest, None if row is None else unpack_row(row)
        return -1, None

    def has_finished_that_ends_at(self, offset: int) -> bool:
        """Whether a finished segment ends at `offset`; one that this batch ends counts."""
        for tables in self._state.epochs.values():
            entry = tables.referenced.floor(offset)
            found = [] if entry is None else [entry[1]]
            for segment_id in (*found, *tables.holders(offset)):
                row = self._state.rows.get(segment_id)
                if row is not None and unpack_row(row)[END] == offset:
                    return True
        return False

    def earlier(self, segment: Row) -> Row | None:
        """The segment whose records come before those of `segment`; None if nobody knows it."""
        epochs, start = self._state.epochs, segment[START]
        first = segment[EPOCHS][0]
        tables = epochs.get(first)
        found = None if tables is None else tables.referenced.below(start)
        if found is None:
            older = [one for one in epochs if one < first and len(epochs[one].referenced)]
            found = epochs[max(older)].referenced.last() if older else None
        row = None if found is None else self._state.rows.get(found[1])
        fields = None if row is None else unpack_row(row)
        return fields if fields is not None and fields[END] < start else None

    def _changed(
        self, segment_id: bytes, changes: list[log.SegmentAdded | log.SegmentUpdated]
    ) -> bytes:
        """The row of a segment after `changes`, which are taken out of `_changes` already."""
        row = self.row(segment_id)
        for body in changes:
            if isinstance(body, log.SegmentAdded):
                row = pack_row(started_fields(body))
            else:
                assert row is not None, "decide refuses updates of unknown segments"
                fields = unpack_row(row)
                update_fields(fields, body)
                row = pack_row(fields)
        assert row is not None, "it was added, or is there"
        return row

    def kept_segment(self, segment_id: bytes) -> KeptSegment | None:
        if segment_id in self._kept:
            return self._kept[segment_id]
        return self._state.kept.get(segment_id)

    def kept_after(self, position: int) -> Iterator[tuple[int, KeptSegment]]:
        """Position and segment of those behind `position`, in the order of their deletion.

        What this batch keeps is not among them.
        """
        for at, one in self._state.kept.after(position):
            now = self._kept.get(id_of_row(one.row), one)
            if now is not None:
                yield at, now

    def is_deleted(self, segment_id: bytes) -> bool:
        if self.kept_segment(segment_id) is not None:
            return True
        if segment_id in self._deleted:
            position = self._deleted[segment_id]
        else:
            position = self._state.tombstones.position_of(segment_id)
        return position is not None and position >= self._tombstones_dropped_below

    def seen(self, broker_id: int, request_id: bytes) -> int | None:
        position = self._requests.get((broker_id, request_id))
        return self._state.seen(broker_id, request_id) if position is None else position

    def imported_offset(self, cluster: str, metadata_partition: int) -> int:
        offset = self._imported.get((cluster, metadata_partition))
        if offset is None:
            return self._state.imported_offset(cluster, metadata_partition)
        return offset

    def last_heard(self, broker_id: int) -> tuple[int, int]:
        return self._heard.get(broker_id) or self._state.last_heard(broker_id)

    def expired_tombstones(self, cutoff_ms: int, limit: int) -> list[int]:
        """Positions of the oldest tombstones from before `cutoff_ms`, at most `limit`."""
        if self.is_finished:
            return []
        stored = self._state.tombstones.oldest(limit + self._tombstones_gone)
        entries = [entry for entry in stored if entry[0] not in self._returned]
        entries += self._buried.items()
        kept = [entry for entry in entries if entry[0] >= self._tombstones_dropped_below]
        return [position for position, time_ms in kept[:limit] if time_ms < cutoff_ms]

    def note(self, event: log.Event) -> None:  # noqa: C901 - One case each.
        """Add `event` to what the overlay shows."""
        self.next_position = event.position + 1
        self.log_time_ms = event.log_time_ms
        if event.request_id is not None:
            self._requests[(event.broker_id, event.request_id)] = event.position
        match event.body:
            case log.SegmentAdded() as body:
                self._changes[body.segment_id] = [body]
                if body.source is not None:  # Only an import adds a deleted id again.
                    self._note_return(body.segment_id)
                    self._note_source(body.source)
            case log.SegmentUpdated() as body:
                self._note_update(event, body)
                self._note_source(body.source)
            case log.SegmentKept() as body:
                row = self.row(body.segment_id)
                assert row is not None, "decide refuses to keep unknown segments"
                self._rows[body.segment_id] = None
                self._kept[body.segment_id] = KeptSegment(
                    row, body.until_ms, body.cause, body.reason, event.log_time_ms
                )
            case log.SegmentPurgeStarted() | log.SegmentPurged() as body:
                self._note_purge(event, body)
            case log.PartitionDeleteUpdated() as body:
                self.delete = DeleteMetadata(
                    body.state, body.broker_id, body.event_timestamp_ms
                )
                if self.is_finished:
                    self._rows.clear()
                    self._changes.clear()
                self._note_source(body.source)
            case log.ImportRecordDropped() as body:
                self._note_source(body.source)
            case log.SessionOpened() as body:
                self.session = session_after(body)
                self._heard[body.broker_id] = (body.incarnation, body.announcement)
            case log.SessionClosed():
                if self.session is not None:
                    self.session = self.session._replace(is_open=False)
            case log.TombstonesDropped() as body:
                self._tombstones_dropped_below = body.until
                self._tombstones_gone += body.ids
            case log.SessionDisputed() as body:
                self.dispute_run = run_after(event, body, self.dispute_run)

    def _note_update(self, event: log.Event, body: log.SegmentUpdated) -> None:
        if body.state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self._changes.pop(body.segment_id, None)
            self._rows[body.segment_id] = None
            self._deleted[body.segment_id] = event.position
            self._buried[event.position] = event.log_time_ms
            return
        if body.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            stored = self._state.rows.get(body.segment_id)
            if (
                stored is not None
                and state_of_row(stored) == finished
                and self.segment_state(body.segment_id) == finished
            ):
                self._ended_bytes += unpack_row(stored)[SIZE]
        self._changes.setdefault(body.segment_id, []).append(body)

    def _note_purge(
        self, event: log.Event, body: log.SegmentPurgeStarted | log.SegmentPurged
    ) -> None:
        segment_id, kept = body.segment_id, self.kept_segment(body.segment_id)
        assert kept is not None, "decide purges only what is kept"
        if isinstance(body, log.SegmentPurgeStarted):
            self._kept[segment_id] = kept._replace(
                purger=event.broker_id, lease_until_ms=body.lease_until_ms
            )
            return
        self._kept[segment_id] = None
        if not self.is_finished:
            self._deleted[segment_id] = event.position
            self._buried[event.position] = event.log_time_ms

    def _note_return(self, segment_id: bytes) -> None:
        if segment_id in self._deleted:
            position = self._deleted[segment_id]
        else:
            position = self._state.tombstones.position_of(segment_id)
            if position is not None:
                self._returned.add(position)
                self._tombstones_gone += 1
        if position is not None:
            self._buried.pop(position, None)
        self._deleted[segment_id] = None

    def _note_source(self, source: log.Source) -> None:
        if source is not None:
            cluster = self.session.import_cluster if self.session is not None else None
            self._imported[(cluster or "", source[0])] = source[1]
