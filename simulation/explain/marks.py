"""How each kind of moment is drawn, in the page's picture, in its legend and in text.

Marks differ in shape first and in colour second, so that they can be read without colours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

EPOCH = "epoch"
"""The colour of the moment's epoch."""
FILL, STROKE = "fill", "stroke"


class Mark(NamedTuple):
    """A shape in the square from -8 to 8."""

    path: str
    """An SVG path, which a canvas takes as well."""
    colour: str
    """A variable of the style sheet, or `EPOCH`."""
    mode: str
    letter: str
    """The letter for it in text."""
    is_rare: bool = False
    """Whether it is drawn above the others, and in the overview of the whole run."""


UNKNOWN: Final = Mark("M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "soft", STROKE, "*")

MARKS: Final = {
    "crash": Mark("M-6-6L6 6M6-6L-6 6", "alarm", STROKE, "X", is_rare=True),
    "restart": Mark("M0-6L6 5H-6z", "ink", STROKE, "^", is_rare=True),
    "start": Mark("M0-5L5 4H-5z", "ink", STROKE, "^"),
    "pause": Mark("M-5-6H-1V6H-5zM1-6H5V6H1z", "ink", FILL, "P", is_rare=True),
    "resume": Mark("M-4-6L6 0L-4 6z", "ink", FILL, "R", is_rare=True),
    "cut": Mark("M-7 0H-2M2 0H7M-2-6V6M2-6V6", "alarm", STROKE, "/", is_rare=True),
    "heal": Mark("M-7 0H7M-3-4V4M3-4V4", "ink", STROKE, "=", is_rare=True),
    "claim": Mark("M0-8L7 0L0 8L-7 0z", EPOCH, FILL, "C", is_rare=True),
    "claim lost": Mark("M0-7L6 0L0 7L-6 0z", EPOCH, STROKE, "c"),
    "fenced": Mark(
        "M-3-7H3L7-3V3L3 7H-3L-7 3V-3zM-4 0H4", "alarm", STROKE, "F", is_rare=True
    ),
    "append": Mark("M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", EPOCH, FILL, "+"),
    "elect": Mark(
        "M0-8L2-3L7.5-2.5L3.5 1.2L4.7 6.5L0 3.8L-4.7 6.5L-3.5 1.2L-7.5-2.5L-2-3z",
        "link", FILL, "E", is_rare=True,
    ),
    "checkpoint": Mark("M-5-5H5V5H-5zM-5-1H5", "ink", STROKE, "K"),
    "loaded": Mark("M-5-5H5V5H-5z", "ink", STROKE, "L"),
    "ready": Mark("M-6-2H2V2H-6zM2-5L7 0L2 5z", "good", STROKE, "r"),
    "well": Mark("M-7 0L-2 5L7-6", "good", STROKE, "W", is_rare=True),
    "op ok": Mark("M-5 0L-1 4L5-4", "good", STROKE, "o"),
    "op fail": Mark("M-3-4L3 4M3-4L-3 4", "soft", STROKE, "x"),
    "op info": Mark("M-6 2C-4-4-2-4 0 0S4 4 6-2", "doubt", STROKE, "?"),
    "decision": Mark("M-1 8V-8L8-4L1 0V8z", "link", FILL, "D", is_rare=True),
    "fault": Mark("M-6-5H6L0 6z", "alarm", STROKE, "!", is_rare=True),
    "violation": Mark("M0-8L8 7H-8zM0-3V2", "alarm", FILL, "!", is_rare=True),
}  # fmt: skip


def mark_of(what: str) -> Mark:
    """The mark of `what`, or of its first words: a "crash at append" is a crash."""
    words = what.split(" ")
    for count in range(len(words), 0, -1):
        found = MARKS.get(" ".join(words[:count]))
        if found is not None:
            return found
    return UNKNOWN
