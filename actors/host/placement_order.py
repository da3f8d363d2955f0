"""Which of the coordinator's orders to a host still count, however late and often they arrive.

Every placement has a number, greater than those before it. A release names the number of the
last placement that it ends.
"""

from __future__ import annotations

from tierledger.actors.calls import LEADER, PartitionKey, Placement

RELEASES_KEPT = 20_000
"""Releases and ends that a host remembers; a late order from before all of these counts."""


class PlacementOrder:
    """The newest releases of one host's partitions, and ends of its leaders, by number."""

    def __init__(self) -> None:
        self._passed: dict[tuple[PartitionKey, str], int] = {}
        """By partition and role: the number up to which placements no longer count."""

    def is_late(self, placement: Placement, known: int | None) -> bool:
        """Whether a newer order came before; `known`: the number of what runs, if any."""
        if placement.assignment is None:
            self._pass((placement.key, placement.role), placement.until)
            return known is None or known > placement.until
        number = placement.assignment.number
        if number <= self.passed(placement.key, placement.role):
            return True
        if known is None:
            return False
        # A follower gets one placement for each of its brokers, all with the same number.
        return number <= known if placement.role == LEADER else number < known

    def ended(self, key: PartitionKey, assignment: int) -> None:
        """The leader placed under `assignment` has ended: all placements before it are late.

        Otherwise a coordinator that is behind its log could repeat an older placement. Its
        claim would run here, and the host would stop reporting the newer claim as lost.
        """
        self._pass((key, LEADER), assignment - 1)

    def passed(self, key: PartitionKey, role: str) -> int:
        """The number up to which placements no longer count; -1 if all count."""
        return self._passed.get((key, role), -1)

    def _pass(self, seat: tuple[PartitionKey, str], until: int) -> None:
        # The newest entry comes last, so that the oldest ones are forgotten.
        self._passed[seat] = max(self._passed.pop(seat, -1), until)
        while len(self._passed) > RELEASES_KEPT:
            del self._passed[next(iter(self._passed))]
