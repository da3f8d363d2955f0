"""The report's sections: summary, table of partitions, and each partition's own part."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tierledger.cli.report_model import Kind, Picture
from tierledger.cli.report_svg import (
    KIND_NAMES,
    coverage_row,
    lane_row,
    offsets_axis,
    timeline_rows,
)
from tierledger.cli.report_text import (
    count_text,
    escaped,
    exact,
    many,
    size_text,
)
from tierledger.events.identifiers import Uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tierledger.cli.report_model import Lane, Segment

OPEN_LANES_MAX = 24
"""Epochs of a partition that are shown at once; older ones unfold."""

COLUMNS: tuple[tuple[str, str], ...] = (
    ("partition", "Topic and partition"),
    ("served", "Segments that are finished and answer lookups"),
    ("recovered", "Finished segments that Kafka's own manager has lost, served here"),
    ("superseded", "Finished segments whose every offset another one answers for"),
    ("started", "Copies that started and did not finish"),
    ("deleting", "Deletions that started and did not finish"),
    ("deleted", "Segments that are gone"),
    ("size", "Bytes of all segments that are not deleted"),
    ("sessions", "Leaderships, imports among them"),
    ("disputes", "Changes of leader that nobody could decide"),
    ("holes", "Ranges of the log that no finished segment holds, between some that do"),
    ("overlaps", "Ranges of the log that several finished segments hold"),
    ("dropped", "Imported records without effect, as in Kafka's own manager"),
    ("events", "Length of the log"),
)
"""The table's columns and what each counts; the keys of `_numbers` in their order."""

_ALARMING = ("recovered", "disputes", "holes", "overlaps")


def _numbers(picture: Picture) -> dict[str, int]:
    kinds = picture.kinds
    return {
        "served": kinds[Kind.SERVED],
        "recovered": kinds[Kind.RECOVERED],
        "superseded": kinds[Kind.SUPERSEDED],
        "started": kinds[Kind.STARTED],
        "deleting": kinds[Kind.DELETING],
        "deleted": kinds[Kind.DELETED],
        "size": picture.size,
        "sessions": len(picture.timeline.leaderships),
        "disputes": picture.timeline.disputes,
        "holes": len(picture.holes),
        "overlaps": picture.overlaps,
        "dropped": sum(picture.dropped.values()),
        "events": picture.events,
    }


def summary(pictures: Sequence[Picture], facts: Mapping[str, str]) -> str:
    """The totals over all partitions, and what the caller wants said."""
    totals = dict.fromkeys((name for name, _ in COLUMNS[1:]), 0)
    for picture in pictures:
        for name, number in _numbers(picture).items():
            totals[name] += number
    tiles = [_tile("partitions", count_text(len(pictures)), "")]
    for name, meaning in COLUMNS[1:]:
        cls = "alarm" if name in _ALARMING and totals[name] else ""
        tiles.append(_tile(name, _number_text(name, totals[name]), meaning, cls))
    said = "".join(
        f"<dt>{escaped(name)}</dt><dd>{escaped(fact)}</dd>" for name, fact in facts.items()
    )
    facts_list = f'<dl class="facts">{said}</dl>' if said else ""
    return f'{facts_list}<ul class="tiles">{"".join(tiles)}</ul>{legend()}'


def _tile(name: str, number: str, meaning: str, cls: str = "") -> str:
    return (
        f'<li class="{cls}" title="{escaped(meaning)}">'
        f"<b>{escaped(number)}</b> <span>{escaped(name)}</span></li>"
    )


def _number_text(name: str, number: int) -> str:
    return size_text(number) if name == "size" else count_text(number)


def legend() -> str:
    """What the bars' colours and patterns mean."""
    marks = [
        *KIND_NAMES.items(),
        ("h", "hole"),
        ("o", "overlap"),
        ("flag", "partition deletion"),
    ]
    items = [_mark(cls, name) for cls, name in marks]
    dispute = '<svg width="14" height="12"><path class="dispute" d="M2 2H12L7 10z"/></svg>'
    items.append(f"<li>{dispute}disputed leadership</li>")
    return f'<ul class="legend" aria-label="Legend">{"".join(items)}</ul>'


