"""Answers on histories small enough to read, and on enough segments to fill pages."""

from itertools import chain

import pytest
from typing_extensions import override

from tests.models.events.compared_answers import assert_same_answers, walked
from tests.models.events.driven_partition import DrivenPartition, import_of, opened
from tierledger.events.partition import answers
from tierledger.events.partition.answers import (
    OFFSET_MAX,
    ROWS_PER_YIELD,
    WALK_STEPS,
    Snapshot,
    WalkPaused,
    list_epoch,
    lookup,
    next_segment_with_txn_index,
)
from tierledger.events.partition.invariants import check
from tierledger.events.tables.paged_map import PAGE_ENTRIES_MAX
from tierledger.events.tables.segment_rows import SegmentRows, id_of_row
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    SlowPartition,
    Update,
)

A, B, C = (bytes([one]) * 16 for one in range(1, 4))


def imported(*records: Record) -> DrivenPartition:
    partition = opened(imports=True)
    partition.accept(import_of(records))
    check(partition.state)
    return partition


def finished(one: bytes, start: int, end: int, *, empty: bool = False) -> list[Record]:
    add = Add(one, start, end, {0: start}, size=10, txn_index_empty=empty)
    return [add, Update(one, COPY_FINISHED)]


def run(count: int, *, indexed: int | None = None, gap_at: int | None = None) -> list[Record]:
    """`count` neighbours of ten offsets each; an index in one, one offset missing."""
    records: list[Record] = []
    for at in range(count):
        start = 10 * at + (at == gap_at)
        one = at.to_bytes(16, "big")
        records += finished(one, start, 10 * at + 9, empty=at != indexed)
    return records


def found(row: bytes | WalkPaused | None) -> bytes | None:
    assert not isinstance(row, WalkPaused)
    return None if row is None else id_of_row(row)


def listed(partition: DrivenPartition) -> list[bytes]:
    rows = list_epoch(Snapshot(partition.state), 0)
    return [id_of_row(row) for row in rows if row is not None]


LOST = [*finished(A, 0, 200), *finished(B, 0, 100)]
SUPERSEDED = [*finished(A, 0, 100), *finished(B, 0, 200)]
HOLDERS = [*finished(A, 0, 100), *finished(B, 0, 100), *finished(C, 0, 200)]
DELETED = [Update(A, DELETE_STARTED), Update(A, DELETE_FINISHED)]

