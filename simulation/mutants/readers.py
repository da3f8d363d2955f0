"""Mistakes in followers, and in the answers of a partition in quarantine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from tierledger.actors import replaying
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader
from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.storage.partition.event_log import (
    DecodedBatch,
    StoredBatch,
    decode_batch,
    stored_events,
)
from tierledger.storage.serde import MetadataSerDe

EVERY = 5
"""A follower that applies a gap leaves out one batch in so many."""

BEFORE_AT = 7
"""The field of a stored event that holds the hash of the event before it."""


@mistake("M18", "session_reads")
def follower_ignores_position() -> Patches:
    """A follower answers behind what its reader has seen."""
    return rewritten(Follower._query, "arrived.position_min <= self.position", "True")


@mistake("M19", "wrong_answer")
def follower_applies_a_gap() -> Patches:
    """A follower goes on behind a batch it did not apply."""
    evolve_all: Any = vars(replaying)["evolve_all"]

    is_following, log_read = _within(Follower._log_read)

    def gappy(state: Any, events: Any, chain_hash: bytes) -> None:  # noqa: ANN401 - As it is.
        if not is_following() or events[0].position % EVERY != EVERY - 1:
            evolve_all(state, events, chain_hash)
        else:
            state.next_position = events[-1].position + 1
            state.chain_hash = chain_hash

    return [(Follower, "_log_read", log_read), (replaying, "evolve_all", gappy)]


@mistake("M20", "session_reads", within=200)
def follower_regresses_after_restart() -> Patches:
    """A follower answers from its checkpoint before it has read on."""
    loading = "if self.phase is FollowerPhase.LOADING:"
    hasty = "if self.phase is FollowerPhase.LOADING and self.state is not None:"
    answer = "return [msg.Answer(arrived.reply_to, arrived.query)]"
    return rewritten(Follower._query, loading, f"{hasty}\n        {answer}\n    {loading}")


@mistake("M40", "linearizability fencing session_reads", within=500)
def quarantine_answers_as_if_fresh() -> Patches:
    """Answers from a partition in quarantine are not marked as stale."""
    return [
        *rewritten(Leader._query_in_quarantine, ", stale=True", ""),
        *rewritten(Follower._query, ", stale=True", ""),
    ]


@mistake("M62", "feed_gap")
def chain_not_followed() -> Patches:
    """A follower neither checks nor keeps the hash of what stands before a batch."""
    evolve_all: Any = vars(replaying)["evolve_all"]

    is_following, log_read = _within(Follower._log_read)

    def believing(
        serde: MetadataSerDe, batch: StoredBatch, position: int, before: bytes
    ) -> DecodedBatch:
        if not is_following():
            return decode_batch(serde, batch, position, before)
        _, stored = stored_events(serde, batch)
        return decode_batch(serde, batch, position, msgpack.unpackb(stored[0][4:])[BEFORE_AT])

    def careless(state: Any, events: Any, chain_hash: bytes) -> None:  # noqa: ANN401
        evolve_all(state, events, state.chain_hash if is_following() else chain_hash)

    return [
        (Follower, "_log_read", log_read),
        (replaying, "decode_batch", believing),
        (replaying, "evolve_all", careless),
    ]


def _within(method: Callable[..., Any]) -> tuple[Callable[[], bool], Callable[..., Any]]:
    """Whether `method` runs, as its replacement notes, which is the second."""
    depth = 0

    def noted(*given: Any) -> Any:  # noqa: ANN401 - As the method.
        nonlocal depth
        depth += 1
        try:
            return method(*given)
        finally:
            depth -= 1

    return lambda: depth > 0, noted


@mistake("M65", "unforeseen")
def readiness_taken_back_twice() -> Patches:
    """A step fails if an announcement is replaced for which nobody was ready yet."""
    return rewritten(
        Follower._assigned, "self._ready.discard(former)", "self._ready.remove(former)"
    )
