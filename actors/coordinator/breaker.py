"""Stops deletions when brokers delete too much of a cluster's tier too fast. Pure.

Hosts tell with each ping how many bytes their leaders have let brokers delete, and how many are
tiered. If more than a share of the tier went within an hour, the coordinator places a hold on
all topics, as an operator would: its release is the operator's confirmation.

What it bounds: the share, and what brokers delete until all hosts know the hold, a ping and a
few milliseconds later. The counts are in memory: a coordinator that starts counts from 0, and
of a host that dies what it had not told is lost.
"""

from __future__ import annotations

from collections.abc import Collection

from tierledger.actors.calls import HostPing
from tierledger.actors.holds import Hold

BREAKER = "breaker"
"""The hold's name."""

BY = "tierledger"
"""Who places it."""

BREAKER_PERCENT = 50
"""Default share: an hour in which half of all is deleted is one that somebody should see."""

WINDOW_MIN = 60
"""Minutes that are looked at together."""

FLOOR_BYTES = 1 << 30
"""Less is deleted without a look: in a cluster of that size a single topic is a large share."""

_MINUTE_MS = 60_000


class Breaker:
    """Counts what brokers delete, in minutes."""

    def __init__(self, percent: int = BREAKER_PERCENT, floor_bytes: int = FLOOR_BYTES) -> None:
        """`percent` of the tier, 0: it never breaks."""
        self._percent = percent
        self._floor_bytes = floor_bytes
        self._told: dict[str, tuple[str, int, int]] = {}
        """By host: its process, and what that has told: bytes let go, bytes in the tier."""
        self._minutes: dict[int, tuple[int, int]] = {}
        """By minute: bytes that were let go, and the most that were tiered then."""

    def know(self, running: Collection[str]) -> None:
        """Drop what hosts have told that run no longer: others have their partitions now."""
        self._told = {host: told for host, told in self._told.items() if host in running}

    def reported(self, host: str, ping: HostPing, now_ms: int) -> None:
        """Take what a host tells with a ping."""
        process, before, _ = self._told.get(host, ("", 0, 0))
        # What a process had let go before it was first heard may be hours old.
        fresh = max(0, ping.let_go_bytes - before) if process == ping.process else 0
        self._told[host] = (ping.process, ping.let_go_bytes, ping.tiered_bytes)
        minute = now_ms // _MINUTE_MS
        gone, most = self._minutes.get(minute, (0, 0))
        # What has gone since the last ping was in the tier until then.
        tiered = fresh + sum(one[2] for one in self._told.values())
        self._minutes[minute] = (gone + fresh, max(most, tiered))
        for old in [one for one in self._minutes if one <= minute - WINDOW_MIN]:
            del self._minutes[old]

    def broken(self) -> Hold | None:
        """The hold that is to be placed; None: brokers may go on."""
        gone = sum(one for one, _ in self._minutes.values())
        # A host that starts has loaded nothing yet: the most that was ever seen counts.
        most = max((one for _, one in self._minutes.values()), default=0)
        total = max(most, gone)
        if not self._percent or gone <= max(self._floor_bytes, total * self._percent // 100):
            return None
        return Hold(
            BREAKER,
            "*",
            reason=f"brokers deleted {gone} of {total} bytes within an hour, more than "
            f"{self._percent} %",
            by=BY,
        )

    def begin_anew(self) -> None:
        """Count from 0."""
        self._minutes.clear()
