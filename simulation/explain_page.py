"""A run as one self-contained page: what went wrong, and the picture of how.

The page loads nothing and needs no network. Its text comes first and is complete without a
script; the picture is drawn by the browser from data that the page carries.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tierledger.simulation.explain_hands import HANDS
from tierledger.simulation.explain_legend import Texts, legend, many, tools
from tierledger.simulation.explain_marks import mark_of
from tierledger.simulation.explain_paint import NAMED_MAX, PAINTING
from tierledger.simulation.explain_script import DRAWING, PAINTED_MAX
from tierledger.simulation.explain_style import EPOCH_COLOURS, STYLE
from tierledger.simulation.explain_text import entries_of, escaped, ms_text, visible
from tierledger.simulation.timeline import STATES, first_and_last_us, ordered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierledger.simulation.timeline import Timeline

ARROWS_MAX: Final = 50_000
MOMENTS_MAX: Final = 50_000
SPANS_MAX: Final = 20_000
"""What one page holds of each, the earliest first; at 50 bytes each it stays below 10 MB."""
ROWS_MAX: Final = 2_000
"""Lines of the table, which is for runs that a person can read; longer ones are text."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(timeline: Timeline) -> str:
    """HTML that shows all of a run, and runs nothing that came from it.

    The same timeline gives the same bytes. What is more than the limits above is left out from
    the end of the run, and the page says so.
    """
    run = ordered(timeline)
    kept = run._replace(
        moments=run.moments[:MOMENTS_MAX],
        arrows=run.arrows[:ARROWS_MAX],
        spans=run.spans[:SPANS_MAX],
    )
    texts = Texts()
    data = _data(kept, texts, first_and_last_us(run))
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(run.title)}</title><style>{STYLE}</style></head><body>"
        f"{_header(run)}{_verdict(run)}{_facts(run)}"
        f"<noscript>{_NO_SCRIPT}</noscript>"
        f'<div id="workshop" hidden>{tools(kept, texts)}{_STAGE}{_left_out(run)}{_PINNED}'
        f"{legend(kept, texts)}</div>"
        f'{_decisions(kept)}{_table(kept)}<div id="tip" hidden></div>'
        f'<script type="application/json" id="data">{_json(data)}</script>'
        f'<script>"use strict";\n(() => {{{DRAWING}{PAINTING}{HANDS}}})();</script>'
        "</body></html>\n"
    )


def _data(run: Timeline, texts: Texts, axis: tuple[int, int]) -> dict[str, Any]:
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
         texts.at(one.key)]
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
        "texts": list(texts.number),
    }


def _json(value: object) -> str:
    """JSON that can stand in a script element."""
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


_NO_SCRIPT = '<p class="note">The picture needs JavaScript; the table below has the same.</p>'

_STAGE = (
    '<canvas id="overview" aria-hidden="true"></canvas>'
    '<div class="stage" id="stage"><div id="names"></div>'
    '<canvas id="picture" tabindex="0" role="img" aria-label="The run over time. Arrow keys '
    "move, plus and minus zoom, 0 shows all, n and p go to the next and the previous mark, "
    'Escape lets go. The table at the end of the page has the same as text."></canvas></div>'
    '<p class="note">Wheel: zoom; drag or Shift and wheel: move; click: keep what is told; '
    "click a name: only its messages. Keys: arrows, <b>+</b> <b>-</b> <b>0</b>, <b>n</b> and "
    '<b>p</b> for the next and previous mark. <output id="skipped" class="warn"></output></p>'
)
_PINNED = (
    '<div id="pinned" aria-live="polite"><p class="note">Click a mark, a message or a bar: '
    "what it is stays here.</p></div>"
)


def _header(run: Timeline) -> str:
    return (
        f'<h1>{escaped(run.title)}</h1><p class="repeat"><code id="command">'
        f'{escaped(run.command)}</code><button type="button" id="copy">copy</button></p>'
    )


def _verdict(run: Timeline) -> str:
    if not run.violations:
        return '<div class="verdict clean">No violation was found in this run.</div>'
    found = "".join(f"<li>{escaped(one)}</li>" for one in run.violations)
    count = many(len(run.violations), "violation")
    return f'<section class="verdict"><h2>{count}</h2><ol>{found}</ol></section>'


def _facts(run: Timeline) -> str:
    lost = sum(one.is_lost for one in run.arrows)
    messages = many(len(run.arrows), "message") + (f", {lost:,} lost" if lost else "")
    first, last = first_and_last_us(run)
    return (
        f'<p class="facts">{many(len(run.lanes), "lane")} &middot; '
        f"{many(len(run.decisions), 'decision')} &middot; {messages} &middot; "
        f"{many(len(run.moments), 'mark')} &middot; {ms_text(last - first)} ms</p>"
    )


def _left_out(run: Timeline) -> str:
    limits = (
        (run.moments, MOMENTS_MAX, "mark"),
        (run.arrows, ARROWS_MAX, "message"),
        (run.spans, SPANS_MAX, "bar"),
    )
    left = [f"{many(len(a) - most, name)}" for a, most, name in limits if len(a) > most]
    if not left:
        return ""
    return (
        f'<p class="note warn">Left out for size, from the end of the run: {", ".join(left)}. '
        "The text form has them.</p>"
    )


def _decisions(run: Timeline) -> str:
    if not run.decisions:
        return ""
    places: dict[str, int] = {}
    for at, one in enumerate(run.moments):
        if one.detail:
            places.setdefault(one.detail, at)
    lines = "".join(
        f'<li><a href="#m{places[one]}">{escaped(one)}</a></li>'
        if one in places
        else f"<li>{escaped(one)}</li>"
        for one in run.decisions
    )
    count = many(len(run.decisions), "decision")
    return f'<h2>{count}</h2><ol id="decisions" class="mono">{lines}</ol>'


def _table(run: Timeline) -> str:
    entries = entries_of(run)
    rows = "".join(
        f'<tr><td><a href="#{one.link}">{ms_text(one.time_us)}</a></td><td>{escaped(one.where)}'
        f"</td><td>{escaped(one.what)}</td><td>{'' if one.epoch is None else one.epoch}</td>"
        f"<td>{escaped(one.key)}</td><td>{escaped(one.detail)}</td></tr>"
        for one in entries[:ROWS_MAX]
    )
    heads = ("time in ms", "where", "what", "epoch", "partition", "detail")
    more = len(entries) - ROWS_MAX
    rest = (
        f'<p class="note warn">{more:,} more lines: read them as text.</p>' if more > 0 else ""
    )
    return (
        "<h2>Everything as a table</h2>"
        f"<details><summary>{many(len(entries), 'line')}</summary>"
        f'{rest}<div class="scroll"><table><thead><tr>{_cells(heads)}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _cells(names: Iterable[str]) -> str:
    return "".join(f'<th scope="col">{name}</th>' for name in names)