def _mark(cls: str, name: str) -> str:
    width, y, height = {"x": (22, 4, 4), "o": (22, 5, 3), "flag": (3, 0, 12)}.get(
        cls, (22, 0, 12)
    )
    rect = f'<rect class="{cls}" x="1" y="{y}" width="{width}" height="{height}"/>'
    drawing = f'<svg width="24" height="12" aria-hidden="true">{rect}</svg>'
    return f"<li>{drawing}{escaped(name)}</li>"


def table(pictures: Sequence[Picture]) -> str:
    """One line per partition; the name leads to its section."""
    heads = "".join(
        f'<th scope="col" title="{escaped(meaning)}"><button type="button" data-sort="{at}">'
        f"{escaped(name)}</button></th>"
        for at, (name, meaning) in enumerate(COLUMNS)
    )
    names = Counter(picture.name for picture in pictures)
    lines = "".join(
        _line(at, picture, is_shared=names[picture.name] > 1)
        for at, picture in enumerate(pictures)
    )
    return (
        '<div class="scroll"><table id="partitions"><thead><tr>'
        f"{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _line(at: int, picture: Picture, *, is_shared: bool) -> str:
    cells = []
    for name, number in _numbers(picture).items():
        cls = "alarm" if name in _ALARMING and number else "" if number else "nil"
        cells.append(f'<td class="{cls}" data-v="{number}">{_number_text(name, number)}</td>')
    link = f'<a href="#p{at}"><bdi>{escaped(picture.name)}</bdi></a>'
    if is_shared:  # A topic that was deleted and made again: only the id tells them apart.
        link += f" <code>{picture.topic_id_partition.topic_id}</code>"
    gone = ' <span class="chip">deleted</span>' if _is_gone(picture) else ""
    head = f'<th scope="row" data-v="{at}">{link}{gone}</th>'
    return f'<tr data-at="{at}">{head}{"".join(cells)}</tr>'


def _is_gone(picture: Picture) -> bool:
    return picture.delete is not None and picture.delete.name == "DELETE_PARTITION_FINISHED"


def section(at: int, picture: Picture, brokers: Sequence[int], limit: int) -> tuple[str, Any]:
    """A partition's part of the page, and what its tooltips need."""
    shown: dict[int, int] = {}
    findings = " finding" if picture.has_findings else ""
    names = f"{picture.name} {picture.topic_id_partition.topic_id}"
    html = (
        f'<details open id="p{at}" class="partition{findings}" data-name="{escaped(names)}">'
        f"<summary><h2><bdi>{escaped(picture.name)}</bdi></h2> "
        f"<code>{picture.topic_id_partition.topic_id}</code> {_chips(picture)}</summary>"
        f"{_zoom()}{_plot(picture, limit, shown)}"
        f'<div class="scroll"><div class="plot">{timeline_rows(picture, brokers)}</div></div>'
        f"{_dropped(picture)}{_listing(len(picture.segments), len(shown))}</details>"
    )
    details = [_details(picture.segments[segment]) for segment in shown]
    return html, details


def _chips(picture: Picture) -> str:
    chips = [
        f'<span class="chip {kind.value}">{count_text(picture.kinds[kind])} '
        f"{escaped(KIND_NAMES[kind.value])}</span>"
        for kind in Kind
        if picture.kinds[kind]
    ]
    plain = [size_text(picture.size), many(len(picture.timeline.leaderships), "session")]
    if picture.last_broker is not None:
        plain.append(f"last led by broker {picture.last_broker}")
    chips += [f'<span class="chip">{escaped(text)}</span>' for text in plain]
    alarms = [
        (len(picture.holes), "hole"),
        (picture.overlaps, "overlap"),
        (picture.timeline.disputes, "dispute"),
    ]
    chips += [
        f'<span class="chip alarm">{many(number, noun)}</span>'
        for number, noun in alarms
        if number
    ]
    if picture.delete is not None:
        chips.append(f'<span class="chip alarm">{escaped(picture.delete.name)}</span>')
    return f'<span class="chips">{"".join(chips)}</span>'


def _zoom() -> str:
    buttons = (
        ("live", "live", "Zoom to what is left"),
        ("&minus;", "0.5", "Zoom out"),
        ("all", "all", "The whole width"),
        ("+", "2", "Zoom in"),
    )
    return (
        '<div class="zoom script" role="group" aria-label="Zoom" hidden>'
        + "".join(
            f'<button type="button" data-zoom="{by}" aria-label="{name}" title="{name}">'
            f"{text}</button>"
            for text, by, name in buttons
        )
        + "</div>"
    )


def _plot(picture: Picture, limit: int, shown: dict[int, int]) -> str:
    if not picture.lanes:
        return '<p class="note">No segment was ever added.</p>'
    axis = picture.axis
    empty = [
        lane for lane in picture.lanes if all(one.kind is Kind.DELETED for one in lane.parts)
    ]
    folded = empty if len(picture.lanes) > OPEN_LANES_MAX else []
    hidden = {lane.epoch for lane in folded}
    drawn = [lane for lane in picture.lanes if lane.epoch not in hidden]
    unfold = ""
    if folded:
        inner = _lanes(folded, picture, limit, shown)
        head = f"{many(len(folded), 'epoch')} of which nothing is left"
        unfold = f'<details class="folded"><summary>{head}</summary>{inner}</details>'
    return (
        f'<div class="scroll"><div class="plot offsets" data-live="{_live(picture)}">'
        f"{coverage_row(picture, axis)}"
        f"{_lanes(drawn, picture, limit, shown)}{unfold}{offsets_axis(axis)}</div></div>"
    )


def _live(picture: Picture) -> str:
    """Where on the axis the segments that are left begin and end, as fractions."""
    (first, last), (start, end) = picture.axis, picture.live_range
    span = last - first + 1
    return f"{(start - first) / span:.4f} {(end + 1 - first) / span:.4f}"


def _lanes(lanes: Iterable[Lane], picture: Picture, limit: int, shown: dict[int, int]) -> str:
    axis, deleted = picture.axis, picture.deleted
    return "".join(lane_row(lane, axis, limit, shown, deleted) for lane in lanes)


def _dropped(picture: Picture) -> str:
    if not picture.dropped:
        return ""
    reasons = ", ".join(
        f"{count_text(number)} &times; {escaped(reason)}"
        for reason, number in sorted(picture.dropped.items())
    )
    return f'<p class="note">Imported records without effect, as in Kafka: {reasons}.</p>'


def _listing(segments: int, shown: int) -> str:
    if not shown:
        return ""
    rest = segments - shown
    note = f" ({count_text(rest)} more are drawn together)" if rest else ""
    return (
        '<details class="list script" hidden><summary>'
        f"{many(shown, 'segment')} as a table{note}</summary></details>"
    )


def _details(segment: Segment) -> list[Any]:
    """What a tooltip says of a segment; the script knows the order."""
    added = segment.added
    epochs = "; ".join(
        f"{added.epochs[at]} from {added.epochs[at + 1]}"
        for at in range(0, len(added.epochs), 2)
    )
    return [
        str(Uuid(added.segment_id)),
        exact(added.start_offset),
        exact(added.end_offset),
        epochs,
        segment.kind.value,
        exact(added.size),
        segment.broker_id,
        exact(added.max_timestamp_ms),
        exact(segment.added_ms),
        exact(segment.finished_ms),
        exact(segment.delete_started_ms),
        exact(segment.deleted_ms),
    ]
