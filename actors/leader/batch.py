"""One batch of a leader: the events that queued commands lead to, and when callers hear of it.

Nothing here changes the state: commands are decided on an overlay, and a decision counts once
its events are durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tierledger.actors import messages as msg
from tierledger.actors.due import heeding
from tierledger.actors.explained import NotKnown, unexplained
from tierledger.actors.holds import (
    Deletions,
    Hold,
    in_force,
    kept_until_ms,
    text_of_hold,
    text_of_keeper,
)
from tierledger.actors.sent_batch import SentBatch
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import (
    DataError,
    Fenced,
    NotLeader,
    NotReady,
    OutcomeUnknown,
    RejectedError,
    RemoteStorageError,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.decide import (
    Limits,
    Rejected,
    Undecided,
    decide,
    drops_finished_segments,
    segment_to_delete,
)
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import ID, SIZE, STATE, unpack_row
from tierledger.storage.partition.checkpoint import boundary_in
from tierledger.storage.partition.event_log import StoredBatch, decode_batch
from tierledger.storage.serde import MetadataSerDe

NOTHING_HELD = Deletions()

DELETION_UNEXPLAINED = "deletion-unexplained"
"""The alarm for a deletion that no rule of Kafka's explains; the data is kept."""

DELETION_WAITS = "deletion-not-judged"
"""The alarm for a deletion that waits, as Kafka does not say whether its rules explain it."""

DELETION_HELD = "deletion-held"
"""The alarm for a refused deletion of a segment."""

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED

EVENTS_PER_BATCH = 256
"""Events of a batch, up to the one command that exceeds it: 1 ms to apply, 64 KiB to store."""

CUSTOM_BYTES_PER_BATCH = 4 * 1024 * 1024
"""Custom metadata of a batch, up to the one command that exceeds it; a store takes 64 MiB."""


class Draft(NamedTuple):
    """What a batch of commands leads to: decided on, not stored yet."""

    commands: list[msg.CommandArrived]
    events: list[log.Event]
    replies: list[msg.Effect]
    """Sent once it is known that no other leader has written meanwhile."""
    at_once: list[msg.Effect]
    """Sent now: they do not depend on the log."""
    undecided: list[tuple[msg.CommandArrived, int]]
    """Claims about which the leader oracle has to be asked, each with the delay in ms."""
    given_up: list[cmd.Claim]
    """Claims whose brokers no longer lead: none of them may wait for the oracle."""


class InFlight(NamedTuple):
    """The one batch that is being appended, and the callers that wait for it."""

    sent: SentBatch
    chain_hash: bytes
    """The chain hash behind it."""
    events: tuple[log.Event, ...]
    commands: tuple[msg.CommandArrived, ...]
    replies: tuple[msg.Effect, ...]


def draft(
    overlay: Overlay,
    inbox: deque[msg.CommandArrived],
    limits: Limits,
    deletions: Deletions = NOTHING_HELD,
    *,
    has_claimed: bool,
) -> Draft:
    """Take commands out of `inbox` until a batch is full, and decide on each."""
    drafted = Draft([], [], [], [], [], [])
    # The durable session, not one that this batch opens: the oracle may be asked before that.
    led = 0 if overlay.session is None else overlay.session.number
    size = 0
    while inbox and len(drafted.events) < EVENTS_PER_BATCH and size < CUSTOM_BYTES_PER_BATCH:
        arrived = inbox.popleft()
        if isinstance(arrived.command, cmd.CloseSession):
            drafted.given_up.append(arrived.command.claim)
        claimed = has_claimed or bool(drafted.events)
        if not claimed and not isinstance(arrived.command, cmd.OpenSession):
            error = NotReady("the session is being opened")
            drafted.at_once.append(msg.ReplyError(arrived.reply_to, error))
            continue
        try:
            heeded = heeding(overlay, arrived.command, deletions, arrived.now_ms)
        except RejectedError as error:
            drafted.at_once.append(msg.ReplyError(arrived.reply_to, error))
            continue
        if heeded is not arrived.command:
            arrived = arrived._replace(command=heeded)
        held = kept_back(overlay, arrived, deletions)
        if isinstance(held, msg.Alarm):
            error_of_it = RejectedError(held.message)
            drafted.at_once.extend([msg.ReplyError(arrived.reply_to, error_of_it), held])
            continue
        if held is not None:
            assert isinstance(arrived.command, cmd.UpdateSegment), "only segments are kept"
            arrived = arrived._replace(command=arrived.command._replace(keep=held))
        decision = decide(overlay, arrived.command, arrived.now_ms, limits)
        if isinstance(decision, Undecided):
            assert isinstance(arrived.command, cmd.OpenSession), "only a claim is undecided"
            arrived = arrived._replace(command=arrived.command._replace(asked_of=led))
            drafted.undecided.append((arrived, decision.delay_ms))
            continue
        drafted.commands.append(arrived)
        if isinstance(decision, Rejected):
            rejected = _rejected(overlay, arrived, decision.error, claimed=claimed)
            drafted.replies.extend(rejected)
        else:
            drafted.events.extend(decision.events)
            drafted.replies.append(msg.Reply(arrived.reply_to, decision.position))
            if held is not None and held.until_ms == log.UNTIL_RELEASED_MS:
                drafted.replies.append(msg.Alarm(DELETION_UNEXPLAINED, held.reason))
            size += _custom_bytes(decision.events)
    return drafted


