"""The outcome of one seed, in any world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.checkers.violation import Violation

CLOSELY = 4
"""In one seed in so many, a new process also reads the store after the run."""

MINIMUMS = Minimums(ok_writes=1)
"""What one seed must have seen; a campaign asks more of all its seeds together."""


class SeedVerdict(NamedTuple):
    """One seed's outcome, small enough to travel between processes by the million."""

    seed: int
    violations: list[Violation]
    trace_hash: str
    calls: int
    ok_calls: int
    changes: int
    """Leadership changes: further sessions, or elections."""
    steps: int
    virtual_s: float
    marks: Mapping[str, int]
    """Faults and rare situations: how often each came about."""
    counts: dict[str, int]
    """How often rare things happened."""
    is_small: bool = False
    cpu_s: float = 0.0
    """CPU time, all checkers included, where a campaign measures it."""
