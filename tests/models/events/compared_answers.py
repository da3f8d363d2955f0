"""Compares all answers of a partition's core with those of the slow model."""

from tierledger.events.partition import answers
from tierledger.events.partition.answers import Snapshot, WalkPaused
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import (
    BROKER,
    CUSTOM,
    END,
    EPOCHS,
    EVENT_TIMESTAMP,
    MAX_TIMESTAMP,
    SIZE,
    START,
    STATE,
    TXN_EMPTY,
    id_of_row,
    unpack_row,
)
from tierledger.simulation.checkers.slow.model import Segment, SlowPartition

WALK_PAUSES_MAX = 100


def assert_same_answers(
    state: PartitionState | Snapshot, model: SlowPartition, epochs: range, offsets: range
) -> None:
    """Assert that core and model answer each question at `epochs` and `offsets` alike."""
    snapshot = state if isinstance(state, Snapshot) else Snapshot(state)
    rows = {id_of_row(row): row for row in answers.list_all(snapshot)}
    assert {one: _described(row) for one, row in rows.items()} == {
        one.added.segment_id: _expected(one) for one in model.list_all()
    }
    for epoch in epochs:
        listed = [row for row in answers.list_epoch(snapshot, epoch) if row is not None]
        assert [id_of_row(row) for row in listed] == model.list_epoch(epoch), epoch
        assert answers.remote_log_size(state, epoch) == model.size(epoch), epoch
        assert answers.highest_offset_for_epoch(state, epoch) == model.highest(epoch), epoch
        for offset in offsets:
            found = answers.lookup(state, epoch, offset)
            assert _id(found) == model.lookup(epoch, offset), (epoch, offset)
            indexed = walked(state, epoch, offset)
            assert _id(indexed) == model.next_txn(epoch, offset), (epoch, offset)


def walked(state: PartitionState | Snapshot, epoch: int, offset: int) -> bytes | None:
    """The result of a walk over transaction indexes, continued after each pause."""
    for _ in range(WALK_PAUSES_MAX):
        found = answers.next_segment_with_txn_index(state, epoch, offset)
        if not isinstance(found, WalkPaused):
            return found
        offset = found.offset
    raise AssertionError(f"epoch {epoch}: the walk goes on at {offset} for ever")


def _id(row: bytes | None) -> bytes | None:
    return None if row is None else id_of_row(row)


def _described(row: bytes) -> list[object]:
    fields = unpack_row(row)
    epochs = dict(zip(fields[EPOCHS][::3], fields[EPOCHS][1::3], strict=True))
    shown = (STATE, START, END, SIZE, MAX_TIMESTAMP, BROKER, EVENT_TIMESTAMP, CUSTOM, TXN_EMPTY)
    return [epochs, *(fields[one] for one in shown)]


def _expected(one: Segment) -> list[object]:
    added = one.added
    return [
        dict(added.epochs),
        one.state,
        added.start_offset,
        added.end_offset,
        added.size,
        added.max_timestamp_ms,
        one.broker_id,
        one.event_timestamp_ms,
        one.custom_metadata,
        added.txn_index_empty,
    ]
