"""Turns a record of Kafka's metadata topic into an event, as Kafka's consumer treats it.

Kafka's cache is laxer than `decide`: a deleted id can be added again, a started copy can be
replaced, and the writer need not be the leader. A record that Kafka drops becomes an event
without effect, so that the state counts it. A record that would end Kafka's consumer (of a
state that it cannot apply) is dropped, too; the event names the reason. One that follows
DELETE_PARTITION_FINISHED becomes no event: with that the log is complete, and it cannot depend
on how many runs an import takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.events import log_events as log
from tierledger.events.commands import ImportedRecord, ImportRecords
from tierledger.events.errors import InvalidArgument
from tierledger.events.kafka.codec import NO_TAGS
from tierledger.events.lifecycle import RemoteLogSegmentState, is_valid_segment_transition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.overlay import Overlay

AFTER_FINISHED = "after partition deletion"
"""Why a record becomes no event. Older logs have events with it."""

ADDED_UNSTARTED = "added in another state than COPY_SEGMENT_STARTED"
ILLEGAL = "illegal transition"
UNKNOWN = "unknown segment"
UPDATE_TO_STARTED = "update to COPY_SEGMENT_STARTED"
NO_PARTITION = "record without a partition"
KEPT = "kept from deletion"
"""Its data would be in the trash and in use at once; a segment's id never comes back."""


def import_events(view: Overlay, command: ImportRecords) -> Iterator[log.Event]:
    """The events of `command`, each made of what `view` shows once it has the one before.

    Raises:
        InvalidArgument: The session is not an import's.
    """
    session = view.session
    assert session is not None, "the session was checked"
    cluster, broker_id = session.import_cluster, command.claim.broker_id
    if cluster is None:
        raise InvalidArgument(
            f"{view.topic_id_partition}: session {session.number} was not opened for an import"
        )
    number = session.number
    for item in command.records:
        if view.is_finished:
            return  # The log is complete, and so it is if they come with a later command.
        if item.offset <= view.imported_offset(cluster, item.metadata_partition):
            continue  # Imported before: an import that resumes sends its last records again.
        log_time_ms = max(view.log_time_ms, item.timestamp_ms)
        body = import_body(view, item)
        # A named tuple's own constructor takes three times as long.
        yield _new(log.Event, (view.next_position, number, log_time_ms, broker_id, None, body))


def import_body(view: Overlay, item: ImportedRecord) -> log.Body:
    """The event for `item`, appended to `view`'s log."""
    source = (item.metadata_partition, item.offset)
    value, unknown = item.record
    tags = None if unknown is NO_TAGS else unknown.to_plain()
    if isinstance(value, RemoteLogSegmentMetadata):
        return _added(view, value, source, tags)
    if isinstance(value, RemoteLogSegmentMetadataUpdate):
        return _updated(view, value, source, tags)
    if isinstance(value, RemotePartitionDeleteMetadata):
        return log.PartitionDeleteUpdated(
            int(value.state), value.broker_id, value.event_timestamp_ms, source, tags
        )
    return log.ImportRecordDropped(source, NO_PARTITION, None)


def _state_of(view: Overlay, segment_id: bytes) -> RemoteLogSegmentState | None:
    state = view.segment_state(segment_id)
    return None if state is None else _STATES[state]


_STATES = tuple(RemoteLogSegmentState)
_new = tuple.__new__


def _added(
    view: Overlay,
    metadata: RemoteLogSegmentMetadata,
    source: tuple[int, int],
    tags: tuple[object, ...] | None,
) -> log.Body:
    segment_id = bytes(metadata.remote_log_segment_id.id)
    if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:
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
    if update.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return log.ImportRecordDropped(source, UPDATE_TO_STARTED, segment_id)
    if not is_valid_segment_transition(known, update.state):
        return log.ImportRecordDropped(source, ILLEGAL, segment_id)
    custom = update.custom_metadata
    value = None if custom is None else custom.value
    state, time_ms = int(update.state), update.event_timestamp_ms
    fields = (segment_id, state, update.broker_id, time_ms, value, 0, source, tags)
    return _new(log.SegmentUpdated, fields)
