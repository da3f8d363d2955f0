"""A run as one self-contained page: what went wrong, and a picture of how it came about.

The page's text comes first and is complete without a script. The browser draws the picture
from data in the page.
"""

from __future__ import annotations

from typing import Any, Final

from tierledger.pages.environment import Stamp, render
from tierledger.pages.texts import visible
from tierledger.simulation.explain.legend import FATES, Texts, epochs, groups
from tierledger.simulation.explain.marks import mark_of
from tierledger.simulation.explain.text import entries_of, ms_text
from tierledger.simulation.timeline import STATES, RunTimeline, first_and_last_us, ordered

ARROWS_MAX: Final = 50_000
MOMENTS_MAX: Final = 50_000
SPANS_MAX: Final = 20_000
"""At most so many of each are in a page, the earliest first: below 10 MB at 50 bytes each."""
ROWS_MAX: Final = 2_000
"""The most lines of the table; a run with more is easier to read as text."""
PAINTED_MAX: Final = 8000
"""Messages painted at one zoom; of more, every second, third, ... is, as the page tells."""
NAMED_MAX: Final = 400
"""Marks are named, where there is room, if at most so many are in view."""
EPOCH_COLOURS: Final = 8
"""Colours of the style sheet; later epochs use them again, striped."""


def page(timeline: RunTimeline, stamp: Stamp) -> str:
    """HTML that shows all of a run, and executes nothing that came from it.

    The same timeline and stamp give the same bytes. What exceeds the limits above is left out
    from the end of the run, and the page tells so.
    """
    run = ordered(timeline)
    kept = run._replace(
        moments=run.moments[:MOMENTS_MAX],
        arrows=run.arrows[:ARROWS_MAX],
        spans=run.spans[:SPANS_MAX],
    )
    texts, axis, entries = Texts(), first_and_last_us(run), entries_of(kept)
    data = _data(kept, texts, axis)
    keys = sorted({one.key for each in (kept.moments, kept.arrows, kept.spans) for one in each})
    limits = (
        (run.moments, MOMENTS_MAX, "mark"),
        (run.arrows, ARROWS_MAX, "message"),
        (run.spans, SPANS_MAX, "bar"),
    )
    return render(
        "run.html",
        stamp=stamp,
        run=run,
        title=run.title,
        ms=ms_text,
        length_us=axis[1] - axis[0],
        left_out=[(len(all_) - most, name) for all_, most, name in limits if len(all_) > most],
        keys=[(texts.at(key), key) for key in keys if key],
        legend=groups(kept, texts),
        fates=FATES,
        epochs=epochs(kept),
        epoch_colours=EPOCH_COLOURS,
        places=_places(kept),
        lines=entries[:ROWS_MAX],
        line_count=len(entries),
        data={**data, "texts": list(texts.number)},
    )


def _data(run: RunTimeline, texts: Texts, axis: tuple[int, int]) -> dict[str, Any]:
    """The picture's data; texts are numbers in `texts`."""
    lanes = {lane.name: at for at, lane in enumerate(run.lanes)}
    moments = [
        [one.time_us, lanes[one.lane], texts.at(one.what), texts.at(one.detail), one.epoch,
         texts.at(one.key)]
        for one in run.moments
    ]  # fmt: skip
    arrows = [
        [one.sent_us, lanes[one.source], lanes[one.target], one.received_us, texts.at(one.what),
         texts.at(one.detail), int(one.is_lost), one.epoch, texts.at(one.key)]
        for one in run.arrows
    ]  # fmt: skip
    spans = [
        [lanes[one.lane], one.begin_us, one.end_us, texts.at(one.what), one.epoch,
         texts.at(one.key), texts.at(one.detail)]
        for one in run.spans
    ]  # fmt: skip
    marks = {
        texts.at(what): mark_of(what) for what in dict.fromkeys(m.what for m in run.moments)
    }
    return {
        "first": axis[0],
        "last": axis[1],
        "lanes": [[visible(lane.name), visible(lane.kind)] for lane in run.lanes],
        "moments": moments,
        "arrows": arrows,
        "spans": spans,
        "marks": {
            at: [mark.path, mark.colour, mark.mode, int(mark.is_rare)]
            for at, mark in marks.items()
        },
        "states": STATES,
        "epochs": EPOCH_COLOURS,
        "painted": PAINTED_MAX,
        "named": NAMED_MAX,
    }


def _places(run: RunTimeline) -> dict[str, int]:
    """The first moment of each detail: the place of a decision in the picture."""
    places: dict[str, int] = {}
    for at, one in enumerate(run.moments):
        places.setdefault(one.detail, at)
    places.pop("", None)
    return places
