"""The part of a scenario that is about streams to hosts' doors."""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.door.limits import DoorLimits


class DoorPlan(NamedTuple):
    """Limits of the streams to hosts' doors, and what stands between."""

    limits: DoorLimits = DoorLimits()
    window: int = 65_536
    """Bytes that may lie unread before the writer has to wait."""
    keepalive_s: float = 1.0
    """Seconds between two keepalives; a connection ends after two unanswered ones."""
    is_proxied: bool = False
    """A proxy between the ends answers keepalives, also for a frozen process."""
    silent_ends: int = 0
    """Percent of the connections whose end, with its process, the other side does not learn."""
    behind_walls: int = 0
    """Each client reaches only one of this many hosts, which forwards calls; 0: all hosts."""
    slow_reader_s: float = 0.3
    """A slow client's pause before each frame that it reads."""

    def healed(self) -> DoorPlan:
        return self._replace(silent_ends=0, slow_reader_s=0.0)
