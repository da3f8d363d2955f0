"""A partition's lanes and timeline as rows of boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.pages.report.bars import Bar, LaneBars, rows_of, thinned
from tierledger.cli.pages.report.intervals import common, length
from tierledger.cli.pages.report.model import SegmentKind
from tierledger.cli.pages.time_columns import TimeColumn, columns_row
from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import WORDS
from tierledger.pages.drawing import Box, Drawing, PlotRow, Text, percent, placed
from tierledger.pages.texts import count_text, many, size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tierledger.cli.pages.report.model import Lane, Picture, SegmentLife
    from tierledger.cli.pages.report.timeline import CopyRun, Flag, SessionSpan, Timeline
    from tierledger.pages.drawing import Range

LIVE_HEIGHT, LIVE_STEP = 14, 17
DELETED_HEIGHT, DELETED_STEP = 4, 6
OVERLAP_HEIGHT = 3
HOLE, OVERLAP = (f"{word} {WORDS[word].look}" for word in ("hole", "overlap"))
TICKS = 4
BROKER_COLOURS = 8
"""Colours of the style sheet; more brokers share them, and their labels differ."""
SIZE_COLUMNS = 80
"""Columns of a partition's size over time: as narrow as they can be seen on a phone."""
COLUMNS = 600
"""Holes, overlaps and sessions beyond this many are joined with their neighbours."""


def ticks(axis: Range) -> list[int]:
    """The values at the ticks of a scale, its ends among them."""
    return [axis[0] + (axis[1] - axis[0]) * at // TICKS for at in range(TICKS + 1)]


def coverage_row(picture: Picture, axis: Range) -> PlotRow:
    """Offsets of the log that finished segments hold over all epochs, and the holes."""
    boxes = [*_holes(picture.holes, picture.deleted, axis, 2, 8)]
    for (start, end), count in thinned(picture.coverage, axis, COLUMNS):
        tip = f"offsets {start} to {end}: of the log, held by finished segments"
        tip += f", with {count - 1} holes too small to draw" if count > 1 else ""
        boxes.append(Box("c", *placed(start, end, axis), 3, 6, tip))
    note = many(len(picture.holes), "hole") if picture.coverage else "nothing finished"
    note += f", {many(picture.missing, 'offset')} missing" if picture.missing else ""
    drawing = Drawing(12, f"All epochs together: {note}", boxes, has_grid=True)
    return PlotRow("all epochs", note, drawing, "whole")


def lane_row(
    lane: Lane, axis: Range, limit: int, shown: dict[int, int], deleted: Sequence[Range]
) -> PlotRow:
    """One leader epoch; adds to `shown` the segments whose details its bars need."""
    rows = rows_of(lane, limit)
    height = max(len(rows.live), 1 if lane.holes else 0) * LIVE_STEP + 2
    boxes = [*_bars(rows.live, axis, LIVE_HEIGHT, LIVE_STEP, 1, shown)]
    # Over single bars, but only over the foot of joined ones: so neither hides the other.
    # What is being copied or deleted lies in holes, and is seen, too.
    foot = LIVE_HEIGHT if rows.bars == len(lane.parts) else LIVE_HEIGHT // 3
    if any(part.kind in {SegmentKind.COPYING, SegmentKind.DELETING} for part in lane.parts):
        foot = LIVE_HEIGHT // 3
    boxes += _holes(lane.holes, deleted, axis, 1 + LIVE_HEIGHT - foot, foot)
    for (start, end), count in thinned(lane.overlaps, axis, COLUMNS):
        tip = f"{_times(count, 'overlap')}offsets {start} to {end} are in several segments"
        boxes.append(Box(OVERLAP, *placed(start, end, axis), height, OVERLAP_HEIGHT, tip))
    if lane.overlaps:
        height += OVERLAP_HEIGHT + 3
    boxes += _bars(rows.deleted, axis, DELETED_HEIGHT, DELETED_STEP, height, shown)
    height += len(rows.deleted) * DELETED_STEP + 2
    note, look = _lane_note(lane, rows), "dense" if rows.is_dense else ""
    label = f"Epoch {lane.epoch}: {note}"
    drawing = Drawing(height, label, boxes, look=look, has_grid=True)
    return PlotRow(f"epoch {lane.epoch}", note, drawing)


def _lane_note(lane: Lane, rows: LaneBars) -> str:
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
    holes: Sequence[Range], deleted: Sequence[Range], axis: Range, y: int, height: int
) -> Iterator[Box]:
    for (start, end), count in thinned(holes, axis, COLUMNS):
        missing = many(length([(start, end)]), "offset")
        tip = f"{_times(count, 'hole')}offsets {start} to {end}, no finished segment of the log"
        tip += f"; {missing}"
        once = common([(start, end)], deleted)
        tip += f", {count_text(once)} of them once in segments that are deleted" if once else ""
        yield Box(HOLE, *placed(start, end, axis), y, height, tip)


def _times(count: int, noun: str) -> str:
    return f"{noun}: " if count == 1 else f"{count} {noun}s: "


def _bars(
    rows: Sequence[Sequence[Bar]],
    axis: Range,
    height: int,
    step: int,
    y: int,
    shown: dict[int, int],
) -> Iterator[Box]:
    for at, bars in enumerate(rows):
        for bar in bars:
            look = f"{bar.kind} {WORDS[bar.kind].look}"
            box = Box(look, *placed(bar.start, bar.end, axis), y + at * step, height)
            if bar.segment >= 0:
                yield box._replace(detail=shown.setdefault(bar.segment, len(shown)))
            else:
                tip = f"{bar.parts} segments, {bar.kind}: "
                yield box._replace(tip=f"{tip}offsets {bar.start} to {bar.end}")


