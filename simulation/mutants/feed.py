"""Mistakes in the feed of replicas."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.leader.machine import Leader
from tierledger.events.partition.evolve import evolve_all
from tierledger.simulation.mutants.rewriting import rewritten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors import messages as msg
    from tierledger.actors.feed.frames import Subscription
    from tierledger.events.log_events import Event

EVERY = 7
"""A batch in so many is lost."""


def change_lost() -> list[tuple[Any, str, Any]]:
    changed = FeedSource.changed

    def forgetful(self: FeedSource, events: Sequence[Event]) -> None:
        after, chain_hash = self._position, self._chain_hash
        changed(self, events)
        if self._position % EVERY == 0:
            self._ring_bytes -= self._ring.pop().size
            self._entries -= 1
            self._position, self._chain_hash = after, chain_hash

    return [(FeedSource, "changed", forgetful)]


def told_before_durable() -> list[tuple[Any, str, Any]]:
    pump, changed = Leader._pump, FeedSource.changed

    def hasty(self: Leader) -> list[msg.Effect]:
        was_in_flight = self._in_flight
        effects = pump(self)
        flight, feed = self._in_flight, self._feed
        if feed is not None and flight is not None and was_in_flight is None:
            told = deepcopy(self.state)
            assert told is not None, "something was decided on it"
            evolve_all(told, flight.events, flight.encoded.chain_hash)
            feed._machine = SimpleNamespace(state=told)
            changed(feed, flight.events)
            feed._machine = self
        return effects

    def once(self: FeedSource, events: Sequence[Event]) -> None:
        state = self._machine.state
        if state is not None and state.next_position - 1 > self._position:
            changed(self, events)
        elif state is not None:
            state.settle()
            state.touched = {}

    return [(Leader, "_pump", hasty), (FeedSource, "changed", once)]


def snapshot_misses_its_tail() -> list[tuple[Any, str, Any]]:
    return rewritten(
        FeedSource._next,
        "one.frozen = one.slices = None\n",
        "one.frozen, one.slices, one.next_entry = None, None, self._entries\n",
    )


def older_position_after_reconnect() -> list[tuple[Any, str, Any]]:
    subscribe = FeedSource.subscribe

    def careless(self: FeedSource, subscription: Subscription) -> int:
        return subscribe(self, subscription._replace(position=-1, floor=-1))

    return [(FeedSource, "subscribe", careless)]


def numbers_told_once() -> list[tuple[Any, str, Any]]:
    return rewritten(FeedSource._renumber, "if told != numbers:", "if told is None:")


def floor_forgotten() -> list[tuple[Any, str, Any]]:
    return [
        *older_position_after_reconnect(),
        *rewritten(Replica._begin, "begun.position < self.floor", "begun.position < -1"),
    ]


WITHIN = 400
"""Seeds, of which one in eight has replicas."""

MISTAKES = (
    (
        "M66 change-lost",
        "a batch in seven is not told to replicas",
        "fed_refused",
        change_lost,
        WITHIN,
    ),
    (
        "M67 told-before-durable",
        "replicas are told of a batch when it is sent to the store",
        "fed_early",
        told_before_durable,
        WITHIN,
    ),
    (
        "M68 snapshot-misses-its-tail",
        "what changed while slices were taken is left out",
        "fed_refused",
        snapshot_misses_its_tail,
        WITHIN,
    ),
    (
        "M69 older-position",
        "a source that is behind begins a snapshot",
        "fed_refused",
        older_position_after_reconnect,
        WITHIN,
    ),
    (
        "M70 numbers-told-once",
        "an epoch's highest offset and size are told when it appears, and never again",
        "fed_wrong",
        numbers_told_once,
        WITHIN,
    ),
    (
        "M71 floor-forgotten",
        "neither source nor replica remembers at which position it has answered",
        "fed_back",
        floor_forgotten,
        WITHIN,
    ),
)
"""Name, mistake, checkers that find it, what replaces what, and within how many seeds."""
