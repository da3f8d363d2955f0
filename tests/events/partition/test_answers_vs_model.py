"""The core answers as the slow model does, whatever history was imported."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from tests.models.events.compared_answers import assert_same_answers
from tests.models.events.driven_partition import import_of, opened
from tests.models.events.histories import EPOCHS_PROBED, OFFSETS_PROBED, Step, histories
from tierledger.events.partition.answers import Snapshot
from tierledger.events.partition.invariants import check
from tierledger.simulation.checkers.slow.model import SlowPartition


@given(histories(), st.integers(1, 20))
def test_imported_history_is_answered_as_the_model_answers(history: Step, batch: int) -> None:
    partition, model = opened(imports=True), SlowPartition()
    dropped = late = 0

    for at in range(0, len(history), batch):
        part = history[at : at + batch]
        partition.accept(import_of(part, at))
        for record in part:
            late += model.deleted
            dropped += model.apply(record) == "dropped"
        check(partition.state)

    assert sum(partition.state.dropped.values()) == dropped - late
    assert_same_answers(partition.state, model, EPOCHS_PROBED, OFFSETS_PROBED)


@given(histories(), st.integers(0, 60))
def test_a_snapshot_answers_as_of_its_position_for_ever(history: Step, cut: int) -> None:
    partition, model = opened(imports=True), SlowPartition()
    for at, record in enumerate(history[:cut]):
        partition.accept(import_of([record], at))
        model.apply(record)
    snapshot, then = Snapshot(partition.state), deepcopy(model)

    partition.accept(import_of(history[cut:], cut))

    assert_same_answers(snapshot, then, EPOCHS_PROBED, OFFSETS_PROBED)
    for record in history[cut:]:
        model.apply(record)
    assert_same_answers(partition.state, model, EPOCHS_PROBED, OFFSETS_PROBED)
    check(partition.state)


@given(histories(), st.integers(1, 60))
def test_an_import_that_starts_over_appends_only_what_is_new(history: Step, cut: int) -> None:
    once, resumed = opened(imports=True), opened(imports=True)
    once.accept(import_of(history))

    resumed.accept(import_of(history[:cut]))
    resumed.accept(import_of(history))
    again = resumed.accept(import_of(history))

    assert again.events == ()
    assert resumed.stored == once.stored