HISTORIES: dict[str, list[Record]] = {
    "a copy that started serves nothing": finished(A, 0, 9)[:1],
    "nor does one whose deletion started": [*finished(A, 0, 9), DELETED[0]],
    "what Kafka loses is listed, counted and found": [*LOST, *finished(C, 201, 300)],
    "what Kafka loses can be deleted": [*LOST, *DELETED],
    "what Kafka loses is being deleted": [*LOST, DELETED[0]],
    "a superseded segment answers": SUPERSEDED,
    "and again when its superseder goes": [*SUPERSEDED, Update(B, DELETE_STARTED)],
    "finished again in an empty table, lost before": [
        *finished(A, 0, 150),
        *finished(B, 0, 100),
        Update(B, DELETE_STARTED),
        Update(A, COPY_FINISHED),
    ],
    "finished again in an empty table, superseded before": [
        *finished(A, 0, 150),
        *finished(B, 0, 200),
        Update(B, DELETE_STARTED),
        Update(A, COPY_FINISHED),
    ],
    "of several holders the last to finish answers": [
        *HOLDERS,
        Update(A, COPY_FINISHED),
        Update(A, DELETE_STARTED),
    ],
    "and then the one before": [*HOLDERS, Update(C, DELETE_STARTED)],
    "the highest offset stays": [*finished(A, 0, 200), *DELETED],
    "a deleted partition": [*finished(A, 0, 9), PartitionDelete(2)],
    # The epoch's own offsets run against the segments' start offsets here.
    "ids left without metadata keep Kafka's order": [
        Add(A, 50, 60, {0: 5}),
        Add(B, 0, 10, {0: 30}),
        Update(A, COPY_FINISHED),
        Update(B, COPY_FINISHED),
        Add(C, 0, 9, {0: 0}),
        Add(C, 0, 9, {1: 0}),
        Update(C, DELETE_STARTED),
        Update(C, DELETE_FINISHED),
    ],
    "a walk crosses what Kafka lost": [
        *finished(A, 0, 200, empty=True),
        *finished(B, 0, 100, empty=True),
        *finished(C, 201, 300),
    ],
    "a walk ends where it cannot advance": [
        Add(A, 0, 10, {0: 0, 1: 50}, txn_index_empty=True),
        Update(A, COPY_FINISHED),
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_question_is_answered_as_the_model_answers(name: str) -> None:
    model = SlowPartition()
    for record in HISTORIES[name]:
        model.apply(record)

    partition = imported(*HISTORIES[name])

    assert_same_answers(partition.state, model, range(-1, 3), range(-1, 310))


def test_a_long_holder_is_found_behind_many_hidden_ones() -> None:
    count = 2 * PAGE_ENTRIES_MAX + 100
    last = (count - 2).to_bytes(16, "big")
    history = [
        *finished(A, 0, 10 * count),
        *run(count)[2:],  # All but the one that begins where A does.
        *finished(B, 0, 10 * count + 5),
        Update(B, DELETE_STARTED),
        Update(last, DELETE_STARTED),
    ]

    partition = imported(*history)

    assert len(partition.state.epochs[0].hidden) == count - 1
    assert found(lookup(partition.state, 0, 10 * count - 15)) == A
    assert found(lookup(partition.state, 0, 10 * count - 5)) == (count - 1).to_bytes(16, "big")


# Walks over transaction indexes.


@pytest.mark.parametrize("count", [1, 3, WALK_STEPS - 1, 3 * PAGE_ENTRIES_MAX + 7])
def test_a_walk_without_any_index_ends_behind_the_last_segment(count: int) -> None:
    partition = imported(*run(count))

    assert walked(partition.state, 0, 0) is None
    assert walked(partition.state, 0, 5) is None


@pytest.mark.parametrize("indexed", [0, 1, 511, 512, 513, 1_023, 1_024, 1_030])
def test_a_walk_stops_at_the_first_segment_that_may_have_an_index(indexed: int) -> None:
    partition = imported(*run(2 * PAGE_ENTRIES_MAX + 7, indexed=indexed))
    one = indexed.to_bytes(16, "big")

    for offset in (0, 10 * indexed, 10 * indexed + 9):
        assert found(walked(partition.state, 0, offset)) == one
    assert walked(partition.state, 0, 10 * indexed + 10) is None


@pytest.mark.parametrize("gap_at", [1, 511, 512, 513, 1_024])
def test_a_walk_does_not_cross_a_gap(gap_at: int) -> None:
    last = 2 * PAGE_ENTRIES_MAX + 6
    partition = imported(*run(last + 1, indexed=last, gap_at=gap_at))

    assert walked(partition.state, 0, 0) is None
    assert found(walked(partition.state, 0, 10 * gap_at + 1)) == last.to_bytes(16, "big")


def test_a_long_walk_pauses_and_goes_on_where_it_was() -> None:
    # Only a page that the walk enters at its border can be skipped.
    partition = imported(*run(2 * WALK_STEPS + 10))

    paused = next_segment_with_txn_index(partition.state, 0, 3)

    assert isinstance(paused, WalkPaused)
    assert paused.offset == 10 * WALK_STEPS
    assert walked(partition.state, 0, paused.offset) is None


def test_a_page_is_looked_at_anew_when_an_index_comes_into_it() -> None:
    partition = imported(*run(PAGE_ENTRIES_MAX))
    first = walked(partition.state, 0, 0)

    partition.accept(import_of(finished(A, 1_000, 1_009), 10_000))

    assert first is None
    assert lookup(partition.state, 0, 1_005) is not None
    assert found(walked(partition.state, 0, 0)) == A


def test_a_walk_that_skips_pages_never_runs_backwards() -> None:
    # Epoch 0 of B begins behind B's own end, and at the border of a page.
    border = 10 * PAGE_ENTRIES_MAX
    odd = Add(B, 0, 10, {0: border, 1: border + 10}, txn_index_empty=True)
    partition = imported(*run(PAGE_ENTRIES_MAX), odd, Update(B, COPY_FINISHED))

    assert partition.state.epochs[0].referenced.pages[-1].first == border
    assert found(lookup(partition.state, 0, border + 5)) == B
    assert walked(partition.state, 0, 0) is None


def test_a_walk_ends_at_the_highest_offset_there_is() -> None:
    last = Add(A, 0, OFFSET_MAX, {0: 0}, txn_index_empty=True)
    partition = imported(last, *finished(B, 0, 9, empty=True), Update(A, COPY_FINISHED))
    check(partition.state)

    assert walked(partition.state, 0, 5) is None
    assert walked(partition.state, 0, OFFSET_MAX) is None


# Lists.


def test_a_long_list_yields_to_its_caller() -> None:
    count = 2 * ROWS_PER_YIELD + 10
    unreferenced = Add(A, 0, 5, {0: 0})
    partition = imported(*run(count), unreferenced)

    rows = list(list_epoch(Snapshot(partition.state), 0))

    ids = [id_of_row(row) for row in rows if row is not None]
    assert len(ids) == count + 1
    assert ids[:2] == [bytes(16), A], "referenced before unreferenced at one start offset"


class CountedRows(SegmentRows):
    """Counts the rows that are looked up."""

    looked_up = 0

    @override
    def get(self, segment_id: bytes) -> bytes | None:
        self.looked_up += 1
        return super().get(segment_id)


@pytest.mark.parametrize("kind", ["unreferenced", "lost", "referenced"])
def test_no_step_of_a_list_looks_at_more_than_a_few_pages(kind: str) -> None:
    count = 12 * PAGE_ENTRIES_MAX
    ids = [(at * 2654435761 % 2**32).to_bytes(16, "big") for at in range(count)]
    records: list[Record] = []
    for at, one in enumerate(ids[:: 2 if kind == "lost" else 1]):
        start = 10 * (count - at)  # In an order that no table keeps.
        add = Add(one, start, start + 9, {0: 10 * at if kind == "referenced" else start})
        records += [add] if kind == "unreferenced" else [add, Update(one, COPY_FINISHED)]
        if kind == "lost":  # Replaced before it was deleted: Kafka drops it from both sets.
            again = at.to_bytes(16, "little")
            records += [Add(again, start, start + 8, {0: start}), Update(again, COPY_FINISHED)]
    snapshot = Snapshot(imported(*records, Add(A, 5, 9, {0: 5})).state)
    counted = CountedRows()
    for row in snapshot.rows:
        counted.put(id_of_row(row), row)
    snapshot.rows = counted

    steps, before, listed = [], 0, 0
    for found in chain(list_epoch(snapshot, 0), [None]):
        listed += found is not None
        if found is None:
            steps.append(counted.looked_up - before)
            before = counted.looked_up

    assert listed == len(list(counted))
    assert max(steps) <= 2 * PAGE_ENTRIES_MAX + len(snapshot.epochs[0].referenced.pages)


def test_a_list_stays_as_it_was_while_the_partition_goes_on() -> None:
    partition = imported(*run(PAGE_ENTRIES_MAX))
    rows = list_epoch(Snapshot(partition.state), 0)
    first = next(rows)

    partition.accept(import_of([Update(bytes(16), DELETE_STARTED)], 10_000))
    partition.accept(import_of([Update(bytes(16), DELETE_FINISHED)], 10_001))

    assert first is not None
    assert len([first, *filter(None, rows)]) == PAGE_ENTRIES_MAX


def test_a_snapshot_of_one_epoch_holds_no_other() -> None:
    partition = imported(*finished(A, 0, 9), Add(B, 10, 19, {1: 10}))

    snapshot = Snapshot(partition.state, epoch=1)

    assert list(snapshot.epochs) == [1]
    assert snapshot.position == partition.state.next_position - 1
    assert {id_of_row(row) for row in answers.list_all(snapshot)} == {A, B}
