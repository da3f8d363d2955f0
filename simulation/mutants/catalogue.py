"""Mutants of the service: each is a mistake that somebody could make in its code.

A world that does not notice them proves nothing. Each mutant replaces one rule while a campaign
runs; the service's own code has no switches. The other modules declare them, by subject.
"""

from __future__ import annotations

from tierledger.simulation.mutants import (
    deletions,
    feed,
    leader,
    left_over,
    moving,
    readers,
    served,
    sessions,
    state,
    storage,
)
from tierledger.simulation.mutants.mistakes import Mutant, declared_in, planted

__all__ = ["MUTANTS", "Mutant", "planted"]

_ROOMS = (
    deletions,
    feed,
    leader,
    left_over,
    moving,
    readers,
    served,
    sessions,
    state,
    storage,
)

MUTANTS = declared_in(*(room.__name__ for room in _ROOMS))
"""All but those of the door's own rules, which `door` has."""
