"""One thing that a history or a log shows and that must never happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tierledger.actors.calls import PartitionKey

VIOLATIONS_MAX = 10
"""Violations that are shown of one checker and partition; the rest are only counted."""


ASKED = "asked, and nobody sent it"
"""How messages begin that are about questions behind the run's end, not about the run."""


class Violation(NamedTuple):
    """What was found, by which checker, about which partition and calls."""

    checker: str
    key: PartitionKey | None
    message: str
    operations: tuple[int, ...] = ()
    """Numbers of the calls that show it."""


def ms_text(time_ns: int) -> str:
    """A time of a history, as pages show it: "2,200.000 ms"."""
    return f"{time_ns / 1_000_000:,.3f} ms"


def bounded(violations: Sequence[Violation]) -> list[Violation]:
    """The first `VIOLATIONS_MAX`, the last of which says how many more there are."""
    if len(violations) == 0:
        return []
    shown = list(violations[:VIOLATIONS_MAX])
    more = len(violations) - len(shown)
    if more:
        shown[-1] = shown[-1]._replace(message=f"{shown[-1].message}; and {more} more")
    return shown
