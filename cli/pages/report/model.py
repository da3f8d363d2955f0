"""The report's view of a partition: its log, folded, with the life of every segment.

Rule: holes and overlaps are those of `jobs coverage`; the table of leader epochs tells what is
served or recovered. The report decides nothing itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tierledger.cli.pages.report.intervals import length, merged
from tierledger.cli.pages.report.timeline import Timeline, TimelineBuilder
from tierledger.events import log_events as log
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import BROKER, STATE, Row, unpack_row
from tierledger.pipeline.jobs.coverage.rules import CoverageKind, coverage_of
from tierledger.pipeline.segment_lives import DELETING, FINISHED, SegmentLives
from tierledger.pipeline.tables.epochs import served_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.pages.drawing import Range
    from tierledger.pipeline.jobs.coverage.rules import CoverageRow


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One partition's whole log, from position 0."""

    topic_id_partition: TopicIdPartition
    events: Sequence[log.Event]


class SegmentKind(StrEnum):
    """The state of a segment in one leader epoch, by its word."""

    SERVED = "served"
    RECOVERED = "recovered"
    """Finished, and holds offsets for which Kafka's own manager answers "none"."""
    SUPERSEDED = "superseded"
    """Finished, but other segments answer for every offset it holds."""
    COPYING = "copying"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(slots=True)
class SegmentLife:
    """One life of a segment: from its (last) copy start to its deletion, in log time."""

    added: log.SegmentAdded
    broker_id: int
    added_ms: int
    finished_ms: int | None = None
    delete_started_ms: int | None = None
    deleted_ms: int | None = None
    kind: SegmentKind = SegmentKind.DELETED

    @property
    def offsets(self) -> Range:
        return (self.added.start_offset, self.added.end_offset)


