"""Turns a command into events, or into a rejection that changes nothing.

The rules of the lifecycle, of sessions and of retries are here and nowhere else. `decide` reads
the state through an overlay and adds the events to it, so the next command of the same batch
sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, assert_never

from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    Fenced,
    InvalidArgument,
    InvalidStateTransition,
    NotLeader,
    PartitionDeleted,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.lifecycle import (
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    is_valid_delete_transition,
    is_valid_segment_transition,
)
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.evolve import started_fields
from tierledger.events.partition.imports import import_events
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.sessions import close_session, delay_to_ask, open_session
from tierledger.events.sent_fields import with_defaults
from tierledger.events.tables.segment_rows import (
    BROKER,
    CUSTOM,
    EVENT_TIMESTAMP,
    STATE,
    Row,
    id_of_row,
    pack_row,
    unpack_row,
)

CUSTOM_METADATA_BYTES_CEILING = 1 << 20
"""Most bytes of custom metadata that a deletion may carry, 1 MiB; longer ones are dropped."""

TOMBSTONES_PER_DROP = 500
"""Most tombstones that one event drops, so that the step stays below a millisecond."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that a leader enforces.

    Attributes:
        custom_metadata_bytes_max: `remote.log.metadata.custom.metadata.max.bytes`, 0 to
            2147483647: the most bytes that a copy may have when it starts or finishes. With a
            value below the brokers' own they upload again at every interval.
        tombstone_retention_ms: How long ids of deleted segments are kept. A week outlives any
            retry of a broker; a deleted id takes about 200 bytes until then.
    """

    custom_metadata_bytes_max: int = 128
    tombstone_retention_ms: int = 7 * 24 * 3600 * 1000

    __setstate__ = with_defaults

    def __post_init__(self) -> None:
        if not 0 <= self.custom_metadata_bytes_max <= 2**31 - 1:
            raise InvalidArgument(
                "remote.log.metadata.custom.metadata.max.bytes: expected 0 to 2147483647, "
                f"got {self.custom_metadata_bytes_max}"
            )
        if self.tombstone_retention_ms < 0:
            raise InvalidArgument(
                "tombstone.retention: expected at least 0 ms, "
                f"got {self.tombstone_retention_ms}"
            )


class Accepted(NamedTuple):
    """The command is in effect as of `position`; without events it was so already."""

    events: tuple[log.Event, ...]
    position: int


class Rejected(NamedTuple):
    """The command changed nothing; `error` says why."""

    error: RemoteStorageError


class Undecided(NamedTuple):
    """A claim that cannot be decided without the leader oracle; nothing changed.

    Ask the oracle after `delay_ms`, and decide on the claim again with its verdict.
    """

    delay_ms: int


Decision: TypeAlias = "Accepted | Rejected | Undecided"


def decide(view: Overlay, command: cmd.Command, now_ms: int, limits: Limits) -> Decision:
    """The decision on `command` as of `now_ms`; its events are added to `view`.

    Log time never goes back: an event gets `now_ms` or its predecessor's time, whichever is
    later. Only a claim to lead can stay undecided.
    """
    try:
        if isinstance(command, cmd.OpenSession):
            delay_ms = delay_to_ask(view, command, now_ms)
            if delay_ms is not None:
                return Undecided(delay_ms)
        return Accepted(*_decided(view, command, now_ms, limits))
    except (RejectedError, Fenced, NotLeader) as error:
        return Rejected(error)


def _decided(
    view: Overlay, command: cmd.Command, now_ms: int, limits: Limits
) -> tuple[tuple[log.Event, ...], int]:
    match command:
        case cmd.AddSegment() | cmd.UpdateSegment() | cmd.PutPartitionDelete():  # Most common.
            return _decide_write(view, command, now_ms, limits)
        case cmd.OpenSession():
            _refuse_finished(view)
            bodies: Iterable[Any] = open_session(view, command)
            return _append(view, bodies, now_ms, _opener(command))
        case cmd.CloseSession():
            bodies = close_session(view, command)
            if view.session is not None and view.session.import_cluster is not None:
                now_ms = view.log_time_ms  # An import's log has the recorded times.
            return _append(view, bodies, now_ms, log.Origin(command.claim.broker_id, None))
        case cmd.DropTombstones():
            cutoff = now_ms - limits.tombstone_retention_ms
            expired = view.expired_tombstones(cutoff, TOMBSTONES_PER_DROP)
            bodies = [log.TombstonesDropped(expired[-1] + 1, len(expired))] if expired else []
            return _append(view, bodies, now_ms, log.Origin(-1, None))
        case cmd.StartPurges() | cmd.EndPurges():
            return _append(view, _purges(view, command, now_ms), now_ms, command.origin)
        case cmd.EndSegments():
            return _append(view, _ends(view, command), now_ms, command.origin)
        case cmd.ImportRecords():
            _require_session(view, command.claim)
            return _import(view, command)
        case _:
            assert_never(command)


def _opener(command: cmd.OpenSession) -> log.Origin:
    """The origin of a session's events: the opening process, which is no broker.

    Request ids are kept only for brokers, so the opener's id is not taken for a retry's.
    """
    if command.opener is None:
        return log.Origin(command.claim.broker_id, None)
    return log.Origin(-1, command.opener)


def _decide_write(
    view: Overlay,
    command: cmd.AddSegment | cmd.UpdateSegment | cmd.PutPartitionDelete,
    now_ms: int,
    limits: Limits,
) -> tuple[tuple[log.Event, ...], int]:
    origin = command.origin
    if origin.request_id is not None:
        position = view.seen(origin.broker_id, origin.request_id)
        if position is not None:
            return (), position
    # Before the session: no session can be opened in a deleted partition, so a broker elected
    # since would be told to retry for ever.
    _refuse_finished(view, command)
    _require_session(view, command.claim)
    match command:
        case cmd.AddSegment():
            bodies = _add(view, command.metadata, limits)
        case cmd.UpdateSegment():
            bodies = _update(view, command, limits)
        case _:
            bodies = _put_delete(view, command)
    return _append(view, bodies, now_ms, origin)


def _append(
    view: Overlay, bodies: Iterable[log.Body], now_ms: int, origin: log.Origin
) -> tuple[tuple[log.Event, ...], int]:
    events = []
    for body in bodies:
        if isinstance(body, log.SessionOpened):
            session = body.number
        else:
            session = 0 if view.session is None else view.session.number
        log_time_ms = max(view.log_time_ms, now_ms)
        event = log.Event(view.next_position, session, log_time_ms, *origin, body)
        view.note(event)
        events.append(event)
    return tuple(events), view.next_position - 1


def _require_session(view: Overlay, claim: cmd.Claim) -> None:
    session = view.session
    if session is None or not session.is_open:
        raise NotLeader(
            f"{view.topic_id_partition}: nobody leads it; announce leadership first"
        )
    if not session.is_of(claim):
        raise Fenced(
            f"{view.topic_id_partition}: {_claim_text(claim)} does not lead; session "
            f"{session.number} belongs to broker {session.broker_id} under {session.pair}"
        )


def _claim_text(claim: cmd.Claim) -> str:
    return f"broker {claim.broker_id} under {(claim.incarnation, claim.announcement)}"


def _refuse_finished(view: Overlay, command: cmd.Command | None = None) -> None:
    if not view.is_finished:
        return
    if isinstance(command, cmd.PutPartitionDelete) and _same_delete(view, command):
        return
    raise PartitionDeleted(f"{view.topic_id_partition}: its deletion is finished")


def _add(view: Overlay, metadata: RemoteLogSegmentMetadata, limits: Limits) -> list[log.Body]:
    segment_id = bytes(metadata.remote_log_segment_id.id)
    if metadata.state != RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        raise InvalidArgument(
            f"segment {Uuid(segment_id)}: expected COPY_SEGMENT_STARTED to be added, "
            f"got {metadata.state.name}"
        )
    body = log.added_body(metadata)
    row = view.row(segment_id)
    if row is None:
        if view.is_deleted(segment_id):
            raise InvalidStateTransition(
                f"segment {Uuid(segment_id)} was deleted; a deleted id never comes back"
            )
        if body.custom_metadata is not None:
            _within_limit(segment_id, metadata.state, body.custom_metadata, limits)
        return [body]
    if row == pack_row(started_fields(body)):
        return []
    state = RemoteLogSegmentState(unpack_row(row)[STATE])
    raise InvalidStateTransition(
        f"segment {Uuid(segment_id)} is known as {state.name} and cannot be added again"
        + (" with other content" if state == RemoteLogSegmentState.COPY_SEGMENT_STARTED else "")
    )


def _update(view: Overlay, command: cmd.UpdateSegment, limits: Limits) -> list[log.Body]:
    update = command.update
    segment_id = bytes(update.remote_log_segment_id.id)
    target = update.state
    if target == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        raise InvalidArgument(
            f"segment {Uuid(segment_id)}: expected a state after {target.name}"
        )
    custom = None if update.custom_metadata is None else update.custom_metadata.value
    row = view.row(segment_id)
    if row is None:
        if target == RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            raise RemoteResourceNotFound(
                f"segment {Uuid(segment_id)} is unknown in {view.topic_id_partition}"
            )
        return []  # Brokers delete segments of several epochs, and of deleted topics, twice.
    fields = unpack_row(row)
    source = RemoteLogSegmentState(fields[STATE])
    if not is_valid_segment_transition(source, target):
        raise InvalidStateTransition(
            f"segment {Uuid(segment_id)}: from {source.name} to {target.name} is no transition"
        )
    dropped = 0
    if custom is not None:
        custom, dropped = _within_limit(segment_id, target, custom, limits)
    before = [fields[STATE], fields[BROKER], fields[EVENT_TIMESTAMP], fields[CUSTOM]]
    if before == [target, update.broker_id, update.event_timestamp_ms, custom]:
        return []
    broker_id, time_ms = update.broker_id, update.event_timestamp_ms
    keep = command.keep
    if keep is None or not _begins_to_delete(source, target):
        updated = log.SegmentUpdated(
            segment_id, int(target), broker_id, time_ms, custom, dropped
        )
        return [updated]
    # The data stays, and is read with the custom metadata of its copy.
    cause = int(command.guarded_for or 0)
    return [
        log.SegmentUpdated(segment_id, int(target), broker_id, time_ms, fields[CUSTOM]),
        log.SegmentKept(segment_id, keep.until_ms, cause, broker_id, time_ms, keep.reason),
    ]


def _purges(
    view: Overlay, command: cmd.StartPurges | cmd.EndPurges, now_ms: int
) -> list[log.Body]:
    """The events of a purge's beginning or end.

    No session is needed: most of what is kept is of deleted topics, whose partitions nobody
    leads. Its data may only be deleted once a `SegmentPurgeStarted` is stored.
    """
    bodies: list[log.Body] = []
    for segment_id in dict.fromkeys(command.segment_ids):
        kept = view.kept_segment(segment_id)
        if kept is None:
            continue  # It is purged: two may do that, and each repeats it after a kill.
        if isinstance(command, cmd.EndPurges):
            if kept.purger is None:
                raise InvalidStateTransition(
                    f"segment {Uuid(segment_id)} is kept, and its purge has not begun"
                )
            bodies.append(log.SegmentPurged(segment_id))
        elif kept.is_due_at(now_ms, released=command.released):
            if kept.is_free(command.origin.broker_id, now_ms):
                lease_until_ms = now_ms + command.lease_ms
                bodies.append(log.SegmentPurgeStarted(segment_id, lease_until_ms))
        else:
            raise InvalidStateTransition(
                f"segment {Uuid(segment_id)} is kept until {kept.until_ms} ms, it is {now_ms}"
            )
    return bodies


def _ends(view: Overlay, command: cmd.EndSegments) -> list[log.Body]:
    """The events by which a clean-up ends copies and deletions that their brokers left.

    No session is needed, as those brokers will not end them. A segment that is in the wanted
    state already is left out, so a repeat changes nothing.
    """
    bodies: list[log.Body] = []
    for seen in dict.fromkeys(command.rows):
        segment_id = id_of_row(seen)
        row = view.row(segment_id)
        fields = None if row is None else unpack_row(row)
        if fields is None or fields[STATE] == command.target:
            continue
        source = RemoteLogSegmentState(fields[STATE])
        if row != seen:
            raise InvalidStateTransition(
                f"segment {Uuid(segment_id)}: expected it as it was seen, in "
                f"{RemoteLogSegmentState(unpack_row(seen)[STATE]).name}; it has changed since, "
                f"and is in {source.name}"
            )
        if not is_valid_segment_transition(source, command.target):
            raise InvalidStateTransition(
                f"segment {Uuid(segment_id)}: from {source.name} to {command.target.name} is "
                "no transition"
            )
        broker_id, time_ms = command.origin.broker_id, command.event_timestamp_ms
        updated = log.SegmentUpdated(
            segment_id, int(command.target), broker_id, time_ms, fields[CUSTOM]
        )
        bodies.append(updated)
        if _begins_to_delete(source, command.target):
            if command.keep is None:
                raise InvalidStateTransition(
                    f"segment {Uuid(segment_id)} is finished: expected until when it is kept"
                )
            until_ms, reason = command.keep
            cause = int(command.cause)
            bodies.append(
                log.SegmentKept(segment_id, until_ms, cause, broker_id, time_ms, reason)
            )
    return bodies


def _begins_to_delete(source: RemoteLogSegmentState, target: RemoteLogSegmentState) -> bool:
    return (source, target) == (
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    )


def segment_to_delete(view: Overlay, command: cmd.Command) -> Row | None:
    """The finished segment whose deletion `command` begins; None if it begins none."""
    if not isinstance(command, cmd.UpdateSegment):
        return None
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    if command.update.state <= finished:
        return None
    row = view.row(bytes(command.update.remote_log_segment_id.id))
    fields = None if row is None else unpack_row(row)
    return fields if fields is not None and fields[STATE] == finished else None


def drops_finished_segments(view: Overlay, command: cmd.Command) -> bool:
    """Whether `command` ends a partition's deletion, while it has finished segments."""
    return (
        isinstance(command, cmd.PutPartitionDelete)
        and command.metadata.state == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        and not view.is_finished
        and view.has_finished_segments
    )


