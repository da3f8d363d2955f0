"""A job's picture: one page of HTML that needs nothing but itself, and runs no script.

Rule: whatever comes from a store is escaped where it enters the page; what these functions
give is HTML, what they take is text. Details stand in tooltips that every browser shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.cli.report_style import PATTERNS, STYLE
from tierledger.cli.report_svg import offsets_axis, place, row, svg
from tierledger.cli.report_text import count_text, escaped, many, size_text
from tierledger.cli.spark_page_style import JOB_STYLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tierledger.cli.report_intervals import Range
    from tierledger.pipeline.fold_task import DamagedLog

__all__ = ["count_text", "escaped", "many", "offsets_axis", "size_text"]

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing may be fetched, from anywhere, and nothing runs."""

GOOD, BAD, WARN, IDLE, OPEN = "good", "bad", "warn", "idle", "open"
"""How a mark looks: green, red and hatched, amber, grey, blue and dashed."""

MARKS_MAX = 600
"""Marks of one kind in a strip; more are joined with neighbours, as none would be seen."""

BAND_HEIGHT, BAND_STEP = 14, 18

ROWS_MAX = 500
"""Rows of a table; the rest is counted."""


class Mark(NamedTuple):
    """A stretch of a strip, both ends inclusive."""

    start: int
    end: int
    look: str
    tip: str
    band: int = 0
    """0 is the upper one; those of a higher band stand below."""


class Section(NamedTuple):
    """A part of the page under its own heading; `html` is made by functions of this module."""

    title: str
    html: str
    note: str = ""


class Bar(NamedTuple):
    """One line of `bars`."""

    name: str
    note: str
    value: int
    text: str
    """The value in words."""
    look: str = GOOD
    tip: str = ""


def page(title: str, facts: Mapping[str, object], sections: Iterable[Section]) -> str:
    """The page, ready to be written as UTF-8: heading, facts by name, sections in order."""
    said = "".join(
        f"<dt>{escaped(name)}</dt><dd>{escaped(fact)}</dd>" for name, fact in facts.items()
    )
    body = "".join(
        f"<section><h2>{escaped(one.title)}</h2>{_note(one.note)}{one.html}</section>"
        for one in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escaped(title)}</title><style>{STYLE}{JOB_STYLE}</style></head>"
        f"<body>{PATTERNS}<header><h1>{escaped(title)}</h1>"
        f'<dl class="facts">{said}</dl></header><main>{body}</main></body></html>\n'
    )


def _note(text: str) -> str:
    return f'<p class="note">{escaped(text)}</p>' if text else ""


def note(text: str) -> str:
    """A remark, in small print."""
    return _note(text)


def damage_section(damaged: Sequence[DamagedLog]) -> list[Section]:
    """What a page says of logs that were left out; nothing if none was."""
    if not damaged:
        return []
    rows = [(one.name, one.position, one.message) for one in damaged]
    shown = table(("log", "from position", "because"), rows)
    return [Section("Left out: damaged logs", shown, "Nothing below is about these.")]


def tiles(items: Iterable[tuple[str, str, str, bool]]) -> str:
    """Totals side by side: name, number, what it means, and whether it alarms."""
    shown = "".join(
        f'<li class="{"alarm" if alarms else ""}" title="{escaped(meaning)}">'
        f"<b>{escaped(number)}</b> <span>{escaped(name)}</span></li>"
        for name, number, meaning, alarms in items
    )
    return f'<ul class="tiles">{shown}</ul>'


def legend(looks: Iterable[tuple[str, str]]) -> str:
    """What each look stands for."""
    items = "".join(
        '<li><svg width="24" height="12" aria-hidden="true">'
        f'<rect class="{look}" x="1" y="0" width="22" height="12"/></svg>{escaped(name)}</li>'
        for look, name in looks
    )
    return f'<ul class="legend" aria-label="Legend">{items}</ul>'


