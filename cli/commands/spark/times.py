"""Durations and times in options: `90m`, `7d`, `2026-01-31T12:00:00Z`."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.options import parse_time_ms
from tierledger.cli.output import shortened
from tierledger.events.errors import InvalidArgument

UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""The units that can follow a number."""

NowOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Which time it is: ISO 8601, UTC unless given; else this machine's clock.",
    ),
]


def duration_ms(text: str, option: str) -> int:
    """The milliseconds that `text` means: digits and one of `UNITS_MS`."""
    found = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if found is None:
        raise InvalidArgument(
            f"{option}: expected a number with {', '.join(UNITS_MS)}, like 90m; "
            f"got {shortened(text)}"
        )
    return int(found[1]) * UNITS_MS[found[2]]


def stated_time_ms(text: str | None, option: str) -> int | None:
    """The time that `text` means, in ms since 1970; none for none."""
    return None if text is None else parse_time_ms(text, option)


def clock_ms() -> int:
    return WallClock().now_ms()