def kept_back(
    overlay: Overlay, arrived: msg.CommandArrived, deletions: Deletions
) -> msg.Alarm | cmd.Keep | None:
    """The alarm if something forbids what the command would delete; None if nothing does.

    `Keep` if it may leave the answers, and its data stays: a guard asks before it deletes that.
    """
    _, command, now_ms, retention = arrived
    if not (deletions.held or deletions.holds or retention):
        return None
    tip = overlay.topic_id_partition
    if drops_finished_segments(overlay, command):
        holds = [one for one in deletions.over(tip, now_ms) if one.term_ms != 0]
        text = f"{tip} still has finished segments: "
        return _held_by(holds[0], text) if holds else None
    segment = segment_to_delete(overlay, command)
    if segment is None:
        return None
    if deletions.held and overlay.delete is None:  # No log start makes a topic's deletion.
        return msg.Alarm(DELETION_HELD, deletions.held, hold="")
    assert isinstance(command, cmd.UpdateSegment), "it begins the deletion of a segment"
    guarded_for = command.guarded_for
    if guarded_for is not None and overlay.delete is None and retention is not None:
        if isinstance(retention, NotKnown):
            text = f"segment {Uuid(segment[ID])} is not deleted yet: {retention.why}"
            return msg.Alarm(DELETION_WAITS, text)
        if why := unexplained(overlay, segment, retention, now_ms):
            return cmd.Keep(log.UNTIL_RELEASED_MS, why)
    holds = in_force(
        [
            hold
            for hold in deletions.over(tip, now_ms)
            if hold.is_about(guarded_for or 0)
            and hold.covers_segment(
                segment, None if hold.before_ms is None else overlay.earlier(segment)
            )
        ]
    )
    if not holds:
        return None
    if guarded_for is None:
        return _held_by(holds[0], f"segment {Uuid(segment[ID])} is not deleted: ")
    return cmd.Keep(kept_until_ms(holds, now_ms), text_of_keeper(holds[0]))


def _held_by(hold: Hold, text: str) -> msg.Alarm:
    return msg.Alarm(DELETION_HELD, text + text_of_hold(hold), hold=hold.name)


def _rejected(
    overlay: Overlay, arrived: msg.CommandArrived, error: RemoteStorageError, *, claimed: bool
) -> list[msg.Effect]:
    """The effects of a refused command: the caller's error, an alarm, a report of a claim."""
    effects: list[msg.Effect] = [msg.ReplyError(arrived.reply_to, error)]
    if not isinstance(error, NotLeader):
        effects.append(msg.Alarm(type(error).__name__, str(error)))
    command, session = arrived.command, overlay.session
    if isinstance(command, cmd.OpenSession) and isinstance(error, Fenced):
        held = session if session is not None and session.is_open else None
        number, time_ms = command.assignment, overlay.log_time_ms
        effects.append(msg.ClaimRefused(number, held, claimed, time_ms))
    return effects


def _custom_bytes(events: Iterable[log.Event]) -> int:
    size = 0
    for event in events:
        body = event.body
        if isinstance(body, (log.SegmentAdded, log.SegmentUpdated)) and body.custom_metadata:
            size += len(body.custom_metadata)
    return size


def let_go_bytes(state: PartitionState, events: Iterable[log.Event]) -> int:
    """Bytes of the finished segments whose data brokers delete from `events` on.

    `state`: before them.
    """
    going: dict[bytes, int] = {}
    for event in events:
        body = event.body
        if isinstance(body, log.SegmentUpdated) and body.state == _DELETING:
            row = state.rows.get(body.segment_id)
            fields = None if row is None else unpack_row(row)
            if fields is not None and fields[STATE] == _FINISHED:
                going[body.segment_id] = fields[SIZE]
        elif isinstance(body, log.SegmentKept):
            going.pop(body.segment_id, None)
    return sum(going.values())


def unkept(replies: Iterable[msg.Effect], error: RemoteStorageError) -> list[msg.Effect]:
    """`error` in place of each of `replies`, which the store did not let us give.

    `ClaimRefused` is kept. The refusal stands, and unless the coordinator hears of it, it takes
    the claim for one that leads, and nobody claims again.
    """
    kept = [one for one in replies if isinstance(one, msg.ClaimRefused)]
    return [*refusals(replies, error), *kept]


def refusals(replies: Iterable[msg.Effect], error: RemoteStorageError) -> list[msg.Effect]:
    """`error` for each caller to whom one of `replies` would have gone."""
    return [
        msg.ReplyError(reply.reply_to, error)
        for reply in replies
        if isinstance(reply, msg.Reply | msg.ReplyError | msg.Answer)
    ]


def damage_of(
    number: int, value: bytes, serde: MetadataSerDe, state: PartitionState
) -> OutcomeUnknown | None:
    """The error for the callers of a batch whose slot holds `value`, if that is damaged.

    `value` may be their own batch, damaged since it was stored: the outcome is unknown. None if
    `value` is another leader's batch behind `state`, or the boundary of a forgotten log.
    """
    try:
        if boundary_in(serde, state.topic_id_partition, number, value) is not None:
            return None
        decode_batch(serde, StoredBatch(number, value), state.next_position, state.chain_hash)
    except DataError as error:
        return OutcomeUnknown(f"it may have been stored, and is damaged now: {error}")
    return None
