"""The report of a replay: totals, a table of partitions, and each partition's history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tierledger.cli.pages.report.bars import lane_limit
from tierledger.cli.pages.report.lanes import (
    copies_row,
    coverage_row,
    lane_row,
    leaders_row,
    size_row,
    ticks,
    time_texts,
)
from tierledger.cli.pages.report.model import SegmentKind, picture_of
from tierledger.events.identifiers import Uuid
from tierledger.events.vocabulary import WORDS
from tierledger.pages.environment import render
from tierledger.pages.texts import anchors, exact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tierledger.cli.pages.report.model import PartitionLog, Picture, SegmentLife
    from tierledger.pages.drawing import PlotRow
    from tierledger.pages.environment import Stamp

SIZES_MAX = 50
"""Partitions of a page up to which the size of each is drawn over time."""

OPEN_LANES_MAX = 24
"""Epochs of a partition that are shown at first; older ones unfold."""


class SummaryColumn(NamedTuple):
    """A number of each partition, and its total."""

    name: str
    meaning: str
    of: Callable[[Picture], int]
    look: str = ""
    """How values other than 0 look."""

    @classmethod
    def of_word(cls, word: str, of: Callable[[Picture], int], name: str = "") -> SummaryColumn:
        """The number of what a word of the vocabulary is said of."""
        known = WORDS[word]
        return cls(name or word, known.meaning, of, known.look)


COLUMNS: Final = (
    *(
        SummaryColumn.of_word(kind, lambda one, kind=kind: one.kinds[kind])  # type: ignore[misc]
        for kind in SegmentKind
    ),
    SummaryColumn("size", "Bytes of all segments that are not deleted", lambda one: one.size),
    SummaryColumn(
        "sessions",
        "Leaderships, imports among them",
        lambda one: len(one.timeline.leaderships),
    ),
    SummaryColumn.of_word("disputed", lambda one: one.timeline.disputes),
    SummaryColumn.of_word("hole", lambda one: len(one.holes), "holes"),
    SummaryColumn.of_word("overlap", lambda one: one.overlaps, "overlaps"),
    SummaryColumn.of_word("dropped", lambda one: sum(one.dropped.values())),
    SummaryColumn("events", "Length of the log", lambda one: one.events),
)


KINDS: Final = {kind: WORDS[kind] for kind in SegmentKind}
"""The words of segments, for a page's legend."""


class Section(NamedTuple):
    """A partition's part of the page."""

    id: str
    """By which links lead to it."""
    picture: Picture
    coverage: PlotRow
    lanes: list[PlotRow]
    folded: list[PlotRow]
    """Epochs without segments, folded if there are too many epochs to show."""
    offsets: list[int]
    live: tuple[float, float]
    """Where on the axis the remaining segments begin and end, as fractions."""
    leaders: PlotRow
    copies: PlotRow | None
    sizes: PlotRow | None
    """Its size over time; None if nothing was ever tiered, or the page has too many."""
    times: list[str]
    details: list[list[Any]]
    """The contents of segments' tooltips, by number."""


def report_page(
    partitions: Sequence[PartitionLog],
    title: str,
    facts: Mapping[str, str],
    stamp: Stamp,
) -> str:
    """The page as HTML.

    Per partition: a lane per leader epoch with a bar per segment, what overlaps and what is
    missing, and who led when; on top the totals. Very many segments are drawn together, so the
    page's size is bounded by what a screen can show.

    Args:
        partitions: Whole logs, each from position 0; shown by topic and partition.
        title: The page's heading.
        facts: Further facts at the top, by name, in this order.
        stamp: When, by which program and of what the page is made.

    Raises:
        CorruptLog: A history is not a whole log that `decide` wrote.
    """
    pictures = sorted((picture_of(history) for history in partitions), key=_order)
    names = Counter(picture.name for picture in pictures)
    return render(
        "report.html",
        stamp=stamp,
        title=title,
        facts=facts,
        columns=COLUMNS,
        totals=[sum(column.of(picture) for picture in pictures) for column in COLUMNS],
        kinds=KINDS,
        sections=sections_of(pictures),
        # A topic that was deleted and created again differs only by its id.
        shared_names={name for name, count in names.items() if count > 1},
    )


def sections_of(pictures: Sequence[Picture]) -> list[Section]:
    """The parts of a page about these partitions, in their order."""
    brokers = _brokers(pictures)
    limit = lane_limit(lane for picture in pictures for lane in picture.lanes)
    ids = anchors(picture.name for picture in pictures)
    made = [
        _section(name, picture, brokers, limit)
        for name, picture in zip(ids, pictures, strict=True)
    ]
    if len(made) > SIZES_MAX:
        return made
    return [one._replace(sizes=_sizes(one.picture)) for one in made]


def _sizes(picture: Picture) -> PlotRow | None:
    is_tiered = any(one.finished_ms is not None for one in picture.segments)
    return size_row(picture) if is_tiered else None


def _order(picture: Picture) -> tuple[str, int, bytes]:
    identity = picture.topic_id_partition
    return picture.topic, identity.partition, bytes(identity.topic_id)


def _brokers(pictures: Sequence[Picture]) -> list[int]:
    """All brokers that led or copied, so that each keeps its colour over the page."""
    led = {one.opened.broker_id for picture in pictures for one in picture.timeline.leaderships}
    copied = {run.broker_id for picture in pictures for run in picture.timeline.recorded}
    return sorted(led | copied)


def _section(name: str, picture: Picture, brokers: Sequence[int], limit: int) -> Section:
    shown: dict[int, int] = {}
    axis, (start, end) = picture.axis, picture.live_range
    rows = [
        (lane, lane_row(lane, axis, limit, shown, picture.deleted)) for lane in picture.lanes
    ]
    is_long = len(rows) > OPEN_LANES_MAX
    first, last = axis
    span = last - first + 1
    timeline = picture.timeline
    return Section(
        name,
        picture,
        coverage_row(picture, axis),
        [row for lane, row in rows if not is_long or not lane.is_deleted],
        [row for lane, row in rows if is_long and lane.is_deleted],
        ticks(axis),
        ((start - first) / span, (end + 1 - first) / span),
        leaders_row(timeline, brokers),
        copies_row(timeline, brokers) if timeline.recorded else None,
        None,
        time_texts(timeline.axis_ms),
        [_details(picture.segments[segment]) for segment in shown],
    )


def _details(segment: SegmentLife) -> list[Any]:
    """The content of a segment's tooltip; the script knows the order."""
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
