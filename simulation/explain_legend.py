"""What stands around the picture of a run: its tools, and what its marks and colours mean."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.simulation.explain_marks import EPOCH, FILL, mark_of
from tierledger.simulation.explain_style import EPOCH_COLOURS
from tierledger.simulation.explain_text import escaped, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.simulation.timeline import Timeline

EPOCHS_SHOWN: Final = 24
"""Epochs in the legend."""


class Texts:
    """Words by number: a run says the same few things again and again."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def at(self, words: str) -> int:
        return self.number.setdefault(visible(words), len(self.number))


def tools(run: Timeline, texts: Texts) -> str:
    keys = sorted({one.key for each in (run.moments, run.arrows, run.spans) for one in each})
    options = "".join(
        f'<option value="{texts.at(key)}">{escaped(key)}</option>' for key in keys if key
    )
    buttons = "".join(
        f'<button type="button" data-act="{act}" title="{title}">{sign}</button>'
        for act, sign, title in (
            ("in", "+", "zoom in"),
            ("out", "&minus;", "zoom out"),
            ("fit", "all", "show the whole run"),
            ("left", "&larr;", "earlier"),
            ("right", "&rarr;", "later"),
            ("previous", "&lsaquo; mark", "previous mark"),
            ("next", "mark &rsaquo;", "next mark"),
        )
    )
    return (
        f'<div class="tools"><span class="group">{buttons}</span>'
        '<label class="group">partition <select id="partition"><option value="-1">all</option>'
        f'{options}</select></label><span class="group"><input id="find" type="search" '
        'placeholder="find: words, numbers, names" aria-label="Find in the run">'
        '<button type="button" data-act="found">next</button>'
        '<output id="count"></output></span>'
        '<output id="seen"></output></div>'
    )


class _Drawing(NamedTuple):
    """What stands for a kind in its legend."""

    path: str
    colour: str
    is_filled: bool


_ARROW = _Drawing("M-8 0H6M2-4L7 0L2 4", "soft", is_filled=False)
_BAR = _Drawing("M-8-5H8V5H-8z", "soft", is_filled=True)
_STATE_DRAWINGS: Mapping[str, _Drawing] = {
    "dead": _Drawing("M-8-6H8V6H-8z", "soft", is_filled=False),
    "paused": _Drawing("M-6-6V6M-2-6V6M2-6V6M6-6V6", "soft", is_filled=False),
    "cut off": _Drawing("M-8 6L-3-6M-3 6L2-6M2 6L7-6", "alarm", is_filled=False),
}


def legend(run: Timeline, texts: Texts) -> str:
    """What marks, messages and bars mean; each kind can be switched off."""
    marks = {}
    for what in dict.fromkeys(one.what for one in run.moments):
        mark = mark_of(what)
        colour = "ink" if mark.colour == EPOCH else mark.colour
        marks[what] = _Drawing(mark.path, colour, mark.mode == FILL)
    whats = [[one.what for one in some] for some in (run.moments, run.arrows, run.spans)]
    return (
        _kinds("Marks", "m", whats[0], marks, texts)
        + _kinds("Messages", "a", whats[1], {}, texts)
        + _kinds("Bars", "s", whats[2], _STATE_DRAWINGS, texts)
        + _epochs(run)
    )


def _kinds(
    title: str,
    kind: str,
    whats: Sequence[str],
    drawings: Mapping[str, _Drawing],
    texts: Texts,
) -> str:
    if not whats:
        return ""
    other = _ARROW if kind == "a" else _BAR
    chips = "".join(
        f'<button type="button" class="chip" data-kind="{kind}" data-what="{texts.at(what)}" '
        f'aria-pressed="true" title="Shift and click: only this">'
        f"{_svg(drawings.get(what, other))}{escaped(what)} <b>{count:,}</b></button>"
        for what, count in sorted(Counter(whats).items())
    )
    keys = _fates() if kind == "a" else ""
    return (
        f"<fieldset><legend>{title}</legend>"
        '<button type="button" data-all="show">all</button>'
        f'<button type="button" data-all="hide">none</button>{chips}{keys}</fieldset>'
    )


def _fates() -> str:
    lost = _Drawing("M-8-4L0 0M2-3L8 3M8-3L2 3", "alarm", is_filled=False)
    open_ = _Drawing(
        "M-8-4L0 0M1 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", "soft", is_filled=False
    )
    return (
        f'<span class="key">{_svg(lost)}lost</span>'
        f'<span class="key">{_svg(open_)}not there by the end</span>'
    )


def _epochs(run: Timeline) -> str:
    epochs = sorted(
        {
            one.epoch
            for each in (run.moments, run.arrows, run.spans)
            for one in each
            if one.epoch is not None
        }
    )
    if not epochs:
        return ""
    swatches = "".join(
        f'<i style="background:var(--e{at});color:var(--on{at})">{one}</i>'
        for one in epochs[:EPOCHS_SHOWN]
        for at in (one % EPOCH_COLOURS,)
    )
    more = len(epochs) - EPOCHS_SHOWN
    rest = f" and {more:,} more; colours come again, striped" if more > 0 else ""
    return (
        f'<fieldset class="epochs"><legend>Epochs</legend>{swatches}'
        f'<span class="key">{rest}</span></fieldset>'
    )


def _svg(drawing: _Drawing) -> str:
    look = (
        f'style="fill:var(--{drawing.colour})"'
        if drawing.is_filled
        else f'class="stroke" style="stroke:var(--{drawing.colour})"'
    )
    return (
        '<svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true">'
        f'<path d="{drawing.path}" {look}/></svg>'
    )


def many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
