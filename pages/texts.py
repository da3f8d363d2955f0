"""How pages write names, numbers and durations; times are `typed_fields.time_text`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Final

SAFE_INTEGER: Final = (1 << 53) - 1
"""The largest integer that a browser's JSON keeps exact."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def visible(value: object) -> str:
    """`value` as text on one line, in which unprintable characters are spelled out.

    Those are control characters, changes of direction and lone surrogates: a topic's name must
    not rearrange the page, nor make it impossible to encode.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def anchors(names: Iterable[str]) -> list[str]:
    """Ids for links, one for each name: the name, with a number behind it if it is taken."""
    made: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
        numbers = (f"{plain}.{number}" for number in count(2))
        made[next(one for one in chain([plain], numbers) if one not in made)] = None
    return list(made)


def exact(number: int | None) -> int | str | None:
    """`number` as JSON for a browser: as text if the browser would round it."""
    return number if number is None or abs(number) <= SAFE_INTEGER else str(number)


def count_text(number: int) -> str:
    """The number with commas between thousands: 1,234,567."""
    return f"{number:,}"


def many(number: int, noun: str) -> str:
    """A count with its noun: "1 hole", "2 holes"."""
    return f"{count_text(number)} {noun}{'' if number == 1 else 's'}"


def size_text(size: int) -> str:
    """Bytes in the largest unit in which they are at least 1: "1.5 MiB"."""
    value, unit = float(size), 0
    while round(value, 1) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def span_text(span_ms: int) -> str:
    """A duration in its two largest units: "2 h 5 min"."""
    if span_ms < 1000:
        return f"{span_ms} ms"
    seconds = span_ms // 1000
    for name, unit, below, unit_below in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // unit_below} {below}"
    return f"{span_ms // 1000} s"
