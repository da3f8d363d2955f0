"""Checkers that need the state at a position: one fold of the log serves them all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import DataError
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition import invariants
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.laws import unlawful_event
from tierledger.simulation.checkers.state_digest import fields_that_differ, state_digest
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import CHECKPOINT, COLD, StateSeen

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


UNFOLDABLE = (DataError, LookupError, ValueError, AssertionError)
"""Errors that `evolve` raises for an event that `decide` would not have let through."""


class Checkpoint(NamedTuple):
    """A checkpoint that was seen in the store: the last position it covers, and its digest."""

    position: int
    digest: bytes


def checkpoint_is_fold(checkpoints: Iterable[Checkpoint], log: FinalLog) -> list[Violation]:
    """A checkpoint's digest is not that of the log up to its position."""
    return check_fold(log, checkpoints=checkpoints).violations


def replay_determinism(
    states: Iterable[StateSeen], log: FinalLog | None, key: PartitionKey | None = None
) -> list[Violation]:
    """Somebody's state at a position is not the log's, or not everybody's.

    Where the log is unknown, or does not reach, states are held against each other.
    """
    if log is None:
        return _disagreements(states, key)
    return check_fold(log, states=states).violations


class Asked:
    """The checkpoints and states to judge, by position."""

    def __init__(self, checkpoints: Iterable[Checkpoint], states: Iterable[StateSeen]) -> None:
        self.checkpoints: defaultdict[int, list[Checkpoint]] = defaultdict(list)
        self.states: defaultdict[int, list[StateSeen]] = defaultdict(list)
        for checkpoint in checkpoints:
            self.checkpoints[checkpoint.position].append(checkpoint)
        for seen in states:
            self.states[seen.position].append(seen)


def lifecycle(
    log: FinalLog, *, custom_metadata_bytes_max: int | None = None, every: int = 0
) -> list[Violation]:
    """An event that the rules forbid, or a state that no log should lead to.

    Args:
        log: Recorded history in it is held to no rule, as in `decide`.
        custom_metadata_bytes_max: The limit that leaders were given, none if unknown.
        every: Check the state after so many events, and always at the end.
    """
    unlawful = unlawful_event(log, custom_metadata_bytes_max)
    return unlawful + check_fold(log, every=every, at_end=True).violations


class Folded(NamedTuple):
    """The result of a fold of a log."""

    violations: list[Violation]
    state: PartitionState | None
    """At the log's end; none if it cannot be folded."""


def check_fold(
    log: FinalLog,
    *,
    checkpoints: Iterable[Checkpoint] = (),
    states: Iterable[StateSeen] = (),
    every: int = 0,
    at_end: bool = False,
) -> Folded:
    """Fold the log once, and compare checkpoints and states with it on the way."""
    found: list[Violation] = []
    asked = Asked(checkpoints, states)
    doubted = set(range(every - 1, len(log.events), every)) if every else set()
    if at_end:
        doubted.add(log.end)
    state, end = PartitionState(log.topic_id_partition, log.genesis), log.end
    events, hash_at = log.events, log.chain_hashes.get
    # Fold to the end, too: nobody may serve a log that cannot be folded.
    positions = sorted({*asked.checkpoints, *asked.states, *doubted, end})
    for at, position in enumerate(positions):
        if not -1 <= position <= end:
            found += _nowhere(log, position, asked)
            continue
        try:
            first = state.next_position
            if position >= first:
                evolve_all(state, events[first : position + 1], hash_at(position, b""))
        except UNFOLDABLE as error:  # No leader may append such an event.
            found.append(Violation("lifecycle", log.key, f"the log does not fold: {error!r}"))
            unjudged = [one for later in positions[at:] for one in asked.states.get(later, ())]
            return Folded(found + _disagreements(unjudged, log.key), None)
        if position in asked.checkpoints:
            for checkpoint in asked.checkpoints[position]:
                found += _judge_checkpoint(checkpoint, state, log)
        if position in asked.states:
            found += _judge_states(asked.states[position], state, log)
        if position in doubted:
            found += judged_state(state, log)
    return Folded(found, state)


def _nowhere(log: FinalLog, position: int, asked: Asked) -> Iterator[Violation]:
    where = f"at position {position}, and the log ends at {log.end}"
    for _ in asked.checkpoints.get(position, ()):
        yield Violation("checkpoint_is_fold", log.key, f"a checkpoint stands {where}")
    for seen in asked.states.get(position, ()):
        message = f"{_who(seen)} was {where}"
        yield Violation("replay_determinism", log.key, message)


def folded(log: FinalLog) -> PartitionState | None:
    """The service's own fold of a whole log; none if it cannot be folded."""
    state = PartitionState(log.topic_id_partition, log.genesis)
    try:
        evolve_all(state, log.events, log.chain_hashes.get(log.end, b""))
    except UNFOLDABLE:
        return None
    return state


# Answers.


# Checkpoints, states that were seen, and the state itself.


def _judge_checkpoint(
    checkpoint: Checkpoint, state: PartitionState, log: FinalLog
) -> Iterator[Violation]:
    position, digest = checkpoint
    if position >= 0 and position not in log.chain_hashes:
        message = f"a checkpoint stands at {position}, where no batch ends"
        yield Violation("checkpoint_is_fold", log.key, message)
    elif state.digest() != digest:
        message = (
            f"the checkpoint at {position} says {digest.hex()}, the log {state.digest().hex()}"
        )
        yield Violation("checkpoint_is_fold", log.key, message)


def _judge_states(
    seen: Sequence[StateSeen], state: PartitionState, log: FinalLog
) -> Iterator[Violation]:
    """Compare all states at a position with one digest, since a digest costs much."""
    position = seen[0].position
    if position >= 0 and position not in log.chain_hashes:
        for one in seen:
            message = f"{_who(one)} was at position {position}, and no batch ends there"
            yield Violation("replay_determinism", log.key, message)
        return
    digest = state_digest(state)
    for one in seen:
        if one.digest != digest:
            names = ", ".join(fields_that_differ(one.digest, digest))
            message = (
                f"{_who(one)} at position {position} had another state than the log at "
                f"{ms_text(one.time)}: its {names} differ"
            )
            yield Violation("replay_determinism", log.key, message)


def _who(seen: StateSeen) -> str:
    """Whose state it was: a replica's life, or what a state was made from."""
    return _MADE.get(seen.role) or f"{seen.role} {seen.node}"


_MADE = {COLD: "a cold start", CHECKPOINT: "the checkpoint"}


def _disagreements(states: Iterable[StateSeen], key: PartitionKey | None) -> list[Violation]:
    first: dict[int, StateSeen] = {}
    found = []
    for one in states:
        other = first.setdefault(one.position, one)
        if other.digest != one.digest:
            names = ", ".join(fields_that_differ(one.digest, other.digest))
            message = (
                f"at position {one.position} {_who(one)} and {_who(other)} have different "
                f"states: their {names} differ"
            )
            found.append(Violation("replay_determinism", key, message))
    return found


def judged_state(state: PartitionState, log: FinalLog) -> Iterator[Violation]:
    try:
        invariants.check(state)
    except AssertionError as error:
        message = (
            f"behind position {state.next_position - 1} the state contradicts itself: {error}"
        )
        yield Violation("lifecycle", log.key, message)
