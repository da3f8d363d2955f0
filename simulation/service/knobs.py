"""Constants of the service that a world turns: small ones make rare situations common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from tierledger.actors.client import window
from tierledger.actors.host import partition_shell
from tierledger.actors.leader import batch as leader_batch
from tierledger.actors.leader import machine as leader

KNOBS: tuple[tuple[Any, str, tuple[int, ...]], ...] = (
    (leader, "CHECKPOINT_EVENTS", (3, 20, 1000)),
    (leader, "INBOX_MAX", (2, 1024)),
    (leader, "CLAIMS_MAX", (1, 8)),
    (leader_batch, "EVENTS_PER_BATCH", (1, 4, 256)),
    (partition_shell, "READ_BATCHES", (1, 64)),
    # As few as may begin, and as few as are remembered beyond them.
    (window, "WRITES_MAX", (1, 3, 200)),
)
"""Module, constant, and what a world may set it to."""


@contextmanager
def turned(random: Random | None) -> Iterator[None]:
    """Each knob at a value that is drawn, until the world has ended; none: as they are."""
    former = [(module, name, getattr(module, name)) for module, name, _ in KNOBS]
    if random is not None:
        for module, name, values in KNOBS:
            setattr(module, name, random.choice(values))
    try:
        yield
    finally:
        for module, name, value in former:
            setattr(module, name, value)
