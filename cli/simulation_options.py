"""Options that the `simulate` commands share, and what their texts mean."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tierledger.events.errors import InvalidArgument

JobsOption = Annotated[
    int | None, typer.Option(min=1, help="Processes to run in. [default: one per core]")
]
MutantOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Plant this mistake first, as `M05`.")
]
KeepOption = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS",
        help="Leave out all of the seed's decisions but these, as 3,8,19-22 or none.",
    ),
]
ShapeOption = Annotated[
    str | None,
    typer.Option(metavar="WORDS", help="Make the world simpler, as hosts=2,delays=even."),
]
WorldOption = Annotated[
    str,
    typer.Option(
        metavar="machines|service",
        help="State machines alone, or the whole service, which is slower.",
    ),
]


def checked_world(name: str) -> str:
    """The name of a world.

    Raises:
        InvalidArgument: It is none.
    """
    from tierledger.simulation.campaign import WORLDS

    if name not in WORLDS:
        raise InvalidArgument(f"--world: expected {' or '.join(WORLDS)}, got {name!r}")
    return name


def cores(jobs: int | None) -> int:
    """How many processes to run in."""
    return jobs or os.cpu_count() or 1


def seeds_of(text: str) -> range:
    """The seeds that "200" (from 0 on) or "100:200" (without the last) stand for.

    Raises:
        InvalidArgument: It stands for none.
    """
    first, colon, end = text.rpartition(":")
    ends = [first, end] if colon else ["0", end]
    if not all(one.isascii() and one.isdigit() for one in ends) or int(ends[0]) >= int(ends[1]):
        raise InvalidArgument(f"expected seeds like 200 or 100:200, got {text!r}")
    return range(int(ends[0]), int(ends[1]))


def words_of(text: str | None) -> list[str]:
    """The words between commas; none of none."""
    return text.split(",") if text else []
