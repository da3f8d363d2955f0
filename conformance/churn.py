"""Disturbances of a working service, drawn by a seed: the same seed draws the same ones."""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import NamedTuple


class Disturbance(Enum):
    """One thing that happens to a service in operation."""

    LEADERSHIP_CHANGE = "leadership change"
    """Another broker leads a partition for a while."""
    PARTITION_STOP = "partition stop"
    """All brokers let a partition go, then take it up again."""
    HOST_KILL = "host kill"
    """A host's process dies in the middle of whatever it does."""


KINDS = (
    Disturbance.LEADERSHIP_CHANGE,
    Disturbance.LEADERSHIP_CHANGE,
    Disturbance.HOST_KILL,
    Disturbance.PARTITION_STOP,
)
"""The kinds to draw from; changes are common, kills are rarer."""


class PlannedDisturbance(NamedTuple):
    """`kind` strikes partition number `victim` when `after` records have been fed."""

    after: int
    kind: Disturbance
    victim: int


def plan(count: int, *, records: int, partitions: int, seed: int) -> list[PlannedDisturbance]:
    """`count` disturbances spread over a workload, in the order in which they strike.

    At least each third is a host kill, so that a small plan has one, too.
    """
    random = Random(f"{seed}:churn")
    points = sorted(random.randrange(records) for _ in range(count)) if records else []
    return [
        PlannedDisturbance(
            after=after,
            kind=Disturbance.HOST_KILL if index % 3 == 1 else random.choice(KINDS),
            victim=random.randrange(partitions),
        )
        for index, after in enumerate(points)
    ]
