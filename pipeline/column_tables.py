"""Tables made from the columns of events, whole columns at a time.

Rule: a table has one definition, the fold of its log. What is made here equals it, and tests
compare the two on all recorded logs. So only logs in which each segment lives as most do are
made here; the fold makes the rows of all others, and tells of damaged ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tierledger.events.as_of import AsOf
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.column_files.content import rows_in
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.column_lives import Events, lives, states_of, whole_column
from tierledger.pipeline.column_sizes import NEEDED, sizes_of
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.log_ranges import LogRange
from tierledger.pipeline.source.bounds import TIME
from tierledger.pipeline.source.columns import coded_schema
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.ordered import OrderedRows, SoundPiece, ordered_rows, range_of
from tierledger.pipeline.source.plan import LogPieces, column_index, pieces_until
from tierledger.pipeline.table_columns import IDENTITY
from tierledger.pipeline.tables.arrow import RecordBatch, schema_of
from tierledger.pipeline.tables.plan import TablePlan
from tierledger.pipeline.tables.segments import SEGMENTS
from tierledger.pipeline.tables.sizes import SIZES
from tierledger.pipeline.worker import without_cycles

ROWS_AT_A_TIME = 200_000
"""About how many events are in memory."""

ROWS_OF_LOG_MAX = 2_000_000
"""Events of a longer log are not held in memory at once: it is folded."""

ROWS_PER_BATCH = 16_384


class ColumnTable:
    """Makes the rows of a plan's plain logs; `left` has the others, once it is done."""

    def __init__(self, plan: TablePlan, note: Note = warn) -> None:
        """`note` takes why column files are not used."""
        self.left: list[PlannedLog] = []
        self._plan = plan
        self._note = note
        self._made_as = MADE[plan.table.name]
        self._options = SourceOptions(plan.store.config, plan.store.cluster)
        self._cluster = ""

    def batches(self) -> Iterator[RecordBatch]:
        """The rows, in batches.

        Raises:
            StorageUnavailable: The store cannot be reached.
            StoreRefused: The URL does not lead to a store any more.
        """
        by_tip = {
            TopicIdPartition(one.topic_id, one.partition, ""): one for one in self._plan.logs
        }
        with without_cycles():
            found = asyncio.run(self._pieces())
        known = dict[TopicIdPartition, list[SoundPiece]]()
        for log_pieces in found:
            tip, ranges = log_pieces.topic_id_partition, log_pieces.pieces
            sound = [one for one in ranges if isinstance(one, LogRange) and one.end]
            # A name that a later session tells, and notices, are the fold's affair.
            pieces: list[SoundPiece] = [*log_pieces.in_files, *sound]
            count = sum(rows_in(range_of(one)) for one in pieces)
            if len(sound) == len(ranges) and tip.topic and count <= ROWS_OF_LOG_MAX:
                known[tip] = pieces
        self.left += [one for tip, one in by_tip.items() if tip not in known]
        for group in _groups(known):
            yield from self._made(group, by_tip)

    async def _pieces(self) -> list[LogPieces]:
        async with self._plan.store.opened() as catalog:
            self._cluster = catalog.cluster_id
            index = column_index(self._options, catalog)
            found = await pieces_until(catalog, self._options, index, self._plan.logs)
            index.tell(self._note)
            return found

    def _made(
        self,
        group: dict[TopicIdPartition, list[SoundPiece]],
        by_tip: dict[TopicIdPartition, PlannedLog],
    ) -> Iterator[RecordBatch]:
        as_of = self._plan.as_of
        more = [] if as_of.time_ms is None else [TIME]
        schema = coded_schema([*self._made_as.columns, *more])
        pieces = [one for some in group.values() for one in some]
        rows = ordered_rows(self._options, self._cluster, schema, pieces, self._note)
        self.left += [by_tip[tip] for tip in rows.damaged]
        tips = [tip for tip in group if tip not in rows.damaged]
        events = _until(_events(rows, tips, self._cluster), as_of)
        odd, made = self._made_as.make(events)
        self.left += [by_tip[tips[at]] for at in odd]
        yield from made.to_batches(max_chunksize=ROWS_PER_BATCH)


