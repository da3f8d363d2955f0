"""Which of the coordinator's words to a host still count, however late and often they arrive.

Every placement has a number, greater than those before it; a release names the last one that it
is about.
"""

from __future__ import annotations

from tierledger.actors.calls import LEADER, PartitionKey, Placement

RELEASES_KEPT = 20_000
"""Releases and ends that a host remembers; what is later than so many others is believed."""


class PlacementOrder:
    """What one host was told to release, and which of its leaders have ended."""

    def __init__(self) -> None:
        self._passed: dict[tuple[PartitionKey, str], int] = {}
        """Placements up to that number count no more."""

    def is_late(self, placement: Placement, known: int | None) -> bool:
        """Whether something newer was heard; `known` is the number of what runs, if it does."""
        if placement.assignment is None:
            self._pass((placement.key, placement.role), placement.until)
            return known is None or known > placement.until
        number = placement.assignment.number
        if number <= self.passed(placement.key, placement.role):
            return True
        if known is None:
            return False
        # A follower is placed for each of its brokers, all under one number.
        return number <= known if placement.role == LEADER else number < known

    def ended(self, key: PartitionKey, assignment: int) -> None:
        """A leader is gone that ran under `assignment`; what was placed before it is late.

        Else an older word, repeated by a coordinator that has not read on, would take the place
        of the newer claim, and nobody would hear that this one is lost.
        """
        self._pass((key, LEADER), assignment - 1)

    def passed(self, key: PartitionKey, role: str) -> int:
        """The last number that counts no more; -1 if each does."""
        return self._passed.get((key, role), -1)

    def _pass(self, seat: tuple[PartitionKey, str], until: int) -> None:
        # The newest last: the oldest are forgotten.
        self._passed[seat] = max(self._passed.pop(seat, -1), until)
        while len(self._passed) > RELEASES_KEPT:
            del self._passed[next(iter(self._passed))]
