"""Options that the `simulate` commands share, and how their texts are parsed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tierledger.cli.options import whole_number
from tierledger.cli.output import shortened
from tierledger.events.errors import InvalidArgument

MINUTES_MIN = 0.01
"""In less time nothing can go wrong."""

MINUTES_MAX = 525_600.0
"""A year."""

SEED_MAX = 2**63 - 1

JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=1024, help="Number of processes to run in. [default: one per core]"
    ),
]
MutantOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Plant this known mistake first, for example M05."),
]
KeepOption = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS",
        help="Numbers of the seed's decisions to keep, for example 3,8,19-22, or none; all "
        "others are left out.",
    ),
]
ShapeOption = Annotated[
    str | None,
    typer.Option(
        metavar="SETTINGS", help="Make the world simpler, for example hosts=2,delays=even."
    ),
]
WorldOption = Annotated[
    str,
    typer.Option(
        metavar="service|lives",
        help="Simulate the service with faults, or clusters that live and move.",
    ),
]


def checked_world(name: str) -> str:
    """`name`, which must be that of a world."""
    from tierledger.simulation.worlds import GONE, WORLDS

    if name == GONE:
        raise InvalidArgument(
            f"--world {GONE}: this world is gone, and its seeds are other runs now; expected "
            f"{' or '.join(WORLDS)}"
        )
    if name not in WORLDS:
        raise InvalidArgument(f"--world: expected {' or '.join(WORLDS)}, got {name!r}")
    return name


def cores(jobs: int | None) -> int:
    """The number of processes to run in."""
    return jobs or os.cpu_count() or 1


def seeds_of(text: str) -> range:
    """The seeds that "200" (from 0 on) or "100:200" (without the last) stand for."""
    first, colon, end = text.rpartition(":")
    what = "--seeds, like 200 or 100:200"
    seeds = range(whole_number(first, what) if colon else 0, whole_number(end, what))
    if not seeds:
        raise InvalidArgument(f"{what}: expected at least one, got {shortened(text)}")
    return seeds


def comma_separated(text: str | None) -> list[str]:
    """The items of a comma-separated text; none if there is no text."""
    return text.split(",") if text else []
