"""Short pauses of Python's garbage collector, however much a process holds.

A full collection visits every entry of every page of all partitions: 50 ms at 600,000 segments.
None of it is garbage, and what dies is freed by its count of references, as ever.
"""

from __future__ import annotations

import gc
from typing import Any


def keep_pauses_short() -> None:
    """Look through nothing twice that a full collection has found alive.

    For a process that serves until it ends: a cycle that dies after such a look is never freed.
    """
    gc.collect()
    gc.freeze()
    if _freeze not in gc.callbacks:
        gc.callbacks.append(_freeze)


def look_through_all_again() -> None:
    """Undo `keep_pauses_short`."""
    gc.callbacks.remove(_freeze)
    gc.unfreeze()


def _freeze(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
