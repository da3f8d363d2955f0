"""The check of a state finds each thing that can be wrong with one."""

from collections.abc import Callable

import pytest

from tests.models.driven_partition import import_of, opened
from tests.models.slow_model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    Record,
    Update,
)
from tierledger.events.partition.invariants import check
from tierledger.events.partition.state import REQUESTS_MAX, DeleteMetadata, PartitionState
from tierledger.events.tables.epoch_tables import interval_key
from tierledger.events.tables.segment_rows import (
    EPOCHS,
    FINISHED_AT,
    MAX_TIMESTAMP,
    SIZE,
    STATE,
    pack_row,
    unpack_row,
)

LOST, SERVED, SUPERSEDED, STARTED, GONE, MOVED = (bytes([one]) * 16 for one in range(1, 7))
HISTORY: list[Record] = [
    Add(LOST, 0, 200, {0: 0}, size=1),
    Update(LOST, COPY_FINISHED),
    Add(SUPERSEDED, 210, 250, {0: 210}, size=2),
    Update(SUPERSEDED, COPY_FINISHED),
    Add(SERVED, 210, 300, {0: 210}, size=4),
    Update(SERVED, COPY_FINISHED),
    Add(STARTED, 301, 310, {0: 301, 1: 305}, size=8),
    Add(GONE, 0, 5, {1: 0}, size=16),
    Update(GONE, DELETE_STARTED),
    Update(GONE, DELETE_FINISHED),
    Add(MOVED, 0, 5, {2: 0}, size=32),
    Add(MOVED, 0, 5, {3: 0}, size=32),
]


def sound() -> PartitionState:
    """A state with something in each table: lost at epoch 0 comes from the last record."""
    partition = opened(imports=True)
    partition.accept(import_of(HISTORY[:2]))
    shorter: list[Record] = [
        Add(bytes(16), 0, 100, {0: 0}, size=64),
        Update(bytes(16), COPY_FINISHED),
    ]
    partition.accept(import_of(shorter, 100))
    partition.accept(import_of(HISTORY[2:], 200))
    check(partition.state)
    return partition.state


def rewritten(state: PartitionState, one: bytes, field: int, value: object) -> None:
    """Change a row behind the back of everything that was derived from it."""
    row = state.row(one)
    assert row is not None
    fields = unpack_row(row)
    state.pending.setdefault(one, row)
    fields[field] = value
    state.rows.put(one, pack_row(fields))


def test_the_sound_state_has_something_in_every_table() -> None:
    state = sound()

    assert all(len(table) for _, table in state.epochs[0].tables())
    assert state.strays == {MOVED: (2,)}
    assert len(state.tombstones) == 1


def unlisted(state: PartitionState) -> None:
    state.epochs[0].unreferenced.delete(SUPERSEDED)


def unserved(state: PartitionState) -> None:
    state.epochs[0].referenced.delete(210)


def forgotten(state: PartitionState) -> None:
    state.epochs[0].lost.delete(LOST)


def uncovered(state: PartitionState) -> None:
    state.epochs[0].hidden.delete(interval_key(0, LOST))


def covered_too_far(state: PartitionState) -> None:
    state.epochs[0].hidden.set(interval_key(0, LOST), 201)


def covered_needlessly(state: PartitionState) -> None:
    state.epochs[0].hidden.set(interval_key(210, SERVED), 300)


def stale_summary(state: PartitionState) -> None:
    state.epochs[0].hidden.pages[0].summary = 7


def wrong_size(state: PartitionState) -> None:
    state.epochs[0].size += 1


def lowered(state: PartitionState) -> None:
    state.epochs[0].highest = 299


def never_highest(state: PartitionState) -> None:
    state.epochs[0].highest = None


def miscounted(state: PartitionState) -> None:
    state.count_by_state[0] += 1


def misweighed(state: PartitionState) -> None:
    state.bytes_by_state[1] -= 1


def missummed(state: PartitionState) -> None:
    state.rows_digest += 1


def row_changed_unseen(state: PartitionState) -> None:
    state.settle()
    rewritten(state, STARTED, MAX_TIMESTAMP, 99)
    state.pending.clear()


def row_lost(state: PartitionState) -> None:
    state.rows.drop(STARTED)


def resized(state: PartitionState) -> None:
    rewritten(state, SERVED, SIZE, 5)


def moved_on(state: PartitionState) -> None:
    rewritten(state, STARTED, STATE, 2)


def misplaced(state: PartitionState) -> None:
    rewritten(state, STARTED, EPOCHS, [0, 301, 0, 1, 305, 1])


def without_epochs(state: PartitionState) -> None:
    rewritten(state, STARTED, EPOCHS, [])


def unordered(state: PartitionState) -> None:
    rewritten(state, STARTED, EPOCHS, [1, 305, 1, 0, 301, 1])


def finished_tomorrow(state: PartitionState) -> None:
    rewritten(state, SERVED, FINISHED_AT, state.next_position)


def finished_never(state: PartitionState) -> None:
    rewritten(state, SERVED, FINISHED_AT, -1)


def epoch_missing(state: PartitionState) -> None:
    del state.epochs[1]


def stray_forgotten(state: PartitionState) -> None:
    state.strays.clear()


def stray_nowhere(state: PartitionState) -> None:
    state.strays[MOVED] = ()


def stray_at_home(state: PartitionState) -> None:
    state.strays[MOVED] = (2, 3)


def deleted_and_alive(state: PartitionState) -> None:
    state.tombstones.add(SERVED, 3, 0)


def buried_twice(state: PartitionState) -> None:
    state.tombstones.add(GONE, 3, 0)


def buried_tomorrow(state: PartitionState) -> None:
    state.tombstones.add(LOST[:15] + b"\xff", state.next_position, state.log_time_ms)


def tombstones_missummed(state: PartitionState) -> None:
    state.tombstones.digest += 1


def unheard(state: PartitionState) -> None:
    state.heard[1] = (9, 9)


def too_many_requests(state: PartitionState) -> None:
    state.requests[1] = {bytes([at // 256, at % 256]): 0 for at in range(REQUESTS_MAX)}


def requests_unordered(state: PartitionState) -> None:
    state.requests[1] = {b"a": 2, b"b": 1}


def deleted_but_full(state: PartitionState) -> None:
    state.delete = DeleteMetadata(2, 0, 0)


@pytest.mark.parametrize(
    "damage",
    [
        unlisted,
        unserved,
        forgotten,
        uncovered,
        covered_too_far,
        covered_needlessly,
        stale_summary,
        wrong_size,
        lowered,
        never_highest,
        miscounted,
        misweighed,
        missummed,
        row_changed_unseen,
        row_lost,
        resized,
        moved_on,
        misplaced,
        without_epochs,
        unordered,
        finished_tomorrow,
        finished_never,
        epoch_missing,
        stray_forgotten,
        stray_nowhere,
        stray_at_home,
        deleted_and_alive,
        buried_twice,
        buried_tomorrow,
        tombstones_missummed,
        unheard,
        too_many_requests,
        requests_unordered,
        deleted_but_full,
    ],
)
def test_damage_is_found(damage: Callable[[PartitionState], None]) -> None:
    state = sound()
    damage(state)

    with pytest.raises(AssertionError) as caught:
        check(state)

    assert caught.value.__notes__ == [f"{state.topic_id_partition} before position 15"]


def test_the_check_changes_nothing() -> None:
    state = sound()
    pending, digest = dict(state.pending), state.rows_digest

    check(state)

    assert (state.pending, state.rows_digest) == (pending, digest)
