"""The check of a state finds each thing that can be wrong with one."""

from collections.abc import Callable
from operator import setitem

import pytest

from tests.models.events.driven_partition import import_of, opened
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
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    Record,
    Update,
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
    row = state.rows.get(one)
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


def row_changed_unseen(state: PartitionState) -> None:
    state.settle()
    rewritten(state, STARTED, MAX_TIMESTAMP, 99)
    state.pending.clear()


def more(owner: object, name: str) -> None:
    setattr(owner, name, getattr(owner, name) + 1)


DAMAGES: dict[str, Callable[[PartitionState], object]] = {
    "unlisted": lambda it: it.epochs[0].unreferenced.delete(SUPERSEDED),
    "unserved": lambda it: it.epochs[0].referenced.delete(210),
    "forgotten": lambda it: it.epochs[0].lost.delete(LOST),
    "uncovered": lambda it: it.epochs[0].hidden.delete(interval_key(0, LOST)),
    "covered too far": lambda it: it.epochs[0].hidden.set(interval_key(0, LOST), 201),
    "covered needlessly": lambda it: it.epochs[0].hidden.set(interval_key(210, SERVED), 300),
    "stale summary": lambda it: setattr(it.epochs[0].hidden.pages[0], "summary", 7),
    "wrong size": lambda it: more(it.epochs[0], "size"),
    "lowered": lambda it: setattr(it.epochs[0], "highest", 299),
    "never highest": lambda it: setattr(it.epochs[0], "highest", None),
    "miscounted": lambda it: setitem(it.count_by_state, 0, it.count_by_state[0] + 1),
    "misweighed": lambda it: setitem(it.bytes_by_state, 1, it.bytes_by_state[1] - 1),
    "missummed": lambda it: more(it, "rows_digest"),
    "row changed unseen": row_changed_unseen,
    "row lost": lambda it: it.rows.drop(STARTED),
    "resized": lambda it: rewritten(it, SERVED, SIZE, 5),
    "moved on": lambda it: rewritten(it, STARTED, STATE, 2),
    "misplaced": lambda it: rewritten(it, STARTED, EPOCHS, [0, 301, 0, 1, 305, 1]),
    "without epochs": lambda it: rewritten(it, STARTED, EPOCHS, []),
    "unordered": lambda it: rewritten(it, STARTED, EPOCHS, [1, 305, 1, 0, 301, 1]),
    "finished tomorrow": lambda it: rewritten(it, SERVED, FINISHED_AT, it.next_position),
    "finished never": lambda it: rewritten(it, SERVED, FINISHED_AT, -1),
    "epoch missing": lambda it: it.epochs.pop(1),
    "stray forgotten": lambda it: it.strays.clear(),
    "stray nowhere": lambda it: it.strays.update({MOVED: ()}),
    "stray at home": lambda it: it.strays.update({MOVED: (2, 3)}),
    "deleted and alive": lambda it: it.tombstones.add(SERVED, 3, 0),
    "buried twice": lambda it: it.tombstones.add(GONE, 3, 0),
    "buried tomorrow": lambda it: it.tombstones.add(
        LOST[:15] + b"\xff", it.next_position, it.log_time_ms
    ),
    "tombstones missummed": lambda it: more(it.tombstones, "digest"),
    "unheard": lambda it: it.heard.update({1: (9, 9)}),
    "too many requests": lambda it: it.requests.update(
        {1: {bytes([at // 256, at % 256]): 0 for at in range(REQUESTS_MAX)}}
    ),
    "requests unordered": lambda it: it.requests.update({1: {b"a": 2, b"b": 1}}),
    "deleted but full": lambda it: setattr(it, "delete", DeleteMetadata(2, 0, 0)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(damage: str) -> None:
    state = sound()
    DAMAGES[damage](state)

    with pytest.raises(AssertionError) as caught:
        check(state)

    assert caught.value.__notes__ == [f"{state.topic_id_partition} before position 15"]


def test_the_check_changes_nothing() -> None:
    state = sound()
    pending, digest = dict(state.pending), state.rows_digest

    check(state)

    assert (state.pending, state.rows_digest) == (pending, digest)
