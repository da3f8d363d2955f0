"""Mistakes in the feed of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

from tierledger.actors import messages as msg
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.leader.machine import Leader
from tierledger.events.log_events import Event
from tierledger.events.partition.evolve import evolve_all
from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.simulation.service.plan import REPLICAS_EVERY, REPLICAS_FIRST

EVERY = 7
"""One batch in so many is lost."""

_mistake = partial(mistake, first=248 + REPLICAS_FIRST, every=REPLICAS_EVERY)
"""Declares a mutant that is looked for in worlds with replicas."""


@_mistake("M66", "fed_refused")
def change_lost() -> Patches:
    """A batch in seven is not sent to replicas."""
    changed = FeedSource.changed

    def forgetful(self: FeedSource, events: Sequence[Event]) -> None:
        after, chain_hash = self._position, self._chain_hash
        changed(self, events)
        if self._position % EVERY == 0:
            self._ring_bytes -= self._ring.pop().size
            self._entries -= 1
            self._position, self._chain_hash = after, chain_hash

    return [(FeedSource, "changed", forgetful)]


@_mistake("M67", "fed_early")
def fed_before_durable() -> Patches:
    """Replicas are fed a batch when it is sent to the store."""
    pump, changed = Leader._pump, FeedSource.changed

    def hasty(self: Leader) -> list[msg.Effect]:
        was_in_flight = self._in_flight
        effects = pump(self)
        flight, feed = self._in_flight, self._feed
        if feed is not None and flight is not None and was_in_flight is None:
            ahead = deepcopy(self.state)
            assert ahead is not None, "something was decided on it"
            evolve_all(ahead, flight.events, flight.chain_hash)
            feed._machine = SimpleNamespace(state=ahead)
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


@_mistake("M68", "fed_refused")
def snapshot_misses_its_tail() -> Patches:
    """What changed while slices were taken is left out."""
    return rewritten(
        FeedSource._next,
        "one.frozen = one.slices = None\n",
        "one.frozen, one.slices, one.next_entry = None, None, self._entries\n",
    )


@_mistake("M69", "fed_refused")
def older_position() -> Patches:
    """A source that is behind begins a snapshot."""
    older = "(subscription._replace(position=-1, floor=-1))"
    return rewritten(FeedSource.subscribe, "(subscription)", older)


@_mistake("M70", "fed_wrong")
def numbers_sent_once() -> Patches:
    """An epoch's highest offset and size are sent when it appears, and never again."""
    return rewritten(FeedSource._renumber, "if sent != numbers:", "if sent is None:")


@mistake("M94", "early_ready", first=0)
def ready_outlasts_its_role() -> Patches:
    """A replica stays ready when its broker announces itself anew."""
    return rewritten(
        Replica.expect, "self.claim, self.is_ready = claim, False", "self.claim = claim"
    )


@_mistake("M71", "fed_back")
def floor_forgotten() -> Patches:
    """Neither source nor replica remembers at which position it has answered."""
    return [
        *older_position(),
        *rewritten(Replica._begin, "begun.position < self.floor", "begun.position < -1"),
    ]
