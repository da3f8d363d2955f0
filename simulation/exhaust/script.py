"""What happens in the small world, in any order: which broker leads, and who calls what."""

from __future__ import annotations

from typing import Any, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.scenario.scenario import Decision, Scenario

BEGINS = 1000 * MS
"""When messages may first be late; by then a first leader serves."""

GAP = 700 * MS
"""The time between two elections, in which a lost host is missed and replaced."""

STRIDE = 20 * MS
"""The time between two calls of a broker, which is longer than a list takes."""

LIST = 6
"""A read's kind, in the order of `strikes.KINDS`."""


class Bounds(NamedTuple):
    """How far the search goes."""

    delays: int = 0
    """Messages that may be late, each by any time."""
    crashes: int = 2
    appends: int = 2
    """Writes of each leader: it adds a segment and finishes it."""
    changes: int = 1
    """Leadership changes after the first leader."""
    reads: int = 0
    """Reads by the first broker under each leader, at the leader and the follower in turn."""


class Variant(NamedTuple):
    """What differs between worlds apart from the order of steps."""

    moves: bool
    """Whether each new leader is placed on another host while the former is not told. If not,
    clients give up on a call before a lost host is replaced."""

    @property
    def name(self) -> str:
        return "moved" if self.moves else "stayed"


VARIANTS = (Variant(moves=True), Variant(moves=False))


def scenario_of(bounds: Bounds, variant: Variant) -> Scenario:
    """The world in which no message is late and no process crashes.

    Raises:
        InvalidArgument: A bound is negative.
    """
    if min(bounds) < 0:
        raise InvalidArgument(f"expected bounds of at least 0, found {tuple(bounds)}")
    args: tuple[Any, ...]
    decisions: list[Decision] = []
    for term in range(bounds.changes + 1):
        at = BEGINS + term * GAP
        if term:
            decisions.append(Decision(at, "elect", (0, 0, 1, 2, 1)))
        for number in range(bounds.appends):  # The first write finds its leader's host.
            args = (0, 0, "go on", number)
            decisions.append(Decision(at + 5 * MS + number * STRIDE, "copy", args))
        if term and variant.moves:
            decisions.append(Decision(at + 10 * MS, "move leader", (0, term)))
        for number in range(bounds.reads):
            args = (1, 0, 0, 1 - number % 2, LIST, 0)
            reads_at = at + (bounds.appends + number + 1) * STRIDE
            decisions.append(Decision(reads_at, "read", args))
    decisions.sort(key=lambda one: one.at)
    return Scenario(
        seed=SEED, brokers=2, hosts=2, partitions=1, partitions_per_host=2,
        duration=BEGINS + (bounds.changes + 1) * GAP, delays=(0,), skews_ms=(0, 40, -40),
        known_epochs=100, oracle_knows=100, knobs=(("CHECKPOINT_EVENTS", 3),), upgraded=(),
        writes_newer=False, decisions=tuple(decisions), attempt=100 * MS,
        patience=2000 * MS if variant.moves else 160 * MS, repeats=False,
        is_part=True,
    )  # fmt: skip


SEED = 6
"""Draws nothing: decides which broker leads first, and that nothing is asked afterwards."""
