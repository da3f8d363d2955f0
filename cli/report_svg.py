"""A partition's lanes and timeline as SVG.

Widths are percentages, heights are pixels: a drawing fits any screen, and text stays readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.report_bars import Bar, Rows, rows_of, thinned
from tierledger.cli.report_intervals import common, length
from tierledger.cli.report_text import count_text, escaped, many, span_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierledger.cli.report_intervals import Range
    from tierledger.cli.report_model import Lane, Picture
    from tierledger.cli.report_timeline import CopyRun, Flag, Leadership

LIVE_HEIGHT, LIVE_STEP = 14, 17
DELETED_HEIGHT, DELETED_STEP = 4, 6
OVERLAP_HEIGHT = 3
TICKS = 4
BROKER_COLOURS = 8
"""How many the style sheet has; more brokers share them, and are told apart by their label."""
COLUMNS = 600
"""Holes, overlaps and sessions beyond this many are joined with their neighbours."""

KIND_NAMES = {
    "f": "finished, served",
    "r": "Kafka lost it, served here",
    "u": "finished, superseded",
    "s": "copy started",
    "d": "delete started",
    "x": "deleted",
}


def place(start: int, end: int, axis: Range) -> str:
    """The attributes that put a rectangle at `start` to `end` of `axis`, both inclusive."""
    span = axis[1] - axis[0] + 1
    x = (start - axis[0]) / span * 100
    width = max((end - start + 1) / span * 100, 0.05)
    x = max(min(x, 100 - width), 0)
    return f'x="{_percent(x)}" width="{_percent(width)}"'


def _percent(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def svg(height: int, body: Iterable[str], *, label: str = "", cls: str = "") -> str:
    """A drawing as wide as its place; with a `label` it is a stop for the keyboard."""
    role = (
        f'tabindex="0" role="group" aria-label="{escaped(label)}"'
        if label
        else 'aria-hidden="true"'
    )
    return f'<svg class="{cls}" width="100%" height="{height}" {role}>{"".join(body)}</svg>'


def row(title: str, note: str, drawing: str, cls: str = "") -> str:
    """A line of the plot: what it is, on the left, and its drawing."""
    return (
        f'<div class="lane {cls}"><div class="label"><b>{escaped(title)}</b> '
        f"<span>{escaped(note)}</span></div><div>{drawing}</div></div>"
    )


def offsets_axis(axis: Range) -> str:
    """The common scale of a partition's lanes."""
    span = axis[1] - axis[0]
    texts = [count_text(axis[0] + span * at // TICKS) for at in range(TICKS + 1)]
    return row("offset", "", svg(18, _ticks(texts), cls="axis"), "scale")


def _ticks(texts: Sequence[str]) -> Iterable[str]:
    for at, text in enumerate(texts):
        x = 100 * at / (len(texts) - 1)
        anchor = "start" if at == 0 else "end" if at == len(texts) - 1 else "middle"
        inner = "" if at in (0, len(texts) - 1) else ' class="inner"'
        yield f'<line x1="{x}%" x2="{x}%" y1="14" y2="18"/>'
        yield f'<text{inner} x="{x}%" y="11" text-anchor="{anchor}">{escaped(text)}</text>'


def _grid(height: int) -> list[str]:
    inner = (100 * at / TICKS for at in range(1, TICKS))
    return [f'<line class="g" x1="{x}%" x2="{x}%" y2="{height}"/>' for x in inner]


def coverage_row(picture: Picture, axis: Range) -> str:
    """What finished segments hold of the log over all epochs, and what they do not."""
    body = [*_grid(12), *_holes(picture.holes, axis, 2, 8, picture.deleted)]
    for (start, end), count in thinned(picture.coverage, axis, COLUMNS):
        tip = f"offsets {start} to {end}: of the log, held by finished segments"
        tip += f", with {count - 1} holes too small to draw" if count > 1 else ""
        body.append(f'<rect class="c" {place(start, end, axis)} y="3" height="6" {_tip(tip)}/>')
    note = many(len(picture.holes), "hole") if picture.coverage else "nothing finished"
    note += f", {many(picture.missing, 'offset')} missing" if picture.missing else ""
    label = f"All epochs together: {note}"
    return row("all epochs", note, svg(12, body, label=label), "whole")


def lane_row(
    lane: Lane, axis: Range, limit: int, shown: dict[int, int], deleted: list[Range]
) -> str:
    """One leader epoch; enters into `shown` the segments whose details its bars ask for."""
    rows = rows_of(lane, limit)
    height = max(len(rows.live), 1 if lane.holes else 0) * LIVE_STEP + 2
    body = [*_bars(rows.live, axis, LIVE_HEIGHT, LIVE_STEP, 1, shown)]
    # Over the bars, and where those are joined only over their foot: neither hides the other.
    foot = LIVE_HEIGHT if rows.bars == len(lane.parts) else LIVE_HEIGHT // 3
    body += _holes(lane.holes, axis, 1 + LIVE_HEIGHT - foot, foot, deleted)
    if lane.overlaps:
        for (start, end), count in thinned(lane.overlaps, axis, COLUMNS):
            tip = f"{_times(count, 'overlap')}offsets {start} to {end} are in several segments"
            where = place(start, end, axis)
            body.append(
                f'<rect class="o" {where} y="{height}" height="{OVERLAP_HEIGHT}" {_tip(tip)}/>'
            )
        height += OVERLAP_HEIGHT + 3
    body += _bars(rows.deleted, axis, DELETED_HEIGHT, DELETED_STEP, height, shown)
    height += len(rows.deleted) * DELETED_STEP + 2
    note = _lane_note(lane, rows)
    drawing = svg(
        height,
        [*_grid(height), *body],
        label=f"Epoch {lane.epoch}: {note}",
        cls="dense" if rows.is_dense else "",
    )
    return row(f"epoch {lane.epoch}", note, drawing)


def _lane_note(lane: Lane, rows: Rows) -> str:
    live = sum(bar.parts for of in rows.live for bar in of)
    deleted = len(lane.parts) - live
    notes = [many(live, "segment")] if live else []
    notes += [f"{count_text(deleted)} deleted"] if deleted else []
    notes += [many(len(lane.holes), "hole")] if lane.holes else []
    notes += [many(len(lane.overlaps), "overlap")] if lane.overlaps else []
    if rows.bars < len(lane.parts):
        notes.append("neighbours drawn together")
    return ", ".join(notes)


def _holes(
    holes: Sequence[Range], axis: Range, y: int, height: int, deleted: list[Range]
) -> Iterable[str]:
    for (start, end), count in thinned(holes, axis, COLUMNS):
        missing = many(length([(start, end)]), "offset")
        tip = f"{_times(count, 'hole')}offsets {start} to {end}, no finished segment of the log"
        tip += f"; {missing}"
        once = common([(start, end)], deleted)
        tip += f", {count_text(once)} of them once in segments that are deleted" if once else ""
        where = f'{place(start, end, axis)} y="{y}" height="{height}"'
        yield f'<rect class="h" {where} {_tip(tip)}/>'


def _times(count: int, noun: str) -> str:
    return f"{noun}: " if count == 1 else f"{count} {noun}s: "


def _bars(
    rows: Sequence[Sequence[Bar]],
    axis: Range,
    height: int,
    step: int,
    y: int,
    shown: dict[int, int],
) -> Iterable[str]:
    for at, bars in enumerate(rows):
        for bar in bars:
            where = f'{place(bar.start, bar.end, axis)} y="{y + at * step}" height="{height}"'
            if bar.segment >= 0:
                data = f'data-s="{shown.setdefault(bar.segment, len(shown))}"'
            else:
                name = KIND_NAMES[bar.kind]
                data = _tip(f"{bar.parts} segments, {name}: offsets {bar.start} to {bar.end}")
            yield f'<rect class="{bar.kind}" {where} {data}/>'


def _tip(text: str) -> str:
    return f'data-t="{escaped(text)}"'


def timeline_rows(picture: Picture, brokers: Sequence[int]) -> str:
    """Who led when, over log time."""
    timeline = picture.timeline
    first, last = timeline.axis_ms
    texts = [time_text(first + (last - first) * at // TICKS)[:19] for at in range(TICKS + 1)]
    if texts[0][:10] == texts[-1][:10]:
        texts = [texts[0], *(text[11:] for text in texts[1:])]
    body = [*_grid(24), *_leaderships(timeline.leaderships, timeline.axis_ms, brokers)]
    body += _flags(timeline.flags, timeline.axis_ms)
    note = many(len(timeline.leaderships), "session")
    note += f", {many(timeline.disputes, 'dispute')}" if timeline.disputes else ""
    rows = [row("leaders", note, svg(24, body, label=f"Leaderships: {note}"))]
    if timeline.recorded:
        body = [*_grid(20), *_recorded(timeline.recorded, timeline.axis_ms, brokers)]
        changes = many(len(timeline.recorded) - 1, "change")
        label = f"Brokers that copied, by recorded history: {changes}"
        rows.append(row("copied by", f"recorded, {changes}", svg(20, body, label=label)))
    scale = row("log time", "UTC", svg(18, _ticks(texts), cls="axis"), "scale")
    return "".join(rows) + scale


def _broker_class(broker_id: int, brokers: Sequence[int]) -> str:
    return f"b b{brokers.index(broker_id) % BROKER_COLOURS}" if broker_id in brokers else "b"


def _leaderships(
    leaderships: Sequence[Leadership], axis: Range, brokers: Sequence[int]
) -> Iterable[str]:
    step = len(leaderships) // COLUMNS + 1
    for at in range(0, len(leaderships), step):
        some = leaderships[at : at + step]
        start, end = max(some[0].opened_ms, axis[0]), max(some[-1].ended_ms, axis[0])
        where = place(start, end, axis)
        broker = some[-1].opened.broker_id
        cls = _broker_class(broker, brokers) if step == 1 else "b"
        tip = _leadership_tip(some[0]) if step == 1 else f"{len(some)} sessions"
        yield f'<rect class="{cls}" {where} y="4" height="16" {_tip(tip)}/>'
        if step == 1 and some[0].opened.import_cluster is not None:
            yield f'<rect class="import" {where} y="4" height="16"/>'
        if step == 1:
            yield _inside(start, end, axis, _leadership_label(some[0]), 16, cls)
        if any(one.dispute is not None for one in some):
            x = place(start, start, axis).split()[0]
            mark = '<path class="dispute" d="M-5 0H5L0 8z"/>'
            yield f'<svg {x} y="0" overflow="visible">{mark}</svg>'


def _leadership_label(one: Leadership) -> str:
    if one.opened.import_cluster is not None:
        return f"import, session {one.opened.number}"
    epoch = one.opened.leader_epoch
    return f"broker {one.opened.broker_id}" + ("" if epoch is None else f", epoch {epoch}")


def _leadership_tip(one: Leadership) -> str:
    opened = one.opened
    kind = "leader" if opened.import_cluster is None else f"import of {opened.import_cluster}"
    epoch = "unknown" if opened.leader_epoch is None else opened.leader_epoch
    lines = [
        f"session {opened.number}: broker {opened.broker_id} ({kind})",
        f"leader epoch {epoch}",
        f"incarnation {opened.incarnation}, announcement {opened.announcement}",
        f"positions {one.first_position} to {one.last_position}",
        f"{time_text(one.opened_ms)} to {time_text(one.ended_ms)}",
        f"{span_text(one.ended_ms - one.opened_ms)}, {one.ending}",
    ]
    if one.dispute is not None:
        rival = one.dispute
        lines.append(f"DISPUTED by broker {rival.rival_broker_id}, nobody could say who leads")
    return "; ".join(lines)


def _flags(flags: Sequence[Flag], axis: Range) -> Iterable[str]:
    for flag in flags[-COLUMNS:]:
        where = place(flag.time_ms, flag.time_ms, axis).split()[0]
        tip = _tip(f"{flag.text}; {time_text(flag.time_ms)}")
        yield f'<rect class="flag" {where} width="3" y="0" height="24" {tip}/>'


def _recorded(runs: Sequence[CopyRun], axis: Range, brokers: Sequence[int]) -> Iterable[str]:
    step = len(runs) // COLUMNS + 1
    for at in range(0, len(runs), step):
        some = runs[at : at + step]
        # A run lasts until the next begins: in between, nobody else copied.
        end = runs[at + step].first_ms - 1 if at + step < len(runs) else some[-1].last_ms
        start, copies = some[0].first_ms, sum(run.copies for run in some)
        who = "several brokers" if step > 1 else f"broker {some[0].broker_id}"
        cls = "b" if step > 1 else _broker_class(some[0].broker_id, brokers)
        started = "1 copy" if copies == 1 else f"{count_text(copies)} copies"
        tip = f"{who} started {started}; {time_text(start)} to {time_text(end)}"
        yield f'<rect class="{cls}" {place(start, end, axis)} y="2" height="16" {_tip(tip)}/>'
        yield _inside(start, end, axis, who, 14, cls)


def _inside(start: int, end: int, axis: Range, text: str, y: int, cls: str) -> str:
    """`text` in its bar, if the bar is likely wide enough on a desktop."""
    share = (end - start + 1) / (axis[1] - axis[0] + 1)
    if share * 1000 < 7 * len(text) + 8:
        return ""
    x = _percent(max((start - axis[0]) / (axis[1] - axis[0] + 1) * 100, 0))
    on = f"{cls} on" if cls else "on"
    return f'<text class="{on}" x="{x}" dx="5" y="{y}">{escaped(text)}</text>'
