"""A partition as if what it keeps had not been deleted, so that it can be read."""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.events import log_events as log
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import (
    BROKER,
    CUSTOM,
    END,
    EPOCHS,
    EVENT_TIMESTAMP,
    FINISHED_AT,
    ID,
    MAX_TIMESTAMP,
    NOT_FINISHED,
    SIZE,
    START,
    STATE,
    TXN_EMPTY,
    Row,
    id_of_row,
    unpack_row,
)


def rows_with_kept(state: PartitionState) -> dict[bytes, bytes]:
    """By id the rows of `state` and of what it keeps; data that is being deleted is gone."""
    kept = {id_of_row(one.row): one.row for _, one in state.kept.all() if one.purger is None}
    return kept | {id_of_row(row): row for row in state.rows}


def restored(state: PartitionState) -> PartitionState:
    """A state with the segments of `state` and those that it keeps, for answers alone.

    Segments finish again in the order in which they did, so the later of two that hold the same
    offset serves it. The position at which each did (`finished_at`) is another one. An imported
    history that adds an id twice leaves entries in Kafka's tables that no row tells of; these
    are not made again.
    """
    if not len(state.kept):
        return state
    made = PartitionState(state.topic_id_partition, state.chain_hash)
    rows = [unpack_row(row) for row in rows_with_kept(state).values()]
    # What never finished comes last.
    rows.sort(key=lambda row: (row[FINISHED_AT] == NOT_FINISHED, row[FINISHED_AT], row[ID]))
    for row in rows:
        for body in _life(row):
            evolve(made, log.Event(made.next_position, 0, state.log_time_ms, -1, None, body))
    return made


def _life(row: Row) -> Iterator[log.Body]:
    """The events that lead to a segment's row."""
    flat = row[EPOCHS]
    yield log.SegmentAdded(
        row[ID],
        row[START],
        row[END],
        tuple(flat[at] for at in range(len(flat)) if at % 3 < 2),  # Without the placements.
        row[SIZE],
        row[MAX_TIMESTAMP],
        row[BROKER],
        row[EVENT_TIMESTAMP],
        row[CUSTOM],
        row[TXN_EMPTY],
    )
    _, finished, deleting, _ = RemoteLogSegmentState
    for target in (finished, deleting):
        has_finished = row[FINISHED_AT] != NOT_FINISHED
        if row[STATE] >= target and (has_finished or target is deleting):
            yield log.SegmentUpdated(
                row[ID], int(target), row[BROKER], row[EVENT_TIMESTAMP], row[CUSTOM]
            )
