"""A run as text: one line per event, a column per process.

    time ms  1 2 3 4 5  where               what       epoch  partition  detail
      4.210  o-----> |  broker-1 -> host-1  append         1  orders-0   message 12, lost

In a process's column `|` means running, `:` paused, `/` cut off, and a blank dead. A letter is
the event's mark, `o` and `>` or `<` a message's ends, `x` its end if it was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tierledger.pages.texts import visible
from tierledger.simulation.explain.marks import mark_of
from tierledger.simulation.timeline import (
    CUT_OFF,
    DEAD,
    PAUSED,
    STATES,
    Arrow,
    RunLane,
    RunTimeline,
    Span,
    ordered,
)

COLUMNS_MAX = 30
"""With more processes than this, their columns are left out."""

RUN = "run"
"""The name of the lane that has none."""

_STATE_SIGNS = {DEAD: " ", PAUSED: ":", CUT_OFF: "/"}


class Entry(NamedTuple):
    """One line of a run."""

    time_us: int
    where: str
    what: str
    epoch: int | None
    key: str
    detail: str
    ends: tuple[str, ...]
    """The lanes that the entry touches; two for a message on its way."""
    sign: str
    """The sign in the column of its last lane."""
    link: str
    """The element of the page's picture that shows it: kind and number."""


def text(timeline: RunTimeline) -> str:
    """All of a run: first the violations, then one line per event, by time.

    The same timeline gives the same text. Values in it cannot break a line or hide anything.
    """
    run = ordered(timeline)
    entries = sorted(
        [*_arrivals(run.arrows), *entries_of(run)], key=lambda entry: entry.time_us
    )
    lines = [visible(run.title), f"repeat: {visible(run.command)}", ""]
    lines += _numbered("violations", run.violations)
    lines += _numbered("decisions", run.decisions)
    lines += _numbered("processes", [_name(lane) for lane in run.lanes])
    strips = _Strips(run.lanes, run.spans) if len(run.lanes) <= COLUMNS_MAX else None
    rows = [("time ms", "where", "what", "epoch", "partition", "detail")]
    rows += [_fields(entry) for entry in entries]
    shown = [
        strips.head() if strips else "",
        *(strips.of(e) if strips else "" for e in entries),
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    for strip, (time, where, what, epoch, key, detail) in zip(shown, rows, strict=True):
        line = (
            f"{time:>{widths[0]}}  {strip}{where:{widths[1]}}  {what:{widths[2]}}  "
            f"{epoch:>{widths[3]}}  {key:{widths[4]}}  {detail}"
        )
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def entries_of(run: RunTimeline) -> list[Entry]:
    """Moments, messages where they were sent, and spans where they begin, by time."""
    entries = [
        Entry(
            one.time_us, one.lane or RUN, one.what, one.epoch, one.key, one.detail,
            (one.lane,), mark_of(one.what).letter, f"m{at}",
        )
        for at, one in enumerate(run.moments)
    ]  # fmt: skip
    entries += [_sending(at, one) for at, one in enumerate(run.arrows)]
    entries += [_beginning(at, one) for at, one in enumerate(run.spans)]
    return sorted(entries, key=lambda entry: entry.time_us)


def ms_text(time_us: int) -> str:
    """Milliseconds with all digits: "1,234.567"."""
    return f"{time_us / 1000:,.3f}"


def _sending(at: int, arrow: Arrow) -> Entry:
    return Entry(
        arrow.sent_us, f"{arrow.source} -> {arrow.target}", arrow.what, arrow.epoch, arrow.key,
        f"{_fate(at, arrow)}{f', {arrow.detail}' if arrow.detail else ''}",
        (arrow.source, arrow.target), "x" if arrow.is_lost else ">", f"a{at}",
    )  # fmt: skip


def _fate(at: int, arrow: Arrow) -> str:
    if arrow.is_lost:
        return f"message {at}, lost"
    if arrow.received_us is None:
        return f"message {at}, not there by the end"
    return f"message {at}, arrives {ms_text(arrow.received_us)}"


def _arrivals(arrows: Sequence[Arrow]) -> Iterable[Entry]:
    for at, one in enumerate(arrows):
        if one.received_us is not None and not one.is_lost:
            yield Entry(
                one.received_us, one.target, f"{one.what} arrives", one.epoch, one.key,
                f"message {at} from {one.source}", (one.target,), ".", "",
            )  # fmt: skip


def _beginning(at: int, span: Span) -> Entry:
    return Entry(
        span.begin_us, span.lane, span.what, span.epoch, span.key,
        f"until {ms_text(span.end_us)}{f', {span.detail}' if span.detail else ''}",
        (span.lane,), "[", f"s{at}",
    )  # fmt: skip


def _fields(entry: Entry) -> tuple[str, str, str, str, str, str]:
    epoch = "" if entry.epoch is None else str(entry.epoch)
    where, what = visible(entry.where), visible(entry.what)
    return ms_text(entry.time_us), where, what, epoch, visible(entry.key), visible(entry.detail)


def _name(lane: RunLane) -> str:
    return f"{lane.name} ({lane.kind})" if lane.kind else lane.name or RUN


def _numbered(name: str, values: Sequence[str]) -> list[str]:
    lines = [f"{at:>5}  {visible(value)}" for at, value in enumerate(values, 1)]
    return [f"{name}: {len(values)}", *lines, ""]


class _Strips:
    """The processes' columns, line by line in time."""

    def __init__(self, lanes: Sequence[RunLane], spans: Sequence[Span]) -> None:
        self._at = {lane.name: at for at, lane in enumerate(lanes)}
        self._spans = [span for span in spans if span.what in STATES]
        self._begun = 0
        self._open: list[Span] = []

    def head(self) -> str:
        return " ".join(str(at % 10) for at in range(1, len(self._at) + 1)) + "  "

    def of(self, entry: Entry) -> str:
        """The columns of `entry`, which must not be earlier than the previous one."""
        self._advance(entry.time_us)
        # A column is a cell and the gap after it, through which a message passes.
        cells = ["|", " "] * len(self._at)
        for span in self._open:
            cells[2 * self._at[span.lane]] = _STATE_SIGNS[span.what]
        first, last = 2 * self._at[entry.ends[0]], 2 * self._at[entry.ends[-1]]
        if first != last:
            low, high = sorted((first, last))
            cells[low + 1 : high] = ["-"] * (high - low - 1)
            cells[first] = "o"
        is_left = last < first and entry.sign == ">"
        cells[last] = "<" if is_left else entry.sign
        return "".join(cells) + " "

    def _advance(self, time_us: int) -> None:
        while self._begun < len(self._spans) and self._spans[self._begun].begin_us <= time_us:
            self._open.append(self._spans[self._begun])
            self._begun += 1
        self._open = [span for span in self._open if span.end_us > time_us]
