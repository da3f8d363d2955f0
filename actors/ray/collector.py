"""Short pauses of Python's garbage collector, however much a process holds.

A collection visits every entry of every page that it looks at: 50 ms for all of 600,000
segments, or for what 10,000 new partitions are made of. None of it is garbage, and what dies is
freed by its count of references, as ever.
"""

from __future__ import annotations

import gc
from typing import Any

LOOKS = (500, 2, 10)
"""New objects before they are looked through, how often that is done before those that are left
are looked through together, and that before all others are. Python's own are 700, 10 and 10."""


def keep_pauses_short() -> None:
    """Look through nothing that has been found alive twice.

    For a process that serves until it ends: a cycle that dies after its second look is never
    freed. Those that calls leave die before.
    """
    gc.collect()
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