def strip(marks: Sequence[Mark], axis: Range, label: str) -> str:
    """A drawing of `marks` along `axis`, those of higher bands below; each with its tooltip.

    Args:
        marks: In any order; those of one look and band that are too many to be seen are joined.
        axis: The first and the last place, inclusive.
        label: What it shows, for those who do not see it.
    """
    groups: dict[tuple[int, str], list[Mark]] = {}
    for mark in marks:
        groups.setdefault((mark.band, mark.look), []).append(mark)
    bands = max((band for band, _ in groups), default=0) + 1
    body: list[str] = []
    for (band, look), some in sorted(groups.items()):
        thinned = _thinned(sorted(some), axis)
        dense = " dense" if len(thinned) > MARKS_MAX // 2 else ""
        y = 1 + band * BAND_STEP
        body += (
            f'<rect class="{look}{dense}" {place(one.start, one.end, axis)} y="{y}" '
            f'height="{BAND_HEIGHT}"><title>{escaped(one.tip)}</title></rect>'
            for one in thinned
        )
    return svg(bands * BAND_STEP, body, label=label)


def _thinned(marks: Sequence[Mark], axis: Range) -> list[Mark]:
    """`marks`, ascending, joined where many begin in one column."""
    if len(marks) <= MARKS_MAX:
        return list(marks)
    width = (axis[1] - axis[0]) // MARKS_MAX + 1
    columns: dict[int, list[Mark]] = {}
    for mark in marks:
        columns.setdefault((mark.start - axis[0]) // width, []).append(mark)
    joined: list[Mark] = []
    for some in columns.values():
        first, end = some[0], max(one.end for one in some)
        more = f"{len(some)} from {first.start} to {end}; the first: {first.tip}"
        joined.append(first if len(some) == 1 else first._replace(end=end, tip=more))
    return joined


def lane(name: str, remark: str, drawing: str) -> str:
    """A line of a plot: what it is on the left, and its drawing."""
    return row(name, remark, drawing)


def plot(lanes: Iterable[str]) -> str:
    """Lanes under each other, which scroll where the screen is narrow."""
    return f'<div class="scroll"><div class="plot">{"".join(lanes)}</div></div>'


def bars(items: Sequence[Bar]) -> str:
    """Horizontal bars on one scale that begins at 0, the value written behind each."""
    longest = max((item.value for item in items), default=0) or 1
    lines = []
    for item in items:
        width = max(item.value / longest * 80, 0.2)
        # In the longest bar's line, too, there is room for the value behind it.
        drawing = (
            f'<rect class="{item.look}" x="0" y="2" width="{width:.2f}%" height="14">'
            f"<title>{escaped(item.tip or item.text)}</title></rect>"
            f'<text x="{width:.2f}%" dx="6" y="13">{escaped(item.text)}</text>'
        )
        label = f"{item.name} {item.note}: {item.text}"
        lines.append(row(item.name, item.note, svg(18, [drawing], label=label)))
    return plot(lines)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    alarming: Iterable[str] = (),
    total: int | None = None,
) -> str:
    """A table; numbers stand to the right with commas, 0 is pale.

    Args:
        columns: Their headings.
        rows: As many values as columns; `None` is an empty cell. At most `ROWS_MAX` are shown.
        alarming: Columns whose numbers are red if they are not 0.
        total: How many rows there are, if not all were handed over.
    """
    heads = "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    red = set(alarming)
    lines = "".join(
        "<tr>"
        + "".join(
            _cell(value, is_red=name in red) for name, value in zip(columns, one, strict=True)
        )
        + "</tr>"
        for one in rows[:ROWS_MAX]
    )
    left = max(len(rows), total or 0) - min(len(rows), ROWS_MAX)
    more = _note(f"{many(left, 'more row')} not shown here.") if left > 0 else ""
    return (
        f'<div class="scroll"><table class="rows"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>{more}"
    )


def _cell(value: object, *, is_red: bool) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int) and not isinstance(value, bool):
        look = "n alarm" if is_red and value else "n" if value else "n nil"
        return f'<td class="{look}">{count_text(value)}</td>'
    return f"<td><bdi>{escaped(value)}</bdi></td>"
