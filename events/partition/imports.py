"""Turns a record of Kafka's metadata topic into an event, as Kafka's consumer treats it.

Kafka's cache is laxer than `decide`: a deleted id can be added again, a started copy can be
replaced, and the writer need not be the leader. A record that Kafka drops becomes an event
without effect, so that the state counts it. A record that would end Kafka's consumer (of a
state that it cannot apply) is dropped, too; the event names the reason. One that follows
DELETE_PARTITION_FINISHED becomes no event: with that the log is complete, and it cannot depend
on how many runs an import takes.
"""

from __future__ import annotations

from tierledger.events import log_events as log
from tierledger.events.commands import ImportedRecord
from tierledger.events.lifecycle import RemoteLogSegmentState, is_valid_segment_transition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.overlay import Overlay
from tierledger.events.tables.segment_rows import STATE, unpack_row

AFTER_FINISHED = "after partition deletion"
"""Why a record becomes no event. Older logs have events with it."""

ADDED_UNSTARTED = "added in another state than COPY_SEGMENT_STARTED"
ILLEGAL = "illegal transition"
UNKNOWN = "unknown segment"
UPDATE_TO_STARTED = "update to COPY_SEGMENT_STARTED"
NO_PARTITION = "record without a partition"
KEPT = "kept from deletion"
"""Its data would be in the trash and in use at once; a segment's id never comes back."""


def import_body(view: Overlay, item: ImportedRecord) -> log.Body:
    """The event for `item`, appended to `view`'s log."""
    source = (item.metadata_partition, item.offset)
    value = item.record.value
    tags = item.record.tags.to_plain()
    match value:
        case RemoteLogSegmentMetadata():
            return _added(view, value, source, tags)
        case RemoteLogSegmentMetadataUpdate():
            return _updated(view, value, source, tags)
        case RemotePartitionDeleteMetadata():
            return log.PartitionDeleteUpdated(
                int(value.state), value.broker_id, value.event_timestamp_ms, source, tags
            )
        case _:
            return log.ImportRecordDropped(source, NO_PARTITION, None)


def _state_of(view: Overlay, segment_id: bytes) -> RemoteLogSegmentState | None:
    row = view.row(segment_id)
    return None if row is None else RemoteLogSegmentState(unpack_row(row)[STATE])


def _added(
    view: Overlay,
    metadata: RemoteLogSegmentMetadata,
    source: tuple[int, int],
    tags: tuple[object, ...] | None,
) -> log.Body:
    segment_id = bytes(metadata.remote_log_segment_id.id)
    if metadata.state != RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return log.ImportRecordDropped(source, ADDED_UNSTARTED, segment_id)
    if not is_valid_segment_transition(_state_of(view, segment_id), metadata.state):
        return log.ImportRecordDropped(source, ILLEGAL, segment_id)
    if view.kept_segment(segment_id) is not None:
        return log.ImportRecordDropped(source, KEPT, segment_id)
    return log.added_body(metadata, source, tags)


def _updated(
    view: Overlay,
    update: RemoteLogSegmentMetadataUpdate,
    source: tuple[int, int],
    tags: tuple[object, ...] | None,
) -> log.Body:
    segment_id = bytes(update.remote_log_segment_id.id)
    known = _state_of(view, segment_id)
    if known is None:
        return log.ImportRecordDropped(source, UNKNOWN, segment_id)
    if update.state == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return log.ImportRecordDropped(source, UPDATE_TO_STARTED, segment_id)
    if not is_valid_segment_transition(known, update.state):
        return log.ImportRecordDropped(source, ILLEGAL, segment_id)
    custom = update.custom_metadata
    return log.SegmentUpdated(
        segment_id=segment_id,
        state=int(update.state),
        broker_id=update.broker_id,
        event_timestamp_ms=update.event_timestamp_ms,
        custom_metadata=None if custom is None else custom.value,
        source=source,
        tags=tags,
    )
