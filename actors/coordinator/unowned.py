"""Holds deletions after a broker may have run without the plugin while tierledger owned.

Kafka's own manager in such a broker may miss segments. Then log starts rise to what the broker
has in its own folder, and followers take them over. The next leader, with the plugin, would
delete what is below from the tier: to Kafka that is retention.

So a `DeletionsHeld` event is appended when a living broker has no plugin that reports, or when
Kafka's metadata topic has records of others. From then on leaders refuse to begin the deletion
of a finished segment; hosts hear of it with each ping. It ends when the broker's plugin
reports that it ran all the time and was only silent (it has the same incarnation, or began
before it could be missed), or when an operator has looked (`handover --confirm-deletions`).
A topic's deletion goes on: that is somebody's will, and no log start makes it.

Pure: the coordinator's service says what was seen, and when.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from tierledger.actors.coordinator.events import (
    CoordinatorBody,
    DeletionsHeld,
    DeletionsReleased,
    Owner,
)
from tierledger.actors.coordinator.state import CoordinatorState

FOREIGN = -1
"""In place of a broker's id: nobody knows which one wrote the topic."""

CAME_MS = 5_000
"""A broker that has just come alive lacks a plugin if none has reported for so long (ms); a
plugin reports before its broker takes part in the cluster."""

SILENT_MS = 15_000
"""The same for a broker that has not been seen dead. Kafka regards a killed broker as alive for
9 s (`broker.session.timeout.ms`)."""


class Unowned(NamedTuple):
    """A living broker without a plugin that reports, since when, and until when it was excused.

    A plugin that had begun by then was not missing.
    """

    broker_id: int
    since_ms: int
    excused_ms: int


class Sightings:
    """When brokers were seen alive, and their plugins heard; times by one clock, in ms."""

    def __init__(self, began_ms: int) -> None:
        """Nothing is known of the time before `began_ms`."""
        self._began_ms = began_ms
        self._seen_ms = began_ms
        self._alive: frozenset[int] = frozenset()
        self._known: set[int] = set()
        self._came: dict[int, int] = {}
        """By living broker that was dead before: when it was first seen alive again."""
        self._heard: dict[int, int] = {}

    def heard(self, broker_id: int, now_ms: int) -> None:
        """The broker's plugin has reported."""
        self._heard[broker_id] = now_ms

    def seen(self, alive: Collection[int], seen_ms: int) -> None:
        """Kafka regarded these brokers as alive at `seen_ms`."""
        if seen_ms <= self._seen_ms:
            return
        for broker_id in set(alive) - self._alive:
            if broker_id in self._known:
                self._came[broker_id] = seen_ms
        for broker_id in self._alive.difference(alive):
            self._came.pop(broker_id, None)
        self._known |= set(alive)
        self._alive, self._seen_ms = frozenset(alive), seen_ms

    def unowned(self) -> list[Unowned]:
        """The brokers that were alive without a plugin when they were last seen."""
        found = []
        for broker_id in sorted(self._alive):
            heard_ms = self._heard.get(broker_id, self._began_ms)
            came_ms = self._came.get(broker_id, heard_ms)
            since_ms = max(came_ms, heard_ms)
            excused_ms = since_ms + (CAME_MS if came_ms > heard_ms else SILENT_MS)
            if self._seen_ms >= excused_ms:
                found.append(Unowned(broker_id, since_ms, excused_ms))
        return found


def hold(
    state: CoordinatorState, broker_id: int, since_ms: int, foreign: int, excused_ms: int = 0
) -> list[CoordinatorBody]:
    """The event that holds deletions; none if they are held for that, or not ours to hold."""
    is_news = foreign > state.foreign if broker_id == FOREIGN else broker_id not in state.held
    if state.ownership.decider != Owner.TIERLEDGER or not is_news:
        return []
    incarnation = state.incarnations.get(broker_id, 0)
    return [DeletionsHeld(broker_id, incarnation, since_ms, foreign, excused_ms)]


def was_silent(
    state: CoordinatorState, broker_id: int, incarnation: int, began_ms: int | None
) -> bool:
    """Whether deletions are held for a broker whose plugin, which reports, was there.

    `began_ms` is when that plugin began, by the clock of `HoldDeletions`; None: not known.
    """
    held = state.held.get(broker_id)
    if held is None or broker_id == FOREIGN:
        return False
    return 0 < held.incarnation == incarnation or (
        began_ms is not None and began_ms < held.excused_ms
    )


def release(state: CoordinatorState, broker_id: int | None) -> list[CoordinatorBody]:
    """The event that ends the hold for that broker; None: all of it."""
    is_held = bool(state.held) if broker_id is None else broker_id in state.held
    return [DeletionsReleased(broker_id)] if is_held else []


def text_of(held: Collection[DeletionsHeld]) -> str:
    """Why deletions are held, in one sentence; empty if they are not."""
    if not held:
        return ""
    brokers = sorted(one.broker_id for one in held if one.broker_id != FOREIGN)
    causes = []
    if brokers:
        causes.append(f"brokers {', '.join(map(str, brokers))} ran without the plugin")
    if len(brokers) < len(held):
        causes.append("Kafka's metadata topic has records of others")
    since = datetime.fromtimestamp(min(one.since_ms for one in held) / 1000, UTC)
    return (
        f"deletions of finished segments are held since {since:%Y-%m-%d %H:%M:%S} UTC: "
        f"{', and '.join(causes)}; log starts that rose meanwhile are no reason to delete. See "
        "`tierledger handover --confirm-deletions`"
    )
