"""`anomalies`: unusual events and states in the logs, one row each.

Only `corrupt` is damage. The others are normal: brokers retry, overlap and send late, and
Kafka's own manager drops or loses what tierledger keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from typing_extensions import override

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import (
    Event,
    ImportRecordDropped,
    PartitionDeleteUpdated,
    SegmentAdded,
    SegmentUpdated,
    SessionDisputed,
)
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import (
    EVENT_TIMESTAMP,
    FINISHED_AT,
    STATE,
    unpack_row,
)
from tierledger.pipeline.table_columns import (
    BIGINT,
    INT,
    STRING,
    Column,
    Row,
    Table,
    WatchingRows,
    id_texts,
)


class AnomalyKind(StrEnum):
    """Kinds of anomalies."""

    CORRUPT = "corrupt"
    """The log does not verify from `position` on; the other tables leave the partition out."""
    CUSTOM_METADATA_DROPPED = "custom_metadata_dropped"
    """Custom metadata in a deletion's update exceeded the limit, and was not stored."""
    DISPUTED = "disputed"
    """Two brokers claimed to lead, and no source could tell which does; the later claim won."""
    DROPPED = "dropped"
    """An imported record that Kafka's manager drops; it is kept without an effect."""
    LATE = "late"
    """An event with an earlier broker time than the segment's previous event."""
    RECOVERED = "recovered"
    """A finished segment that is in none of Kafka's tables; tierledger serves it."""
    REPEATED = "repeated"
    """An event with the state that the segment or the deletion had already."""
    RESURRECTED = "resurrected"
    """An imported event that adds a deleted segment again."""


class _Anomalies(WatchingRows):
    @override
    def _watch(self, state: PartitionState, event: Event) -> None:
        match event.body:
            case SegmentAdded():
                self._watch_added(state, event, event.body)
            case SegmentUpdated():
                self._watch_updated(state, event, event.body)
            case PartitionDeleteUpdated():
                now = event.body.state
                if state.delete is not None and state.delete.state == now:
                    self._note(AnomalyKind.REPEATED, event, None, f"deletion at {now} again")
            case ImportRecordDropped(source=source, reason=reason, segment_id=segment_id):
                stood = "" if source is None else f" (record {source[0]}:{source[1]})"
                self._note(AnomalyKind.DROPPED, event, segment_id, f"{reason}{stood}")
            case SessionDisputed():
                body = event.body
                detail = (
                    f"broker {body.broker_id} in leader epoch {_epoch(body.leader_epoch)}, "
                    f"broker {body.rival_broker_id} in {_epoch(body.rival_leader_epoch)}"
                )
                self._note(AnomalyKind.DISPUTED, event, None, detail)
            case _:
                pass

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        for epoch, tables in sorted(state.epochs.items()):
            lost = dict(tables.lost.items())
            for segment_id in lost:
                row = state.rows.get(segment_id)
                at = None if row is None else unpack_row(row)[FINISHED_AT]
                yield (
                    AnomalyKind.RECOVERED,
                    at,
                    None,
                    segment_id,
                    epoch,
                    "in none of Kafka's tables",
                )

    @override
    def damaged(self, position: int, message: str) -> Iterator[Row]:
        yield AnomalyKind.CORRUPT, position, None, None, None, message

    def _watch_added(self, state: PartitionState, event: Event, body: SegmentAdded) -> None:
        segment_id, stood = body.segment_id, state.rows.get(body.segment_id)
        if stood is not None:
            self._note(AnomalyKind.REPEATED, event, segment_id, "added over itself")
            self._note_if_late(event, stood, body.event_timestamp_ms)
        elif segment_id in state.tombstones:
            self._note(AnomalyKind.RESURRECTED, event, segment_id, "deleted before")

    def _watch_updated(self, state: PartitionState, event: Event, body: SegmentUpdated) -> None:
        segment_id, stood = body.segment_id, state.rows.get(body.segment_id)
        if body.dropped_bytes:
            detail = f"{body.dropped_bytes} bytes"
            self._note(AnomalyKind.CUSTOM_METADATA_DROPPED, event, segment_id, detail)
        if stood is None:
            return
        if unpack_row(stood)[STATE] == body.state:
            detail = RemoteLogSegmentState(body.state).name
            self._note(AnomalyKind.REPEATED, event, segment_id, f"{detail} again")
        self._note_if_late(event, stood, body.event_timestamp_ms)

    def _note_if_late(self, event: Event, stood: bytes, time_ms: int) -> None:
        fields = unpack_row(stood)
        ahead = fields[EVENT_TIMESTAMP] - time_ms
        if ahead > 0:
            self._note(AnomalyKind.LATE, event, fields[0], f"by {ahead} ms")

    def _note(
        self, kind: AnomalyKind, event: Event, segment_id: bytes | None, detail: str
    ) -> None:
        place = event.position, event.log_time_ms
        self._certain.append((kind, *place, segment_id, None, detail))


def _epoch(leader_epoch: int | None) -> str:
    return "unknown" if leader_epoch is None else str(leader_epoch)


ANOMALIES = Table(
    "anomalies",
    "what was odd in the logs",
    (
        Column("kind", STRING, "kind of anomaly, as listed below"),
        Column(
            "position",
            BIGINT,
            "position of the event; if `recovered`, of the event that finished the copy; if "
            "`corrupt`, the first that does not verify",
            is_nullable=True,
        ),
        Column(
            "log_time_ms",
            BIGINT,
            "log time of the event, ms since 1970; null if `recovered` or `corrupt`",
            is_nullable=True,
        ),
        Column(
            "segment_id",
            STRING,
            "id of the segment, 22 characters; null if the row is about no segment",
            True,
            id_texts,
        ),
        Column(
            "leader_epoch",
            INT,
            "if `recovered`, leader epoch in which Kafka's own manager lost the segment; else "
            "null",
            is_nullable=True,
        ),
        Column("detail", STRING, "what happened, in words"),
    ),
    _Anomalies,
)
