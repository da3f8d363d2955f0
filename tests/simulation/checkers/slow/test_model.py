"""The slow model answers as Kafka did, or better; and it holds on histories made up here."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, find, given, settings

from tests.models.events.histories import EPOCHS_PROBED, OFFSETS_PROBED, Step, histories
from tests.models.events.recorded_answers import answer_all
from tierledger.conformance.answers import read_answers, read_questions
from tierledger.conformance.trace import answers_path, read_records
from tierledger.conformance.verdicts import Verdict, check
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    SlowPartition,
    Update,
)

TRACES = Path(__file__).parents[3] / "traces"
A, B, C, D = (bytes([one]) * 16 for one in range(1, 5))


FINDING = settings(max_examples=500, phases=[Phase.generate], derandomize=True, database=None)
"""The same histories each time; shrinking them is slow, and nobody reads the result."""


def folded(*records: Record) -> SlowPartition:
    model = SlowPartition()
    for record in records:
        model.apply(record)
    return model


def finished(
    one: bytes, start: int, end: int, *, txn_index_empty: bool = False
) -> list[Record]:
    add = Add(one, start, end, {0: start}, size=1, txn_index_empty=txn_index_empty)
    return [add, Update(one, COPY_FINISHED)]


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(
            path.parent, marks=[pytest.mark.long] if path.parent == TRACES / "large" else []
        )
        for path in sorted(TRACES.rglob("records.jsonl.gz"))
    ],
    ids=lambda path: str(path.relative_to(TRACES)),
)
def test_every_recorded_answer_is_given_or_recovered(trace: Path) -> None:
    records, questions = list(read_records(trace)), answers_path(trace)

    ours = list(answer_all(records, read_questions(questions)))

    report = check(records, read_answers(questions), ours)
    assert report.findings == ()
    assert report.passed


def test_kafka_itself_misses_offsets_that_finished_segments_hold() -> None:
    trace = TRACES / "three-brokers-churn"
    kafka = list(read_answers(answers_path(trace)))

    report = check(read_records(trace), kafka, kafka)

    assert report.counts[Verdict.MISSED] == 87
    assert report.counts[Verdict.WRONG] == 0


@pytest.mark.parametrize(
    ("old", "new", "served", "unreferenced", "highest"),
    [
        ((0, 100), (0, 100), {0: B}, {A}, 100),
        ((0, 100), (0, 200), {0: B}, {A}, 200),
        ((10, 90), (5, 100), {5: B}, {A}, 100),
        ((0, 100), (50, 150), {0: A, 50: B}, set(), 150),
        ((10, 90), (5, 80), {5: B, 10: A}, set(), 90),
        ((0, 200), (50, 100), {0: A, 50: B}, set(), 200),
        ((0, 200), (0, 100), {0: B}, set(), 200),
    ],
)
def test_a_newcomer_supersedes_as_in_kafka(
    old: tuple[int, int],
    new: tuple[int, int],
    served: dict[int, bytes],
    unreferenced: set[bytes],
    highest: int,
) -> None:
    tables = folded(*finished(A, *old), *finished(B, *new)).epochs[0]

    assert tables.offset_to_id == served
    assert tables.unreferenced == unreferenced
    assert tables.highest == highest


def test_offsets_are_found_by_the_epoch_that_wrote_them() -> None:
    segments = {
        A: (0, 100, {0: 0, 1: 20, 2: 80}),
        B: (101, 200, {2: 101}),
        C: (201, 300, {2: 201, 3: 240}),
        D: (250, 400, {3: 250, 4: 370}),
    }
    model = folded(
        *(Add(one, *span) for one, span in segments.items()),
        *(Update(one, COPY_FINISHED) for one in segments),
    )

    found = {(1, 40): A, (2, 110): B, (3, 240): C, (3, 250): D, (4, 375): D, (3, 245): C}
    none = [(1, 110), (4, 401), (5, 301), (2, 50), (1, 120)]

    assert {place: model.lookup(*place) for place in found} == found
    assert [model.lookup(*place) for place in none] == [None] * len(none)
    assert [model.highest(epoch) for epoch in range(6)] == [19, 79, 239, 369, 400, None]


def test_a_lost_segment_is_listed_and_found_again() -> None:
    model = folded(*finished(A, 0, 200), *finished(B, 0, 100), *finished(C, 201, 300))

    assert model.kafka_lookup(0, 150) is None
    assert model.lookup(0, 150) == A
    assert model.kafka_list(0) == [B, C]
    assert model.list_epoch(0) == [B, A, C]
    assert model.size(0) == 3


def test_a_superseded_segment_answers_again_when_its_superseder_goes() -> None:
    model = folded(*finished(A, 0, 100), *finished(B, 0, 200), Update(B, DELETE_STARTED))

    assert model.kafka_lookup(0, 50) is None
    assert model.lookup(0, 50) == A
    assert model.lookup(0, 150) is None


def test_of_several_holders_the_one_that_finished_last_answers() -> None:
    model = folded(
        *finished(A, 0, 100),
        *finished(B, 0, 100),
        *finished(C, 0, 200),
        Update(C, DELETE_STARTED),
    )

    assert model.lookup(0, 50) == B


def test_a_finish_repeated_after_superseding_pushes_the_superseder_out() -> None:
    model = folded(*finished(A, 0, 100), *finished(B, 0, 200), Update(A, COPY_FINISHED))

    assert model.kafka_list(0) == [A]
    assert model.list_epoch(0) == [A, B]
    assert model.lookup(0, 150) == B


def test_an_id_that_its_old_epoch_keeps_is_skipped_once_its_metadata_is_gone() -> None:
    again = [Add(A, 0, 9, {0: 0}), Add(A, 0, 9, {1: 0})]

    model = folded(*again)
    gone = folded(*again, Update(A, DELETE_STARTED), Update(A, DELETE_FINISHED))

    assert model.list_epoch(0) == model.list_epoch(1) == [A]
    assert gone.list_epoch(0) == gone.list_epoch(1) == []


def test_a_walk_over_transaction_indexes_crosses_what_kafka_lost() -> None:
    model = folded(
        *finished(A, 0, 200, txn_index_empty=True),
        *finished(B, 0, 100, txn_index_empty=True),
        *finished(C, 201, 300),
    )

    assert model.next_txn(0, 50) == C
    assert model.next_txn(0, 301) is None


def test_a_walk_that_cannot_advance_ends() -> None:
    odd = Add(A, 0, 10, {0: 0, 1: 50}, txn_index_empty=True)

    model = folded(odd, Update(A, COPY_FINISHED))

    assert model.lookup(0, 30) == A
    assert model.next_txn(0, 30) is None


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (Add(A, 0, 9, {0: 0}), "dropped"),
        (Add(B, 0, 9, {0: 0}), "applied"),
        (Add(B, 0, 9, {0: 0}, state=COPY_FINISHED), "dropped"),
        (Update(A, COPY_STARTED), "dropped"),
        (Update(A, COPY_FINISHED), "applied"),
        (Update(A, DELETE_FINISHED), "dropped"),
        (Update(B, DELETE_STARTED), "dropped"),
        (PartitionDelete(1), "applied"),
        (PartitionDelete(2), "applied"),
    ],
)
def test_what_kafka_ignores_is_dropped(record: Record, outcome: str) -> None:
    model = folded(*finished(A, 0, 9))

    assert model.apply(record) == outcome


def test_a_segment_may_come_back_after_its_deletion_and_a_partition_may_not() -> None:
    model = folded(*finished(A, 0, 9), Update(A, DELETE_STARTED), Update(A, DELETE_FINISHED))

    assert [model.apply(record) for record in finished(A, 0, 4)] == ["applied"] * 2
    assert model.lookup(0, 3) == A
    assert model.apply(PartitionDelete(2)) == "applied"
    assert model.apply(Add(B, 0, 9, {0: 0})) == "dropped"
    assert (model.list_all(), model.highest(0)) == ([], None)


@given(histories())
def test_no_offset_that_a_finished_segment_holds_is_answered_with_none(history: Step) -> None:
    model = folded(*history)

    for epoch in EPOCHS_PROBED:
        listed = model.list_epoch(epoch)
        of_epoch = {
            one.added.segment_id for one in model.list_all() if epoch in one.added.epochs
        }
        assert of_epoch <= set(listed)
        assert len(set(listed)) == len(listed)
        for offset in OFFSETS_PROBED:
            holders = [
                one.added.segment_id for one in model.list_all() if one.holds(epoch, offset)
            ]
            answer = model.lookup(epoch, offset)
            assert answer in holders if holders else answer is None


@given(histories())
def test_the_highest_offset_of_an_epoch_never_goes_back(history: Step) -> None:
    model = SlowPartition()
    before: dict[int, int | None] = {}

    for record in history:
        model.apply(record)
        after = {epoch: model.highest(epoch) for epoch in EPOCHS_PROBED}
        if not model.deleted:
            assert all(_at_least(after[one], before.get(one)) for one in after)
        before = after


def _at_least(after: int | None, before: int | None) -> bool:
    return before is None or (after is not None and after >= before)


def loses_a_segment(history: Step) -> bool:
    model = folded(*history)
    return any(
        set(model.list_epoch(epoch)) != set(model.kafka_list(epoch)) for epoch in EPOCHS_PROBED
    )


def finds_what_kafka_does_not(history: Step) -> bool:
    model = folded(*history)
    return any(
        model.lookup(epoch, offset) != model.kafka_lookup(epoch, offset)
        for epoch in EPOCHS_PROBED
        for offset in OFFSETS_PROBED
    )


def leaves_an_id_without_metadata(history: Step) -> bool:
    model = folded(*history)
    return any(
        not tables.unreferenced <= model.segments.keys() for tables in model.epochs.values()
    )


def brings_a_segment_back(history: Step) -> bool:
    model, gone = SlowPartition(), set()
    for record in history:
        outcome = model.apply(record)
        if isinstance(record, Update) and outcome == "applied":
            gone |= {record.segment_id} if record.state == DELETE_FINISHED else set()
    return any(one in model.segments for one in gone)


def drops_records(history: Step) -> bool:
    model = SlowPartition()
    return any(model.apply(record) == "dropped" for record in history)


def deletes_the_partition(history: Step) -> bool:
    return folded(*history).deleted


@pytest.mark.parametrize(
    "happens",
    [
        loses_a_segment,
        finds_what_kafka_does_not,
        leaves_an_id_without_metadata,
        brings_a_segment_back,
        drops_records,
        deletes_the_partition,
    ],
)
def test_histories_reach_what_they_are_for(happens: Callable[[Step], bool]) -> None:
    found = find(histories(), happens, settings=FINDING)

    assert happens(found)
