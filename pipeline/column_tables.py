"""Tables made from the columns of events, whole columns at a time.

Rule: a table has one definition, the fold of its log. What is made here equals it, and tests
compare the two on all recorded logs. So only logs in which each segment lives as most do are
made here; the fold makes the rows of all others, and tells of damaged ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tierledger.events import log_events as log
from tierledger.events.as_of import AsOf
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import (
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.pipeline.column_files.content import rows_in
from tierledger.pipeline.column_files.index import Note, warn
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.log_ranges import LogRange
from tierledger.pipeline.source.columns import FILE_SCHEMA
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.ordered import SoundPiece, ordered_rows, range_of
from tierledger.pipeline.source.plan import LogPieces, column_index, pieces_until
from tierledger.pipeline.tables.arrow import RecordBatch, schema_of
from tierledger.pipeline.tables.plan import TablePlan
from tierledger.pipeline.tables.segments import SEGMENTS

ROWS_AT_A_TIME = 200_000
"""About how many events are in memory."""

ROWS_PER_BATCH = 16_384

ADDED, UPDATED = log.SegmentAdded.__name__, log.SegmentUpdated.__name__

PLAIN = {
    ADDED,
    UPDATED,
    log.SessionOpened.__name__,
    log.SessionClosed.__name__,
    log.SessionDisputed.__name__,
    log.ImportRecordDropped.__name__,
    log.TombstonesDropped.__name__,
    log.PartitionDeleteUpdated.__name__,
}
"""Types of events of logs that are made here."""

LIFE = (ADDED, UPDATED)

FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
GONE = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
NOTHING = len(RemoteLogSegmentState)
"""The state of a segment that was not added yet."""

FOLLOWS = np.zeros((NOTHING + 1, NOTHING), bool)
"""By state before, and state: whether a leader lets them follow each other."""

for _source, _target in SEGMENT_TRANSITIONS:
    FOLLOWS[NOTHING if _source is None else _source, _target] = True
FOLLOWS[GONE, GONE] = False  # A leader writes no second end.

ALL_GONE = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED.name

Numbers = Any
"""An array of NumPy."""


class Events(NamedTuple):
    """Events of several logs, in the order of logs and positions."""

    rows: Any
    """An Arrow table."""
    logs: Numbers
    """For each row the number of its log."""
    last_positions: Numbers
    """For each log its last position; -1 if it has no events."""


class Lives(NamedTuple):
    """Each segment of plain logs that still is there, by rows of the events."""

    added: Numbers
    """The row of the event that added it."""
    last: Numbers
    """The row of its last event."""
    finished: Numbers
    """The row of the last event that finished its copy; -1 if none did."""


class ColumnTable:
    """Makes the rows of a plan's plain logs; `left` has the others, once it is done."""

    def __init__(self, plan: TablePlan, note: Note = warn) -> None:
        """`note` takes why column files are not used."""
        self.left: list[PlannedLog] = []
        self._plan = plan
        self._note = note
        self._make = MADE[plan.table.name]
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
        found = asyncio.run(self._pieces(by_tip))
        known = dict[TopicIdPartition, list[SoundPiece]]()
        for log_pieces in found:
            tip, ranges = log_pieces.topic_id_partition, log_pieces.pieces
            sound = [one for one in ranges if isinstance(one, LogRange) and one.end]
            # A name that a later session tells, and notices, are the fold's affair.
            if len(sound) == len(ranges) and tip.topic:
                known[tip] = [*log_pieces.in_files, *sound]
        self.left += [one for tip, one in by_tip.items() if tip not in known]
        for group in _groups(known):
            yield from self._made(group, by_tip)

    async def _pieces(self, by_tip: dict[TopicIdPartition, PlannedLog]) -> list[LogPieces]:
        async with self._plan.store.opened() as catalog:
            self._cluster = catalog.cluster_id
            index = column_index(self._options, catalog)
            ends = {tip: one.end_batch for tip, one in by_tip.items()}
            found = await pieces_until(catalog, self._options, index, ends)
            index.tell(self._note)
            return found

    def _made(
        self,
        group: dict[TopicIdPartition, list[SoundPiece]],
        by_tip: dict[TopicIdPartition, PlannedLog],
    ) -> Iterator[RecordBatch]:
        pieces = [one for some in group.values() for one in some]
        schema = pa.schema([FILE_SCHEMA.field(name) for name in NEEDED])
        rows = ordered_rows(self._options, self._cluster, schema, pieces, self._note)
        tips = [tip for tip in group if tip not in rows.damaged]
        numbers = {tip: at for at, tip in enumerate(tips)}
        logs = np.repeat(
            [numbers[range_of(one).topic_id_partition] for one in rows.pieces],
            [rows_in(range_of(one)) for one in rows.pieces],
        )
        events = _until(rows.table, logs, len(tips), self._plan.as_of)
        odd, made = self._make(events)
        self.left += [by_tip[tip] for tip in rows.damaged]
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


def _until(rows: Any, logs: Numbers, count: int, as_of: AsOf) -> Events:  # noqa: ANN401 - Arrow has no types.
    """The events up to a point."""
    kept: Numbers = None
    if as_of.position is not None:
        kept = rows["position"].to_numpy() <= as_of.position
    elif as_of.time_ms is not None:
        kept = rows["log_time_ms"].to_numpy() <= as_of.time_ms
    if kept is not None:
        rows, logs = rows.filter(pa.array(kept)).combine_chunks(), logs[kept]
    last = np.full(count, -1)
    last[logs] = rows["position"].to_numpy()
    return Events(rows, logs, last)


