"""What the marks, messages, bars and colours of a run's picture mean, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tierledger.pages.texts import visible
from tierledger.simulation.explain.marks import EPOCH, FILL, mark_of
from tierledger.simulation.timeline import RunTimeline


class Texts:
    """Texts by number, since a run repeats the same texts many times."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def at(self, text: str) -> int:
        return self.number.setdefault(visible(text), len(self.number))


class Sign(NamedTuple):
    """How a kind is drawn in its legend."""

    path: str
    colour: str
    is_filled: bool = False


class Kind(NamedTuple):
    """Marks, messages or bars of one kind, which a reader can hide together."""

    what: str
    number: int
    """The number of its text in `Texts`."""
    times: int
    sign: Sign


class Group(NamedTuple):
    """All kinds of marks, of messages, or of bars."""

    title: str
    letter: str
    """The script's name of the group."""
    kinds: list[Kind]


ARROW: Final = Sign("M-8 0H6M2-4L7 0L2 4", "soft")
BAR: Final = Sign("M-8-5H8V5H-8z", "soft", is_filled=True)
STATE_SIGNS: Final = {
    "dead": Sign("M-8-6H8V6H-8z", "soft"),
    "paused": Sign("M-6-6V6M-2-6V6M2-6V6M6-6V6", "soft"),
    "cut off": Sign("M-8 6L-3-6M-3 6L2-6M2 6L7-6", "alarm"),
}
FATES: Final = {
    "lost": Sign("M-8-4L0 0M2-3L8 3M8-3L2 3", "alarm"),
    "not there by the end": Sign("M-8-4L0 0M1 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", "soft"),
}
"""What happens to messages that do not arrive."""


def groups(run: RunTimeline, texts: Texts) -> list[Group]:
    """The legend; groups that the run has nothing of are left out."""
    marks = {}
    for what in dict.fromkeys(one.what for one in run.moments):
        mark = mark_of(what)
        colour = "ink" if mark.colour == EPOCH else mark.colour
        marks[what] = Sign(mark.path, colour, mark.mode == FILL)
    whats = [[one.what for one in some] for some in (run.moments, run.arrows, run.spans)]
    found = [
        Group("Marks", "m", _kinds(whats[0], marks, BAR, texts)),
        Group("Messages", "a", _kinds(whats[1], {}, ARROW, texts)),
        Group("Bars", "s", _kinds(whats[2], STATE_SIGNS, BAR, texts)),
    ]
    return [group for group in found if group.kinds]


def _kinds(
    whats: Sequence[str], signs: Mapping[str, Sign], other: Sign, texts: Texts
) -> list[Kind]:
    return [
        Kind(what, texts.at(what), times, signs.get(what, other))
        for what, times in sorted(Counter(whats).items())
    ]


def epochs(run: RunTimeline) -> list[int]:
    """All epochs of the run, ascending."""
    return sorted(
        {
            one.epoch
            for each in (run.moments, run.arrows, run.spans)
            for one in each
            if one.epoch is not None
        }
    )