def _groups(
    known: dict[TopicIdPartition, list[SoundPiece]],
) -> Iterator[dict[TopicIdPartition, list[SoundPiece]]]:
    group, count = dict[TopicIdPartition, list[SoundPiece]](), 0
    for tip, pieces in known.items():
        size = sum(rows_in(range_of(one)) for one in pieces)
        if group and count + size > ROWS_AT_A_TIME:
            yield group
            group, count = {}, 0
        group[tip] = pieces
        count += size
    if group:
        yield group


def _events(rows: OrderedRows, tips: Sequence[TopicIdPartition], cluster: str) -> Events:
    """The events of these logs. Positions are not read, as a range has each of its own."""
    numbers = {tip: at for at, tip in enumerate(tips)}
    ranges = list(map(range_of, rows.pieces))
    counts = np.array(list(map(rows_in, ranges)), np.int64)
    begins = np.array([one.start.next_position for one in ranges], np.int64)
    logs = np.array([numbers[one.topic_id_partition] for one in ranges], np.int64)
    last = np.full(len(tips), -1)
    last[logs] = begins + counts - 1
    shifts = np.repeat(begins - np.cumsum(counts) + counts, counts)
    positions = np.arange(len(shifts)) + shifts
    return Events(rows.table, np.repeat(logs, counts), positions, tips, cluster, last)


def _until(events: Events, as_of: AsOf) -> Events:
    """The events up to a point of their logs."""
    if as_of.position is not None:
        kept = events.positions <= as_of.position
    elif as_of.time_ms is not None:
        kept = events.rows[TIME].to_numpy() <= as_of.time_ms
    else:
        return events
    rows, logs, positions = events.rows, events.logs[kept], events.positions[kept]
    last = np.full(len(events.tips), -1)
    last[logs] = positions
    return Events(
        rows.filter(pa.array(kept)), logs, positions, events.tips, events.cluster, last
    )


def _segments(events: Events) -> tuple[set[int], Any]:
    """Logs that are not plain, and the table `segments` of the others."""
    schema, rows = schema_of(SEGMENTS), events.rows
    odd, found = lives(events, states_of(rows["state"]))
    added, last = pa.array(found.added), pa.array(found.last)
    positions = events.positions
    is_finished = found.finished >= 0
    logs = events.logs[found.last]
    identity = zip(IDENTITY, events.identity(logs), strict=True)
    arrays = {one.name: column for one, column in identity}
    arrays |= {name: whole_column(rows[name]).take(added) for name in OF_ADDED}
    arrays |= {name: whole_column(rows[name]).take(last) for name in OF_LAST}
    arrays["finished_at_position"] = pa.array(
        np.where(is_finished, positions[found.finished] if len(positions) else 0, 0),
        mask=~is_finished,
    )
    arrays["position"] = pa.array(events.last_positions[logs])
    return odd, pa.table([arrays[one.name].cast(one.type) for one in schema], schema)


OF_ADDED = [
    *("segment_id", "start_offset", "end_offset"),
    *("leader_epochs", "size_in_bytes", "max_timestamp_ms", "txn_index_empty"),
]
"""What a segment's row has of the event that added it."""

OF_LAST = ["state", "broker_id", "event_timestamp_ms", "custom_metadata"]
"""And of its last event."""


class _Made(NamedTuple):
    """How a table is made."""

    columns: list[str]
    """What it needs of the events."""
    make: Callable[[Events], tuple[set[int], Any]]
    """Numbers of logs that the fold has to make, and the table of the others."""


MADE = {
    SEGMENTS.name: _Made([*OF_ADDED, *OF_LAST, "type", "delete_state"], _segments),
    SIZES.name: _Made(NEEDED, sizes_of),
}
"""The tables that are made of columns."""
