"""Scenarios: the size, limits and faults of a seed's world, and each decision with its time.

A run is a function of its scenario. Decisions name what they strike by time and place, not by
the order in which something happens, so any of them can be left out of a failing run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.scenario.doors import DoorPlan

RETENTIONS_MS = (150, 1500, 7 * 24 * 3600 * 1000)
"""How long ids of deleted segments are remembered: in most worlds they come to be forgotten."""


class SeedDecision(NamedTuple):
    """One thing that a seed does to its world."""

    at: int
    """Microseconds."""
    kind: str
    """One of `strikes.STRIKES`."""
    args: tuple[Any, ...]


class Scenario(NamedTuple):
    """All that determines the run of one world."""

    seed: int
    brokers: int
    hosts: int
    partitions: int
    partitions_per_host: int
    duration: int
    """Microseconds during which anything may fail; then all heals."""
    delays: tuple[int, ...]
    """The delays of messages and requests (us), used in turn."""
    skews_ms: tuple[int, ...]
    """How far the clocks of processes are off."""
    known_epochs: int
    """Percent of announcements that carry a leader epoch, as Kafka's never do."""
    oracle_knows: int
    """Percent of requests that the leader oracle answers."""
    knobs: tuple[tuple[str, int], ...]
    """The service's constants, at values that make rare situations common."""
    upgraded: tuple[str, ...]
    """Hosts that run a newer release."""
    writes_newer: bool
    """Whether the newer release already writes a format that other releases cannot read."""
    decisions: tuple[SeedDecision, ...]
    patience: int = 2 * S
    """How long (us) a client repeats a call before it gives up."""
    outdated: tuple[str, ...] = ()
    """Hosts that run an older release: they write checkpoints in its format."""
    retention_ms: int = RETENTIONS_MS[-1]
    """How long ids of deleted segments are remembered."""
    rows_kept: int = 3
    """Finished segments that a broker keeps in a partition; with more it deletes the oldest."""
    oracle_behind: int = 0
    """How many elections the leader oracle may be behind."""
    oracle_delay: int = 0
    """How long (us) an answer of the oracle takes."""
    has_replicas: bool = False
    """Whether brokers keep replicas that are fed."""
    one_writer: bool = False
    """Whether one host writes to the store for all."""
    is_bucket: bool = False
    """Whether such a store is a bucket, in which a successor fences the former writer, that may
    live on; else it is a file."""
    clock_off: tuple[str, int] | None = None
    """The host, or `coordinator`, whose clock is wrong by so many days more; None: all are
    right."""
    is_direct: bool = True
    """Whether brokers reach hosts and coordinator by calls, not by frames through a door."""
    doors: DoorPlan = DoorPlan()
    guarded: tuple[bool, ...] = ()
    """Of brokers by id, in turn: whether their storage managers are guarded; empty: this world
    has no tier, and brokers' deletions are only written down."""
    unexplained: int = 0
    """Percent of deletions that no rule of Kafka's explains, where there are guards."""
    spare: int = 0
    """Partitions of topics that are made under the name of one that was deleted."""
    is_part: bool = False
    """Whether it was made from another one: too little may happen in it for `MINIMUMS`."""

    def kept(self, indices: frozenset[int]) -> Scenario:
        """The same world with only those decisions."""
        decisions = [one for at, one in enumerate(self.decisions) if at in indices]
        return self._replace(decisions=tuple(decisions), is_part=True)
