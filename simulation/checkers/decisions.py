"""A checker of what leaders decide: each batch is decided again, by the slow rules.

Answers show only what callers hear of a decision, and only if somebody asks. Here every
command that a leader takes up is decided again after the log before it. So a batch of several
commands must come to the same as its commands one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tierledger.actors import messages as msg
from tierledger.actors.calls import PartitionKey
from tierledger.actors.holds import Deletions
from tierledger.actors.leader import batch as leader_batch
from tierledger.actors.leader import machine
from tierledger.actors.leader.batch import NOTHING_HELD, Draft
from tierledger.events import commands as cmd
from tierledger.events import log_events
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.overlay import Overlay
from tierledger.simulation.checkers.content import first_difference
from tierledger.simulation.checkers.slow.decisions import Facts, Refused, Unsure, Waits, decided
from tierledger.simulation.checkers.slow.deletions import (
    RefusedCommand,
    due_now,
    held_or_kept,
    is_held_as_a_whole,
    kept_longer,
)
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import FinalLog


class Drafted(NamedTuple):
    """The batch that a leader drafted from the commands in its inbox."""

    key: PartitionKey
    position: int
    """The next event's position in the state that the batch was decided on."""
    queue: object
    """The leader's inbox, whose identity stands for the leader."""
    has_claimed: bool
    given: tuple[msg.CommandArrived, ...]
    left: int
    """How many of `given` were left for the next batch."""
    made: Draft
    replies: tuple[msg.Effect, ...]
    events_max: int
    """The limit of events per batch, which differs between worlds."""
    tip: TopicIdPartition
    told: Deletions = NOTHING_HELD
    """What the leader knew of holds."""


@contextmanager
def drafts_noted(into: list[Drafted]) -> Iterator[None]:
    """Note every batch that leaders draft until the block ends."""
    draft: Any = vars(machine)["draft"]

    def noted(
        overlay: Overlay,
        inbox: deque[msg.CommandArrived],
        limits: Limits,
        deletions: Deletions,
        *,
        has_claimed: bool,
    ) -> Draft:
        given, position = tuple(inbox), overlay.next_position
        key = PartitionKey.of(overlay.topic_id_partition)
        made: Draft = draft(overlay, inbox, limits, deletions, has_claimed=has_claimed)
        if given:  # Else only reads wait. Copied: the leader adds their replies.
            replies = tuple(made.replies)
            most, left = leader_batch.EVENTS_PER_BATCH, len(inbox)
            into.append(
                Drafted(
                    key, position, inbox, has_claimed, given, left, made, replies, most,
                    overlay.topic_id_partition, deletions,
                )
            )  # fmt: skip
        return made

    setattr(machine, "draft", noted)  # noqa: B010 - It is imported there.
    try:
        yield
    finally:
        setattr(machine, "draft", draft)  # noqa: B010 - As above.


def misdecided(drafts: Iterable[Drafted], log: FinalLog, facts: Facts) -> Iterator[Violation]:
    """A leader decided otherwise than the rules do on the log as far as it had read it.

    A claim that waits for the oracle is taken to have waited for as long as it was told to,
    counted for the session that leads. `facts` must be those of an empty log; they become those
    of `log`.
    """
    waited, events = _Waited(), log.events
    for one in sorted(drafts, key=lambda one: one.position):
        while facts.end < min(one.position, len(events)):
            facts.take(events[facts.end])
        if facts.end != one.position:
            break  # Drafted on another log than the final one; other checkers tell.
        try:
            why = difference(one, facts.copy(), waited)
        except Unsure:
            continue
        if why is not None:
            yield Violation("misdecided", log.key, f"behind position {one.position - 1}, {why}")
    while facts.end < len(events):
        facts.take(events[facts.end])


class _Waited:
    """How long each leader has let each claim wait against a session."""

    def __init__(self) -> None:
        self._waited: dict[tuple[int, int, int], int] = {}

    def add(self, one: Drafted, assignment: int, session: int, delay_ms: int) -> None:
        key = (id(one.queue), assignment, session)
        self._waited[key] = self._waited.get(key, 0) + delay_ms

    def of(self, one: Drafted, assignment: int, session: int) -> int:
        return self._waited.get((id(one.queue), assignment, session), 0)


