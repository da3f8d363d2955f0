"""The present, and other times, in options of jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.options import parse_time_ms

NowOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time to use as the present: ISO 8601, UTC by default, or how long ago, like "
        "90m; without this option, this machine's clock.",
    ),
]


def stated_time_ms(text: str | None, option: str) -> int | None:
    """The time that `text` means, in ms since 1970; none for none."""
    return None if text is None else parse_time_ms(text, option)


def clock_ms() -> int:
    return WallClock().now_ms()
