"""What is wrong in a process *now*, for the list of troubles (`health/troubles.py`).

A count of alarms only grows; a condition begins, holds, and ends. To add one:

1. choose a code, and give it a severity and words in `health/troubles.py` (`KINDS`);
2. call `hold(code, text)` whenever it is found, as often as it is found, and `clear(code)` once
   it is over. A host has `host.report.conditions`, the coordinator `service.conditions`.

It is in the process's status at once, and from there in `tierledger status`, its exit status,
its JSON, and in the metrics. Neither call raises, waits or logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

NO_STEPS = "no-steps"
"""The condition of a host some of whose leaders have callers that wait, and do nothing."""

STORE_REFUSED = "store-refused"
"""The condition of a process whose store takes no commit, such as a file that was replaced."""

CLOCK_JUMPED = "clock-jumped"
"""The condition of a process whose machine's clock has jumped ahead."""

CLOCK_OFF = "clock-off"
"""The condition of a process whose clock differs from those of most others."""

NOT_JUDGED = "deletions-not-judged"
"""The condition of a host whose leaders refuse deletions, as Kafka does not say its rules."""


class Condition(NamedTuple):
    """One thing that is wrong now."""

    code: str
    subject: str
    """What it is about, such as a partition or a file; empty: the process itself."""
    since_ms: int
    """When it was found first, by the process's wall clock."""
    text: str
    """One plain sentence, without a full stop."""


class Conditions:
    """The conditions of a process, one for each code and subject."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._held: dict[tuple[str, str], Condition] = {}

    def hold(self, code: str, text: str, subject: str = "") -> None:
        """Note that it is so; again, only the text changes."""
        known = self._held.get((code, subject))
        since_ms = self._now_ms() if known is None else known.since_ms
        self._held[code, subject] = Condition(code, subject, since_ms, text)

    def clear(self, code: str, subject: str = "") -> None:
        """Note that it is over, or was never so."""
        self._held.pop((code, subject), None)

    def plain(self) -> list[dict[str, Any]]:
        """All that hold now, the oldest first, for JSON."""
        held = sorted(self._held.values(), key=lambda one: one.since_ms)
        return [one._asdict() for one in held]