def leaders_row(timeline: Timeline, brokers: Sequence[int]) -> PlotRow:
    """The leader at each log time."""
    boxes: list[Box] = []
    texts: list[Text] = []
    disputes: list[str] = []
    some = timeline.leaderships
    step = len(some) // COLUMNS + 1
    for at in range(0, len(some), step):
        first, last = some[at], some[min(at + step, len(some)) - 1]
        start, end = (
            max(time, timeline.axis_ms[0]) for time in (first.opened_ms, last.ended_ms)
        )
        place = placed(start, end, timeline.axis_ms)
        look, tip = "b", f"{min(step, len(some) - at)} sessions"
        if step == 1:
            look, tip = _broker_look(first.opened.broker_id, brokers), _leadership_tip(first)
            texts += _inside(start, end, timeline.axis_ms, _leadership_label(first), 16, look)
        boxes.append(Box(look, *place, 4, 16, tip))
        if step == 1 and first.opened.import_cluster is not None:
            boxes.append(Box("import", *place, 4, 16))
        if any(one.dispute is not None for one in some[at : at + step]):
            disputes.append(placed(start, start, timeline.axis_ms)[0])
    boxes += [_flag(one, timeline.axis_ms) for one in timeline.flags[-COLUMNS:]]
    note = many(len(some), "session")
    note += f", {many(timeline.disputes, 'dispute')}" if timeline.disputes else ""
    drawing = Drawing(24, f"Leaderships: {note}", boxes, texts, disputes, has_grid=True)
    return PlotRow("leaders", note, drawing)


def copies_row(timeline: Timeline, brokers: Sequence[int]) -> PlotRow:
    """The copying broker at each log time, for an imported log."""
    runs, axis = timeline.recorded, timeline.axis_ms
    boxes: list[Box] = []
    texts: list[Text] = []
    step = len(runs) // COLUMNS + 1
    for at in range(0, len(runs), step):
        some = runs[at : at + step]
        # A run lasts until the next one begins: no other broker copied meanwhile.
        end = runs[at + step].first_ms - 1 if at + step < len(runs) else some[-1].last_ms
        start = some[0].first_ms
        who = "several brokers" if step > 1 else f"broker {some[0].broker_id}"
        look = "b" if step > 1 else _broker_look(some[0].broker_id, brokers)
        tip = f"{who} started {_copies(some)}; {time_text(start)} to {time_text(end)}"
        boxes.append(Box(look, *placed(start, end, axis), 2, 16, tip))
        texts += _inside(start, end, axis, who, 14, look)
    changes = many(len(runs) - 1, "change")
    label = f"Brokers that copied, by recorded history: {changes}"
    return PlotRow(
        "copied by", f"recorded, {changes}", Drawing(20, label, boxes, texts, has_grid=True)
    )


def size_row(picture: Picture) -> PlotRow:
    """What was in the tier at each log time: from the end of a copy to that of a deletion."""
    axis = picture.timeline.axis_ms
    width = -(-(axis[1] - axis[0] + 1) // SIZE_COLUMNS)
    changes = sorted(_size_changes(picture.segments))
    size = segments = at = 0
    columns = []
    for number in range(SIZE_COLUMNS):
        end_ms = min(axis[0] + (number + 1) * width - 1, axis[1])
        while at < len(changes) and changes[at][0] <= end_ms:
            size, segments, at = size + changes[at][1], segments + changes[at][2], at + 1
        tip = f"{time_text(end_ms)}: {size_text(size)} in {many(segments, 'segment')}"
        columns.append(TimeColumn(size, 0, tip))
    note = f"{size_text(size)} in {many(segments, 'segment')}"
    return columns_row("size", note, columns, has_down=False)


def _size_changes(segments: Sequence[SegmentLife]) -> Iterator[tuple[int, int, int]]:
    """When bytes and segments have come into the tier, and when they have gone."""
    for one in segments:
        if one.finished_ms is not None:
            yield one.finished_ms, max(one.added.size, 0), 1
            if one.deleted_ms is not None:
                yield one.deleted_ms, -max(one.added.size, 0), -1


def time_texts(axis: Range) -> list[str]:
    """The texts at the ticks of log time; the date only once, if it is one day."""
    texts = [time_text(time, "seconds") for time in ticks(axis)]
    if texts[0][:10] == texts[-1][:10]:
        texts = [texts[0], *(text[11:] for text in texts[1:])]
    return texts


def _copies(runs: Sequence[CopyRun]) -> str:
    copies = sum(run.copies for run in runs)
    return "1 copy" if copies == 1 else f"{count_text(copies)} copies"


def _broker_look(broker_id: int, brokers: Sequence[int]) -> str:
    return f"b b{brokers.index(broker_id) % BROKER_COLOURS}" if broker_id in brokers else "b"


def _leadership_label(one: SessionSpan) -> str:
    if one.opened.import_cluster is not None:
        return f"import, session {one.opened.number}"
    epoch = one.opened.leader_epoch
    return f"broker {one.opened.broker_id}" + ("" if epoch is None else f", epoch {epoch}")


def _leadership_tip(one: SessionSpan) -> str:
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


def _flag(flag: Flag, axis: Range) -> Box:
    x, _ = placed(flag.time_ms, flag.time_ms, axis)
    return Box("flag", x, "3", 0, 24, f"{flag.text}; {time_text(flag.time_ms)}")


def _inside(start: int, end: int, axis: Range, text: str, y: int, look: str) -> Iterator[Text]:
    """`text` in its box, if the box is likely wide enough on a desktop."""
    span = axis[1] - axis[0] + 1
    if (end - start + 1) / span * 1000 >= 7 * len(text) + 8:
        yield Text(f"{look} on", percent(max((start - axis[0]) / span * 100, 0)), y, text)
