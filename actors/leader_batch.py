"""One batch of a leader: what the commands that wait lead to, and who hears of it when.

Nothing here changes the state: commands are decided on an overlay, and what was decided counts
once it is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors import messages as msg
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.decide import Rejected, decide
from tierledger.events.errors import NotLeader, NotReady

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from tierledger.events.decide import Limits
    from tierledger.events.errors import RemoteStorageError
    from tierledger.events.overlay import Overlay
    from tierledger.storage.event_log import EncodedBatch

EVENTS_PER_BATCH = 256
"""Events of a batch, up to the one command that exceeds it: 1 ms to apply, 64 KiB to store."""

CUSTOM_BYTES_PER_BATCH = 4 * 1024 * 1024
"""Custom metadata of a batch, up to the one command that exceeds it; a store takes 64 MiB."""


class Draft(NamedTuple):
    """What commands lead to, decided and not yet stored."""

    commands: list[msg.CommandArrived]
    events: list[log.Event]
    replies: list[msg.Effect]
    """Given once it is known that nobody else has written meanwhile."""


class InFlight(NamedTuple):
    """The one batch that is on its way, and who waits for it."""

    number: int
    encoded: EncodedBatch
    events: tuple[log.Event, ...]
    commands: tuple[msg.CommandArrived, ...]
    replies: tuple[msg.Effect, ...]
    is_uncertain: bool = False
    """An append of it was not answered, and may still arrive."""


def draft(
    overlay: Overlay, inbox: deque[msg.CommandArrived], limits: Limits, *, has_claimed: bool
) -> Draft:
    """Take commands out of `inbox` until a batch is full, and decide on each."""
    drafted = Draft([], [], [])
    size = 0
    while inbox and len(drafted.events) < EVENTS_PER_BATCH and size < CUSTOM_BYTES_PER_BATCH:
        arrived = inbox.popleft()
        drafted.commands.append(arrived)
        claimed = has_claimed or bool(drafted.events)
        events, replies = _decided(overlay, arrived, limits, claimed=claimed)
        drafted.events.extend(events)
        drafted.replies.extend(replies)
        size += _custom_bytes(events)
    return drafted


def _decided(
    overlay: Overlay, arrived: msg.CommandArrived, limits: Limits, *, claimed: bool
) -> tuple[tuple[log.Event, ...], list[msg.Effect]]:
    """What one command leads to; before the claim none but a claim is looked at."""
    if not claimed and not isinstance(arrived.command, cmd.OpenSession):
        error = NotReady("the session is being opened")
        return (), [msg.ReplyError(arrived.reply_to, error)]
    decision = decide(overlay, arrived.command, arrived.now_ms, limits)
    if not isinstance(decision, Rejected):
        return decision.events, [msg.Reply(arrived.reply_to, decision.position)]
    effects: list[msg.Effect] = [msg.ReplyError(arrived.reply_to, decision.error)]
    if not isinstance(decision.error, NotLeader):
        effects.append(msg.Alarm(type(decision.error).__name__, str(decision.error)))
    return (), effects


def _custom_bytes(events: Iterable[log.Event]) -> int:
    return sum(
        len(event.body.custom_metadata or b"")
        for event in events
        if isinstance(event.body, log.SegmentAdded | log.SegmentUpdated)
    )


def refusals(replies: Iterable[msg.Effect], error: RemoteStorageError) -> list[msg.Effect]:
    """What those hear to whom `replies` would have gone."""
    return [
        msg.ReplyError(reply.reply_to, error)
        for reply in replies
        if isinstance(reply, msg.Reply | msg.ReplyError | msg.Answer)
    ]


def open_command(assigned: msg.Assigned) -> msg.CommandArrived:
    """The claim that an assignment calls for."""
    given = assigned.assignment
    command = cmd.OpenSession(
        given.claim, given.number, given.leader_epoch, given.topic, given.import_cluster
    )
    recorded = given.recorded_time_ms
    now_ms = assigned.now_ms if recorded is None else recorded
    return msg.CommandArrived(assigned.reply_to, command, now_ms)
