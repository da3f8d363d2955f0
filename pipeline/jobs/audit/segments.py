"""Every segment that the logs have ever named, for an audit; folded by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from tierledger.events.errors import DataError, InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.log_events import Event, SegmentKept, SegmentPurged
from tierledger.events.partition.answers import Snapshot, list_all, metadata_of_fields
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import FINISHED_AT, STATE, id_of_row, unpack_row
from tierledger.pipeline.log_ranges import LogPlanner
from tierledger.pipeline.segment_lives import DELETED, DELETING, SegmentLives
from tierledger.pipeline.table_columns import (
    BIGINT,
    BOOLEAN,
    OBJECTS,
    STRING,
    Column,
    Row,
    Table,
    WatchingRows,
    id_texts,
    state_names,
)
from tierledger.pipeline.tables.plan import TablePlan

if TYPE_CHECKING:
    from tierledger.tiering.layouts.listed_objects import LayoutNames

SEGMENT, DAMAGED = "segment", "damaged"
"""Kinds of rows; a damaged log may have rows of both kinds."""


class LogKey(NamedTuple):
    """Identifies a partition's log."""

    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Which events happened before the list of objects was begun.

    Attributes:
        ends: For a list that the audit makes: each log's end (exclusive position) before it.
        before_ms: For a list made earlier: events with an earlier log time count.
    """

    ends: Mapping[LogKey, int] = field(default_factory=dict)
    before_ms: int | None = None


class AuditRows(WatchingRows):
    """Every segment that one log has ever named, in rows of `COLUMNS`."""

    def __init__(self, names: LayoutNames, settled: Settled) -> None:
        super().__init__()
        self._names = names
        self._settled = settled
        self._lives = SegmentLives(())
        self._end: int | None = None
        """The first position that is not settled by log time; none before it is reached."""

    @override
    def _watch(self, state: PartitionState, event: Event) -> None:
        body, before_ms = event.body, self._settled.before_ms
        if self._end is None and before_ms is not None and event.log_time_ms >= before_ms:
            self._end = event.position
        gone = [one.segment_id for one in self._lives.note(state, event) if one.entered is None]
        if isinstance(body, SegmentKept):
            return  # Its data stays, so its deletion is under way until it is purged.
        if isinstance(body, SegmentPurged):
            gone.append(body.segment_id)
        is_settled = self._is_settled(state, event.position)
        for segment_id in gone:
            kept = state.kept.get(segment_id)
            row = state.rows.get(segment_id) if kept is None else kept.row
            head = (SEGMENT, segment_id, DELETED, is_settled)
            self._certain.append((*head, *(None,) * 10, *self._more(row)))

    def _more(self, row: bytes | None) -> Row:  # noqa: ARG002 - An audit needs no more.
        """More columns, for a segment that has this row, or had it last."""
        return ()

    def _is_settled(self, state: PartitionState, position: int) -> bool:
        if self._settled.before_ms is not None:
            return self._end is None or position < self._end
        tip = state.topic_id_partition
        return position < self._settled.ends.get(LogKey(str(tip.topic_id), tip.partition), 0)

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        tip = state.topic_id_partition
        live = ((row, None) for row in list_all(Snapshot(state)))
        kept = ((one.row, DELETING) for _, one in state.kept.all())
        for row, other in chain(live, kept):
            fields = unpack_row(row)
            metadata = metadata_of_fields(tip, fields)
            is_settled = self._is_settled(state, fields[FINISHED_AT])
            head = (SEGMENT, id_of_row(row), other or fields[STATE], is_settled)
            try:
                must = self._names.expected(metadata)
            except (DataError, InvalidArgument) as error:
                tail = (fields[FINISHED_AT], str(error), *self._more(row))
                yield (*head, *(None,) * 8, *tail)
                continue
            yield (
                *head,
                must.place,
                must.part_bytes,
                must.log_bytes,
                [one._asdict() for one in must.others],
                must.indexes,
                must.weight,
                must.is_below_prefix,
                must.is_log_as_it_is,
                fields[FINISHED_AT],
                None,
                *self._more(row),
            )

    @override
    def damaged(self, position: int, message: str) -> Iterable[Row]:
        yield (DAMAGED, bytes(16), None, False, *(None,) * 9, message, *self._more(None))


def segments_table(names: LayoutNames, settled: Settled) -> Table:
    """The table of segments for a tier with these `names`; pass it to `tables.plan.planned`."""
    return Table(
        "audit", "segments and their objects", COLUMNS, partial(AuditRows, names, settled)
    )


async def ends_of(plan: TablePlan) -> dict[LogKey, int]:
    """The next position of each planned log; a log whose end is damaged is left out."""
    ends: dict[LogKey, int] = {}
    async with plan.store.opened() as catalog:
        for log in plan.logs:
            tip = TopicIdPartition(Uuid(log.topic_id), log.partition, "")
            try:
                place = await LogPlanner(catalog.reader(tip)).place(log.end_batch)
            except DataError:
                continue
            ends[LogKey(str(log.topic_id), log.partition)] = place.next_position
    return ends


COLUMNS = (
    Column("what", STRING, f"what the row is about: `{SEGMENT}` or a `{DAMAGED}` log"),
    Column("segment_id", STRING, "id of the segment, 22 characters", False, id_texts),
    Column("state", STRING, "state of the segment, by its name in Kafka", True, state_names),
    Column(
        "is_settled", BOOLEAN, "whether the segment reached the state before the listing began"
    ),
    Column("place", STRING, "prefix of the names of the segment's objects", True),
    Column(
        "part_bytes",
        BIGINT,
        "bytes of each object with a part of the log, except the last",
        True,
    ),
    Column("log_bytes", BIGINT, "bytes of the whole log", True),
    Column("others", OBJECTS, "the objects beside the log, with their possible sizes", True),
    Column(
        "indexes",
        STRING,
        "role of the object in `others` without which the segment cannot be read",
        True,
    ),
    Column(
        "weight",
        BIGINT,
        "bytes of all objects; null if the custom metadata does not have it",
        True,
    ),
    Column("is_below_prefix", BOOLEAN, "whether the objects are below the tier's prefix", True),
    Column(
        "is_log_as_it_is",
        BOOLEAN,
        "whether the log's objects have its bytes, neither compressed nor encrypted",
        True,
    ),
    Column(
        "finished_at",
        BIGINT,
        "position of the event that finished the copy; -1 if it never finished",
        True,
    ),
    Column(
        "trouble",
        STRING,
        "why the objects cannot be named, or how the log is damaged; else null",
        True,
    ),
)
