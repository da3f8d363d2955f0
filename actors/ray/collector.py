"""Keeps pauses of Python's garbage collector short, however much a process holds.

A collection visits each entry of each object that it examines: 50 ms for 600,000 segments, or
for the objects of 10,000 new partitions. None of these is garbage: objects that die are freed
by their reference counts, as always.
"""

from __future__ import annotations

import gc
from typing import Any

LOOKS = (500, 2, 10)
"""Thresholds of `gc.set_threshold`: new objects before a collection of the youngest generation,
and collections of each generation before one of the next. Python's own are 700, 10 and 10."""


def keep_pauses_short() -> None:
    """Let the collector never visit an object again that has survived two collections.

    For a process that serves until it ends: a reference cycle that dies after its second
    collection is never freed. Cycles that calls leave behind die before that.
    """
    # Not collected before: what imports leave is a handful, and a look at all takes 0.1 s.
    gc.freeze()
    gc.set_threshold(*LOOKS)
    if _freeze not in gc.callbacks:
        gc.callbacks.append(_freeze)


def look_through_all_again() -> None:
    """Undo `keep_pauses_short`."""
    gc.callbacks.remove(_freeze)
    gc.set_threshold(*PYTHONS)
    gc.unfreeze()


PYTHONS = gc.get_threshold()


def _freeze(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()
