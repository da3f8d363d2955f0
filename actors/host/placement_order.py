"""Which of the coordinator's words to a host still count, however late and often they arrive.

Every placement has a number, greater than those before it; a release names the last one that it
is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.actors.calls import LEADER

if TYPE_CHECKING:
    from tierledger.actors.calls import PartitionKey, Placement

RELEASES_KEPT = 20_000
"""Releases that a host remembers; a placement that is later than so many others is believed."""


class PlacementOrder:
    """What one host was told to release."""

    def __init__(self) -> None:
        self._released: dict[tuple[PartitionKey, str], int] = {}

    def is_late(self, placement: Placement, known: int | None) -> bool:
        """Whether something newer was heard; `known` is the number of what runs, if it does."""
        if placement.assignment is None:
            self._release(placement)
            return known is None or known > placement.until
        number = placement.assignment.number
        if number <= self.released(placement.key, placement.role):
            return True
        if known is None:
            return False
        # A follower is placed for each of its brokers, all under one number.
        return number <= known if placement.role == LEADER else number < known

    def released(self, key: PartitionKey, role: str) -> int:
        """The last number that was released; -1 if none was."""
        return self._released.get((key, role), -1)

    def _release(self, placement: Placement) -> None:
        seat = (placement.key, placement.role)
        # The newest last: the oldest are forgotten.
        until = max(self._released.pop(seat, -1), placement.until)
        self._released[seat] = until
        while len(self._released) > RELEASES_KEPT:
            del self._released[next(iter(self._released))]
