"""How long calls take, by what is asked: of the store, and at the door."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the buckets; a last one has all that took longer."""


class CallTimes:
    """Counts of calls by operation and duration, since the process began."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums_s: dict[str, float] = {}

    def note(self, operation: str, seconds: float) -> None:
        counts = self._counts.get(operation)
        if counts is None:
            counts = self._counts[operation] = [0] * (len(BOUNDS_S) + 1)
            self._sums_s[operation] = 0.0
        counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sums_s[operation] += seconds

    def plain(self) -> dict[str, dict[str, Any]]:
        """By operation: pairs of a bound and the calls up to it (None: all), and seconds."""
        return {name: self._plain(name) for name in sorted(self._counts)}

    def _plain(self, operation: str) -> dict[str, Any]:
        calls, upto = 0, []
        for bound, count in zip((*BOUNDS_S, None), self._counts[operation], strict=True):
            calls += count
            upto.append((bound, calls))
        return {"upto_s": upto, "sum_s": self._sums_s[operation]}


class DoorTimes:
    """Counts of calls at a door by outcome, operation and duration, since the process began."""

    def __init__(self) -> None:
        self._by_outcome: dict[str, CallTimes] = {}

    def note(self, operation: str, outcome: str, seconds: float) -> None:
        times = self._by_outcome.get(outcome)
        if times is None:
            times = self._by_outcome[outcome] = CallTimes()
        times.note(operation, seconds)

    def plain(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By outcome, and then as `CallTimes.plain`."""
        return {name: self._by_outcome[name].plain() for name in sorted(self._by_outcome)}