def _codes(column: Any) -> tuple[Numbers, Any]:  # noqa: ANN401 - As above.
    """For each value of a column the number of that value, -1 for null; and the values."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    numbers = encoded.indices.fill_null(-1).to_numpy()
    return numbers, encoded.dictionary


def _is(column: Any, value: str) -> Numbers:  # noqa: ANN401 - As above.
    return pc.equal(column, value).fill_null(False).to_numpy()


def lives(events: Events) -> tuple[set[int], Lives]:
    """The numbers of logs that are not plain, and the segments of all others."""
    rows, logs = events.rows, events.logs
    numbers, names = _codes(rows["type"])
    kinds = names.to_pylist()
    plain = np.array([name in PLAIN for name in kinds] or [True])
    odd = set[int](np.unique(logs[~plain[numbers]]).tolist())
    odd |= set(np.unique(logs[_is(rows["delete_state"], ALL_GONE)]).tolist())

    at = np.flatnonzero(np.isin(numbers, [kinds.index(one) for one in LIFE if one in kinds]))
    ids, count = _ids(rows["segment_id"], logs, at)
    states = _states(rows["state"])
    is_added = numbers == (kinds.index(ADDED) if ADDED in kinds else -2)
    odd |= set(np.unique(logs[_against_the_rules(ids, at, states, is_added)]).tolist())

    added = _last_of(ids, at[is_added[at]], count)
    last = _last_of(ids, at, count)
    finished = _last_of(ids, at[(states[at] == FINISHED)], count)
    there = last >= 0
    there[there] &= states[last[there]] != GONE
    if odd:
        there[there] &= ~np.isin(logs[last[there]], sorted(odd))
    return odd, Lives(added[there], last[there], finished[there])


def _states(column: Any) -> Numbers:  # noqa: ANN401 - As above.
    """States by their numbers; -1 for none."""
    numbers, names = _codes(column)
    known = np.array([*(RemoteLogSegmentState[one] for one in names.to_pylist()), -1])
    return known[numbers]


def _against_the_rules(
    ids: Numbers, at: Numbers, states: Numbers, is_added: Numbers
) -> Numbers:
    """The rows of `at` with events that do not follow their segment's event before."""
    in_lives = at[np.argsort(ids[at], kind="stable")]
    before = np.where(ids[in_lives[1:]] == ids[in_lives[:-1]], states[in_lives[:-1]], NOTHING)
    before = np.concatenate([[NOTHING], before])[: len(in_lives)]
    follows = FOLLOWS[before, states[in_lives]] & (is_added[in_lives] == (before == NOTHING))
    return in_lives[~follows]


def _ids(column: Any, logs: Numbers, at: Numbers) -> tuple[Numbers, int]:  # noqa: ANN401 - As above.
    """Numbers of the segments that the rows `at` are of, and how many numbers there are."""
    ids, known = _codes(column)
    of_log = np.full(len(known), -1)
    of_log[ids[at]] = logs[at]
    if np.array_equal(of_log[ids[at]], logs[at]):
        return ids, len(known)
    # An id is in two logs, as in a topic that was copied.
    names, numbers = np.unique(ids * (logs[-1] + 1) + logs, return_inverse=True)
    return numbers, len(names)


def _last_of(ids: Numbers, at: Numbers, count: int) -> Numbers:
    """For each id the last of the rows `at` that is of it; -1 for none."""
    found = np.full(count, -1)
    found[ids[at]] = at  # Of several the last one stays.
    return found


def _segments(events: Events) -> tuple[set[int], Any]:
    """Logs that are not plain, and the table `segments` of the others."""
    odd, found = lives(events)
    schema = schema_of(SEGMENTS)
    rows = events.rows
    added = rows.select(OF_ADDED).take(pa.array(found.added))
    last = rows.select(OF_LAST).take(pa.array(found.last))
    positions = rows["position"].to_numpy()
    is_finished = found.finished >= 0
    arrays = {name: added[name] for name in OF_ADDED} | {name: last[name] for name in OF_LAST}
    arrays["finished_at_position"] = pa.array(
        np.where(is_finished, positions[found.finished] if len(positions) else 0, 0),
        mask=~is_finished,
    )
    arrays["position"] = pa.array(events.last_positions[events.logs[found.last]])
    return odd, pa.table([arrays[one.name].cast(one.type) for one in schema], schema)


OF_ADDED = [
    *("cluster", "topic", "topic_id", "partition", "segment_id", "start_offset", "end_offset"),
    *("leader_epochs", "size_in_bytes", "max_timestamp_ms", "txn_index_empty"),
]
"""What a segment's row has of the event that added it."""

OF_LAST = ["state", "broker_id", "event_timestamp_ms", "custom_metadata"]
"""And of its last event."""

NEEDED = [*OF_ADDED, *OF_LAST, "position", "log_time_ms", "type", "delete_state"]

MADE: dict[str, Callable[[Events], tuple[set[int], Any]]] = {SEGMENTS.name: _segments}
"""By table: what makes it of events; numbers of logs that the fold has to make, and rows."""