@dataclass(frozen=True, slots=True)
class Part:
    """A segment's stretch of one leader epoch; `segment` indexes `Picture.segments`."""

    start: int
    end: int
    kind: SegmentKind
    segment: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One leader epoch: its parts, and the offsets that are missing or held twice."""

    epoch: int
    parts: list[Part]
    holes: list[Range]
    overlaps: list[Range]

    @property
    def is_deleted(self) -> bool:
        """Whether no segment of the epoch is left."""
        return all(part.kind is SegmentKind.DELETED for part in self.parts)


@dataclass(frozen=True, slots=True)
class Picture:
    """One partition, ready to be drawn.

    Attributes:
        coverage: Offsets of the log that finished segments hold.
        holes: Offsets that no segment holds, though some hold offsets before and behind.
        deleted: Offsets that deleted segments held.
        last_broker: The present or last leader; none before the first session, or of an import.
    """

    topic_id_partition: TopicIdPartition
    topic: str
    segments: list[SegmentLife]
    lanes: list[Lane]
    coverage: list[Range]
    holes: list[Range]
    deleted: list[Range]
    timeline: Timeline
    events: int
    dropped: dict[str, int]
    delete: RemotePartitionDeleteState | None
    last_broker: int | None
    kinds: Counter[SegmentKind] = field(default_factory=Counter)
    size: int = 0

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.topic_id_partition.partition}"

    @property
    def is_gone(self) -> bool:
        return self.delete is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

    @property
    def overlaps(self) -> int:
        return sum(len(lane.overlaps) for lane in self.lanes)

    @property
    def axis(self) -> Range:
        """The first and last offset of any segment."""
        if not self.segments:
            return (0, 0)
        starts = (part.start for lane in self.lanes for part in lane.parts)
        first = min(segment.added.start_offset for segment in self.segments)
        return (min(first, *starts), max(one.added.end_offset for one in self.segments))

    @property
    def live_range(self) -> Range:
        """The stretch of the axis with segments that are left; all of it if none is."""
        left = [
            (one.start, one.end)
            for lane in self.lanes
            for one in lane.parts
            if one.kind is not SegmentKind.DELETED
        ]
        if not left:
            return self.axis
        return (min(start for start, _ in left), max(end for _, end in left))

    @property
    def missing(self) -> int:
        """The number of offsets in holes."""
        return length(self.holes)

    @property
    def needs_a_look(self) -> bool:
        """Whether the partition has anything that is an alarm or a warning."""
        return bool(self.holes or self.overlaps or self.timeline.disputes)


def picture_of(history: PartitionLog) -> Picture:
    """The partition at the end of its log.

    Raises:
        CorruptLog: The events are not a whole log that `decide` wrote.
    """
    state = PartitionState(history.topic_id_partition, b"")
    lives = _LivesSoFar()
    timeline = TimelineBuilder()
    for event in history.events:
        lives.note(state, event)
        evolve(state, event)
        timeline.note(event)
    found = list(coverage_of(state))
    lanes, segments = _lanes(state, lives, found)
    delete, session = state.delete, state.session
    led = session is not None and session.import_cluster is None
    return Picture(
        topic_id_partition=history.topic_id_partition,
        topic=timeline.topic or history.topic_id_partition.topic,
        segments=segments,
        lanes=lanes,
        coverage=merged(_ranges(found, CoverageKind.COVERED)),
        holes=_ranges(found, CoverageKind.HOLE),
        deleted=merged(
            (one.start, one.end)
            for lane in lanes
            for one in lane.parts
            if one.kind is SegmentKind.DELETED
        ),
        timeline=timeline.timeline(),
        events=len(history.events),
        dropped=dict(state.dropped),
        delete=None if delete is None else RemotePartitionDeleteState(delete.state),
        last_broker=session.broker_id if session is not None and led else None,
        kinds=Counter(segment.kind for segment in segments),
        size=sum(state.bytes_by_state),
    )


class _LivesSoFar:
    """Segments as they come and go; one that is added again has two lives."""

    def __init__(self) -> None:
        self.current: dict[bytes, SegmentLife] = {}
        self.past: list[SegmentLife] = []
        self._lives = SegmentLives()

    def note(self, state: PartitionState, event: log.Event) -> None:
        """Take an event, before it is applied to `state`."""
        body = event.body
        for segment_id, _, entered in self._lives.note(state, event):
            if isinstance(body, log.SegmentAdded):
                segment = SegmentLife(body, body.broker_id, event.log_time_ms)
                self.current[segment_id] = segment
                continue
            segment = self.current[segment_id]
            if isinstance(body, log.SegmentUpdated | log.SegmentKept):
                segment.broker_id = body.broker_id
            if entered is None:
                segment.deleted_ms = event.log_time_ms
                self.past.append(self.current.pop(segment_id))
            elif entered.state == FINISHED:
                segment.finished_ms = event.log_time_ms
            elif entered.state == DELETING:
                segment.delete_started_ms = event.log_time_ms


def _ranges(found: Iterable[CoverageRow], kind: CoverageKind) -> list[Range]:
    return [(one.start_offset, one.end_offset) for one in found if one.kind is kind]


def _lanes(
    state: PartitionState, lives: _LivesSoFar, found: Sequence[CoverageRow]
) -> tuple[list[Lane], list[SegmentLife]]:
    segments = [*lives.current.values(), *lives.past]
    numbers = {segment_id: at for at, segment_id in enumerate(lives.current)}
    rows: dict[int, Row] = {}
    for segment_id, at in numbers.items():
        stood = state.rows.get(segment_id)
        assert stood is not None, "what the log added and did not delete has a row"
        rows[at] = unpack_row(stood)
        segments[at].broker_id = rows[at][BROKER]
    by_epoch: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for at, segment in enumerate(segments):
        for epoch, start, end in _stretches(segment.added):
            by_epoch[epoch].append((start, end, at))
    lanes = []
    for epoch, stretches in sorted(by_epoch.items()):
        kinds = {at: _kind_of(rows.get(at)) for _, _, at in stretches}
        for served in served_ranges(state, epoch) if epoch in state.epochs else ():
            at = numbers[served.segment_id]
            if served.is_recovered:
                kinds[at] = SegmentKind.RECOVERED
            elif kinds[at] is not SegmentKind.RECOVERED:
                kinds[at] = SegmentKind.SERVED
        parts = [Part(start, end, kinds[at], at) for start, end, at in sorted(stretches)]
        of_epoch = [one for one in found if one.leader_epoch == epoch]
        holes, overlaps = (
            _ranges(of_epoch, kind) for kind in (CoverageKind.HOLE, CoverageKind.OVERLAP)
        )
        lanes.append(Lane(epoch, parts, holes, overlaps))
    _name_kinds(segments, lanes)
    return lanes, segments


def _stretches(added: log.SegmentAdded) -> Iterable[tuple[int, int, int]]:
    """Epoch, first and last offset of each of a segment's epochs that hold any offset."""
    given = added.epochs
    for at in range(0, len(given), 2):
        end = given[at + 3] - 1 if at + 2 < len(given) else added.end_offset
        if end >= given[at + 1]:
            yield given[at], given[at + 1], end


def _kind_of(row: Row | None) -> SegmentKind:
    """The kind of a segment that answers for nothing."""
    if row is None:
        return SegmentKind.DELETED
    if row[STATE] == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return SegmentKind.COPYING
    if row[STATE] == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
        return SegmentKind.DELETING
    return SegmentKind.SUPERSEDED


def _name_kinds(segments: list[SegmentLife], lanes: list[Lane]) -> None:
    """Give each segment its most telling kind over its epochs."""
    kinds: defaultdict[int, set[SegmentKind]] = defaultdict(set)
    for lane in lanes:
        for part in lane.parts:
            kinds[part.segment].add(part.kind)
    order = (
        SegmentKind.RECOVERED,
        SegmentKind.SERVED,
        SegmentKind.SUPERSEDED,
        SegmentKind.COPYING,
        SegmentKind.DELETING,
    )
    for at, segment in enumerate(segments):
        segment.kind = next((kind for kind in order if kind in kinds[at]), SegmentKind.DELETED)
