"""A leader that a coordinator places elsewhere without cause, beside the one in office."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tierledger.actors.calls import LEADER, PartitionKey, Placement
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.events import CoordinatorBody
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.actors.coordinator.state import CoordinatorState


class NeedlessMove(NamedTuple):
    """A request to place a leader elsewhere without cause; the old one is not notified."""

    coordinator: Coordinator
    moved: set[int]
    """The numbers of all such placements of a world."""
    key: PartitionKey
    host: str

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        entry = state.partitions.get(self.key)
        if entry is None or entry.leadership is None or self.host not in state.hosts:
            return []
        number = max(self.coordinator.state.assignment, state.assignment) + 1  # This batch's.
        self.moved.add(number)
        return [ev.LeadersPlaced(self.host, ((*self.key, number),))]

    def answer(self, state: CoordinatorState) -> None:
        """Answer nothing: no caller waits."""


def unnotified(placements: Iterable[Placement], moved: Collection[int]) -> list[Placement]:
    """The orders to a host without the releases that moves by `NeedlessMove` call for."""
    return [
        one
        for one in placements
        if one.assignment is not None or one.role != LEADER or one.until + 1 not in moved
    ]