def _within_limit(
    segment_id: bytes, target: RemoteLogSegmentState, custom: bytes, limits: Limits
) -> tuple[bytes | None, int]:
    """The custom metadata to store, and the bytes dropped because there were too many.

    KIP-917: a copy may not exceed the limit, but its deletion must always succeed. Kafka sends
    no custom metadata when a copy starts; if some comes, the limit holds for it, too.
    """
    size = len(custom)
    if target <= RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
        if size > limits.custom_metadata_bytes_max:
            raise CustomMetadataSizeLimitExceeded(
                f"segment {Uuid(segment_id)}: custom metadata has {size} bytes, the limit is "
                f"{limits.custom_metadata_bytes_max}"
            )
        return custom, 0
    if size > CUSTOM_METADATA_BYTES_CEILING:
        return None, size
    return custom, 0


def _same_delete(view: Overlay, command: cmd.PutPartitionDelete) -> bool:
    given = command.metadata
    return view.delete == (int(given.state), given.broker_id, given.event_timestamp_ms)


def _put_delete(view: Overlay, command: cmd.PutPartitionDelete) -> list[log.Body]:
    if _same_delete(view, command):
        return []
    given = command.metadata
    source = None if view.delete is None else RemotePartitionDeleteState(view.delete.state)
    if not is_valid_delete_transition(source, given.state):
        was = "nothing" if source is None else source.name
        raise InvalidStateTransition(
            f"{view.topic_id_partition}: from {was} to {given.state.name} is no transition"
        )
    state = int(given.state)
    return [log.PartitionDeleteUpdated(state, given.broker_id, given.event_timestamp_ms)]


def _import(view: Overlay, command: cmd.ImportRecords) -> tuple[tuple[log.Event, ...], int]:
    events: list[log.Event] = []
    for event in import_events(view, command):
        view.note(event)
        events.append(event)
    return tuple(events), view.next_position - 1
