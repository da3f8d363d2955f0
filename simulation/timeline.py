"""A run as a picture shows it: its processes, what happened to them, and their messages.

Times are whole microseconds of the run's one clock. Worlds and lives make timelines.
`explain/page.py` and `explain/text.py` draw them, and know nothing else of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

BROKER, COORDINATOR, HOST, STORE = "broker", "coordinator", "host", "store"
KINDS: Final = (BROKER, COORDINATOR, HOST, STORE)
"""Kinds of lanes from top to bottom: as a message usually travels."""

DEAD, PAUSED, CUT_OFF = "dead", "paused", "cut off"
LEADS, FOLLOWS, CALL = "leads", "follows", "call"
STATES: Final = (DEAD, PAUSED, CUT_OFF)
"""Spans in which a whole process is disturbed; other spans are bars beneath its lane."""


class RunLane(NamedTuple):
    """One process, or the store."""

    name: str
    kind: str
    """One of `KINDS`; others are drawn below these."""


class RunMoment(NamedTuple):
    """Something that happened in one lane at one time."""

    time_us: int
    lane: str
    """An unknown name gets a lane of its own; "" is the run itself."""
    what: str
    """"crash", "claim", "op ok", ...: `explain/marks.py` has the marks; others get a ring."""
    detail: str = ""
    epoch: int | None = None
    """The session or epoch of the moment, which gives its colour."""
    key: str = ""
    """The partition; "" for moments of all partitions, which no filter hides."""


class Arrow(NamedTuple):
    """One message."""

    sent_us: int
    source: str
    target: str
    received_us: int | None
    """None if it never arrived: it was lost, or on its way at the end."""
    what: str
    detail: str = ""
    is_lost: bool = False
    epoch: int | None = None
    key: str = ""


class Span(NamedTuple):
    """Something that took some time."""

    lane: str
    begin_us: int
    end_us: int
    what: str
    epoch: int | None = None
    key: str = ""
    detail: str = ""


class RunTimeline(NamedTuple):
    """One run, with what the checkers found in it."""

    title: str
    command: str
    """The command that repeats the run."""
    lanes: list[RunLane]
    moments: list[RunMoment]
    arrows: list[Arrow]
    spans: list[Span]
    decisions: list[str]
    """What the run depends on, besides its configuration. A decision that is the detail of a
    moment is linked to it."""
    violations: list[str]


def ordered(timeline: RunTimeline) -> RunTimeline:
    """The same run by time, with a lane for every name, and lanes of one kind together.

    Moments at the same time keep their order, in which they happened.
    """
    return timeline._replace(
        lanes=_lanes(timeline),
        moments=sorted(timeline.moments, key=lambda one: one.time_us),
        arrows=sorted(timeline.arrows, key=lambda one: one.sent_us),
        spans=sorted(timeline.spans, key=lambda one: one.begin_us),
    )


def first_and_last_us(timeline: RunTimeline) -> tuple[int, int]:
    """The run's first and last time, at least 1 µs apart."""
    times = [one.time_us for one in timeline.moments]
    times += [time for one in timeline.arrows for time in (one.sent_us, one.received_us or 0)]
    times += [time for one in timeline.spans for time in (one.begin_us, one.end_us)]
    first, last = min(times, default=0), max(times, default=0)
    return min(first, 0), max(last, min(first, 0) + 1)


def _lanes(timeline: RunTimeline) -> list[RunLane]:
    known: dict[str, RunLane] = {}
    for lane in timeline.lanes:
        known.setdefault(lane.name, lane)
    for name in _names(timeline):
        known.setdefault(name, RunLane(name, ""))
    return sorted(known.values(), key=_rank)


def _names(timeline: RunTimeline) -> Iterable[str]:
    yield from (one.lane for one in timeline.moments)
    yield from (name for one in timeline.arrows for name in (one.source, one.target))
    yield from (one.lane for one in timeline.spans)


def _rank(lane: RunLane) -> int:
    if not lane.name:
        return -1  # The run itself stands above its processes.
    return KINDS.index(lane.kind) if lane.kind in KINDS else len(KINDS)