def difference(  # noqa: C901, PLR0912, PLR0915 - One loop, as a leader's.
    one: Drafted, facts: Facts, waited: _Waited | None = None
) -> str | None:
    """How the draft differs from what the slow rules make of its commands; none if it does not.

    `facts` are those before the draft; the events are folded into them. `waited` knows how long
    claims have waited; without it, the figures in the commands are believed.
    """
    led = 0 if facts.session is None else facts.session.number
    events, replies, at_once = list[Any](), list[Any](), list[Any]()
    undecided, given_up, size, taken = list[Any](), list[Any](), 0, 0
    before = facts.copy()
    for arrived in one.given:
        if len(events) >= one.events_max:
            break
        if size >= leader_batch.CUSTOM_BYTES_PER_BATCH:
            break
        taken += 1
        command, to = arrived.command, arrived.reply_to
        if isinstance(command, cmd.CloseSession):
            given_up.append(command.claim)
        has_claimed = one.has_claimed or bool(events)
        if not has_claimed and not isinstance(command, cmd.OpenSession):
            at_once.append((to, "NotReady"))
            continue
        if isinstance(command, cmd.StartPurges):
            known = facts.kept
            if not command.segment_ids:  # What this batch keeps is not chosen.
                known = {one: known[one] for one in before.kept if one in known}
            ids = due_now(one.tip, known, command, one.told, arrived.now_ms)
            command = command._replace(segment_ids=ids)
        if isinstance(command, cmd.EndSegments):
            if is_held_as_a_whole(one.tip, one.told, arrived.now_ms):
                at_once.append((to, "RejectedError"))
                continue
            command = kept_longer(one.tip, command, one.told, arrived.now_ms)
        fate = held_or_kept(
            one.tip, facts.segments, before.segments,
            None if facts.delete is None else facts.delete[0],
            command, one.told, arrived.retention, arrived.now_ms,
        )  # fmt: skip
        if isinstance(fate, RefusedCommand):
            at_once += [(to, "RejectedError"), fate.alarm]
            continue
        if fate is not None:
            assert isinstance(command, cmd.UpdateSegment), "only segments are kept"
            command = command._replace(keep=cmd.Keep(fate, ""))
        if isinstance(command, cmd.OpenSession) and waited is not None:
            command = command._replace(waited_ms=waited.of(one, command.assignment, led))
        try:
            found = decided(facts, command, arrived.now_ms)
        except Waits as waits:
            assert isinstance(command, cmd.OpenSession), "only a claim waits"
            if waited is not None:
                waited.add(one, command.assignment, led, waits.args[0])
            undecided.append((to, command.assignment, led, waits.args[0]))
        except Refused as refused:
            replies.append((to, refused.args[0]))
            if refused.args[0] != "NotLeader":
                replies.append(refused.args[0])
            if isinstance(command, cmd.OpenSession) and refused.args[0] == "Fenced":
                session = facts.session if facts.is_open else None
                number = None if session is None else session.number
                replies.append((command.assignment, number, has_claimed, facts.time_ms))
        else:
            events += found.events
            replies.append((to, found.position))
            if fate == log_events.UNTIL_RELEASED_MS:
                replies.append("deletion-unexplained")
            size += sum(
                len(getattr(event.body, "custom_metadata", None) or b"")
                for event in found.events
            )
    made = one.made
    expected_and_found = (
        ("takes up", taken, len(one.given) - one.left),
        ("appends", events, [_without_reason(event) for event in made.events]),
        ("says", replies, [_plain(reply) for reply in one.replies]),
        ("says at once", at_once, [_plain(reply) for reply in made.at_once]),
        ("lets wait", undecided, [_waiting(*waits) for waits in made.undecided]),
        ("gives up", given_up, made.given_up),
    )
    for what, expected, found_there in expected_and_found:
        if expected != found_there:
            commands = ", ".join(type(arrived.command).__name__ for arrived in one.given)
            apart = first_difference(found_there, expected)
            return f"for {commands:.80} a leader {what} {apart}"
    return None


def _without_reason(event: log_events.Event) -> log_events.Event:
    """The event without the words why a segment is kept, which the slow rules do not know."""
    body = event.body
    if not isinstance(body, log_events.SegmentKept):
        return event
    assert body.reason, "whoever reads the log wants to know it"
    return event._replace(body=body._replace(reason=""))


def _plain(effect: msg.Effect) -> Any:  # noqa: ANN401
    """A reply as it is compared: its receiver and its content."""
    match effect:
        case msg.Reply():
            return (effect.reply_to, effect.position)
        case msg.ReplyError():
            return (effect.reply_to, type(effect.error).__name__)
        case msg.ClaimRefused():
            number = None if effect.session is None else effect.session.number
            return (effect.assignment, number, effect.is_served, effect.log_time_ms)
        case msg.Alarm():
            return effect.kind
        case _:
            return effect


def _waiting(arrived: msg.CommandArrived, delay_ms: int) -> tuple[Any, ...]:
    command = arrived.command
    assert isinstance(command, cmd.OpenSession), "only a claim waits"
    return (arrived.reply_to, command.assignment, command.asked_of, delay_ms)
