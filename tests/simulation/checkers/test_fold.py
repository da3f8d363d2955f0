"""Checkers of states: each finds the anomaly planted for it, and nothing in a clean history."""

from typing import Any

import pytest

from tests.models.events.driven_partition import TIP, import_of, open_session
from tests.models.simulation.planted_anomalies import altered, relogged, replaced, rewritten
from tests.models.simulation.recorded_run import (
    FIRST,
    SERDE,
    RecordedRun,
    deleted_partition,
    long_run,
    small_run,
)
from tierledger.actors.messages import Query
from tierledger.events.log_events import (
    UNTIL_RELEASED_MS,
    Body,
    SegmentAdded,
    SegmentKept,
    SegmentPurged,
    SegmentPurgeStarted,
    SegmentUpdated,
    TombstonesDropped,
)
from tierledger.events.partition.decide import (
    CUSTOM_METADATA_BYTES_CEILING,
    Accepted,
    Limits,
    decide,
)
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import KeptSegment, PartitionState
from tierledger.events.tables.segment_rows import pack_row
from tierledger.simulation.checkers.fold import Checkpoint, checkpoint_is_fold, lifecycle
from tierledger.simulation.checkers.model import hollow_write, wrong_answer
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    Add,
    PartitionDelete,
    Update,
)
from tierledger.simulation.checkers.state_digest import fields_that_differ, state_digest
from tierledger.simulation.history.calls import OK, READ, digest_of
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.storage.partition.event_log import encode_batch

OF_RUN, LOG = small_run().operations, small_run().log()
FINISHED_EVENT = 2
READS = [op.number for op in OF_RUN if op.kind == READ]
ADD = Add(b"a" * 16, 0, 9, {0: 0})


@pytest.mark.parametrize("seed", range(10))
def test_the_slow_model_s_answers_are_right_at_their_positions(seed: int) -> None:
    run = long_run(seed, 400)

    assert sum(op.kind == READ and op.outcome == OK for op in run.operations) > 100
    assert wrong_answer(run.operations, run.log()) == []
    assert hollow_write(run.operations, run.log()) == []
    checkpoints = [Checkpoint(*one) for one in run.checkpoints]
    assert checkpoint_is_fold(checkpoints, run.log()) == []
    assert lifecycle(run.log(), custom_metadata_bytes_max=128, every=50) == []


# Reads.


@pytest.mark.parametrize("number", READS)
def test_an_answer_that_the_log_does_not_give_is_found(number: int) -> None:
    wrong = altered(OF_RUN, number, value=digest_of(b"another"))

    (found,) = wrong_answer(wrong, LOG)

    assert found.operations == (number,)


@pytest.mark.parametrize("number", READS)
def test_a_right_answer_at_a_wrong_position_is_found(number: int) -> None:
    """Every question of the run is answered otherwise before its first segment finished."""
    late = altered(OF_RUN, number, position=0)

    assert [one.operations for one in wrong_answer(late, LOG)] == [(number,)]


def test_a_stale_answer_is_held_to_its_position_too() -> None:
    number = READS[0]
    stale = altered(OF_RUN, number, stale=True)

    assert wrong_answer(stale, LOG) == []
    assert len(wrong_answer(altered(stale, number, value=b""), LOG)) == 1


def test_an_answer_from_behind_the_log_s_end_is_found() -> None:
    (found,) = wrong_answer(altered(OF_RUN, READS[0], position=99), LOG)

    assert "at position 99, and the log ends at 9" in found.message


def test_an_answer_out_of_a_deleted_partition_is_found() -> None:
    run = deleted_partition()
    number = run.read("reader", Query("list"))

    (found,) = wrong_answer(run.operations, run.log())

    assert found.operations == (number,)
    assert wrong_answer(altered(run.operations, number, position=1), run.log()) != []


def test_a_question_before_the_first_event_has_no_answer() -> None:
    run = RecordedRun()
    run.read("reader", Query("lookup", 0, 0))

    assert wrong_answer(run.operations, run.log()) == []
    assert len(wrong_answer(altered(run.operations, 0, value=b"x"), run.log())) == 1


# Writes that appended nothing.


def acknowledged(record: Any, *before: Any) -> RecordedRun:  # noqa: ANN401 - Any record.
    """A run in which `record` was said to hold already, right or wrong."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    for one in before:
        run.write("writer", one)
    pending = run.begin_write("claimant", record)
    run.end(pending, Accepted((), run.leader.position))
    return run


LARGE = b"x" * (CUSTOM_METADATA_BYTES_CEILING + 1)


def deleting(custom: bytes) -> Update:
    return Update(ADD.segment_id, 2, custom_metadata=custom)


def finished(time_ms: int = 0) -> Update:
    return Update(ADD.segment_id, COPY_FINISHED, event_timestamp_ms=time_ms)


@pytest.mark.parametrize(
    ("run", "violations"),
    [
        (acknowledged(ADD, ADD), 0),
        (acknowledged(ADD), 1),
        (acknowledged(ADD._replace(size=9), ADD), 1),
        (acknowledged(ADD, ADD, finished()), 1),
        (acknowledged(finished(), ADD, finished()), 0),
        (acknowledged(finished(7), ADD, finished()), 1),
        (acknowledged(finished(), ADD), 1),
        (acknowledged(finished()), 1),
        (acknowledged(Update(ADD.segment_id, 2)), 0),
        (acknowledged(Update(ADD.segment_id, 3)), 0),
        (acknowledged(Update(ADD.segment_id, 2), ADD), 1),
        (acknowledged(deleting(b"x"), ADD, deleting(b"x")), 0),
        (acknowledged(deleting(b"y"), ADD, deleting(b"x")), 1),
        (acknowledged(deleting(LARGE), ADD, deleting(LARGE)), 0),
        (acknowledged(PartitionDelete(0), PartitionDelete(0)), 0),
        (acknowledged(PartitionDelete(1), PartitionDelete(0)), 1),
        (acknowledged(PartitionDelete(0)), 1),
        (acknowledged(PartitionDelete(2), *map(PartitionDelete, range(3))), 0),
        (acknowledged(Update(ADD.segment_id, 2), *map(PartitionDelete, range(3))), 1),
    ],
)
def test_an_acknowledged_write_that_left_nothing_is_found(
    run: RecordedRun, violations: int
) -> None:
    found = hollow_write(run.operations, run.log())

    assert [one.checker for one in found] == ["hollow_write"] * violations


def test_a_write_whose_slot_another_took_is_found_by_what_it_asked_for() -> None:
    """A put without its condition: both were told "done", one event is left."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.write("writer-1", ADD)
    pending = run.begin_write("writer-2", Add(b"b" * 16, 10, 19, {0: 10}))
    number = run.end(pending, Accepted((), 1))

    assert [one.operations for one in hollow_write(run.operations, run.log())] == [(number,)]


# Checkpoints.


def test_a_checkpoint_that_is_not_the_fold_is_found() -> None:
    position, digest = small_run().checkpoints[0]
    assert checkpoint_is_fold([Checkpoint(position, digest)], LOG) == []

    for wrong in (
        Checkpoint(position, b"\x00" * 16),
        Checkpoint(position - 1, digest),
        Checkpoint(position + 1, digest),
        Checkpoint(99, digest),
    ):
        assert len(checkpoint_is_fold([wrong], LOG)) == 1


def test_a_checkpoint_within_a_batch_is_found() -> None:
    log = import_log([ADD, finished()])
    state = PartitionState(TIP, log.genesis)
    evolve_all(state, log.events[:2], log.chain_hashes[0])

    (found,) = checkpoint_is_fold([Checkpoint(1, state.digest())], log)

    assert "where no batch ends" in found.message


# Lifecycles.


def import_log(records: list[Any]) -> FinalLog:
    """Recorded history, taken over in one batch."""
    state = PartitionState(TIP, LOG.genesis)
    batches: list[LoggedBatch] = []
    for command in (open_session(FIRST, 1, imports=True), import_of(records)):
        decision = decide(Overlay(state), command, 0, Limits())
        assert isinstance(decision, Accepted)
        encoded = encode_batch(SERDE, decision.events, state.chain_hash)
        batches.append(LoggedBatch(len(batches), encoded.value))
        evolve_all(state, decision.events, encoded.chain_hash)
    return decode_log(SERDE, "cluster", TIP, batches)


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (
            rewritten(LOG, FINISHED_EVENT, state=3),
            "from COPY_SEGMENT_STARTED to DELETE_SEGMENT_FINISHED",
        ),
        (
            rewritten(LOG, FINISHED_EVENT, custom_metadata=b"x" * 129),
            "129 bytes of custom metadata",
        ),
        (rewritten(LOG, 3, segment_id=b"\x01" * 16), "was added twice"),
        (replaced(LOG, 4, log_time_ms=0), "log time goes back"),
        (relogged(LOG, [*LOG.events[:8], LOG.events[1]._replace(position=8)]), "added twice"),
        (
            relogged(LOG, [*LOG.events[:9], LOG.events[1]._replace(position=9)]),
            "was deleted, and came back",
        ),
        (relogged(LOG, [LOG.events[0], LOG.events[2]._replace(position=1)]), "from nothing to"),
    ],
)
def test_an_event_that_the_rules_forbid_is_found(log: FinalLog, what: str) -> None:
    found = lifecycle(log, custom_metadata_bytes_max=128)

    assert {one.checker for one in found} == {"lifecycle"}
    assert any(what in one.message for one in found)


def keeping(*bodies: Body) -> FinalLog:
    """`LOG` up to the deletion of its first segment, and then these events."""
    last = LOG.events[7]
    added = [
        last._replace(position=at, request_id=bytes([at]), body=body)
        for at, body in enumerate(bodies, 8)
    ]
    return relogged(LOG, [*LOG.events[:8], *added])


FIRST_ID, THIRD_ID = b"\x01" * 16, b"\x03" * 16
FIRST_KEPT, THIRD_KEPT = (SegmentKept(one, 9, 1, 1, 1, "undo") for one in (FIRST_ID, THIRD_ID))


PURGING = SegmentPurgeStarted(FIRST_ID, 10)


def test_what_a_guarded_broker_deletes_may_be_kept() -> None:
    assert lifecycle(keeping(FIRST_KEPT)) == []
    assert lifecycle(keeping(FIRST_KEPT, PURGING, SegmentPurged(FIRST_ID))) == []


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (keeping(THIRD_KEPT), "was kept, and was COPY_SEGMENT_STARTED"),
        (
            keeping(SegmentUpdated(THIRD_ID, 2, 1, 1, None), THIRD_KEPT),
            "was kept, and its copy never finished",
        ),
        (
            keeping(FIRST_KEPT, LOG.events[1].body),
            "is kept from deletion, and came back",
        ),
        (
            keeping(FIRST_KEPT, SegmentUpdated(FIRST_ID, 3, 1, 1, None)),
            "from nothing to DELETE_SEGMENT_FINISHED",
        ),
        (keeping(PURGING), "began, and it is not kept"),
        (
            keeping(FIRST_KEPT._replace(until_ms=2**60), PURGING),
            "and it is kept until 1152921504606846976",
        ),
        (keeping(FIRST_KEPT, SegmentPurged(FIRST_ID)), "was purged before that began"),
        (keeping(FIRST_KEPT, PURGING, LOG.events[1].body), "kept from deletion, and came back"),
    ],
)
def test_what_must_not_be_kept_and_what_must_stay_so_is_found(log: FinalLog, what: str) -> None:
    found = lifecycle(log)

    assert any(what in one.message for one in found), found


def test_the_limit_is_the_leader_s_and_equal_is_allowed() -> None:
    log = rewritten(LOG, FINISHED_EVENT, custom_metadata=b"x" * 129)

    assert lifecycle(log, custom_metadata_bytes_max=129) == []
    assert lifecycle(log) == []


def test_recorded_history_is_held_to_no_rule() -> None:
    deleting = [Update(ADD.segment_id, state) for state in (2, 3)]
    large = Update(ADD.segment_id, COPY_FINISHED, custom_metadata=b"x" * 999)
    log = import_log([ADD, ADD, large, *deleting, ADD, PartitionDelete(2), ADD])

    assert sum(isinstance(event.body, SegmentAdded) for event in log.events) == 3
    assert lifecycle(log, custom_metadata_bytes_max=128, every=1) == []


def test_a_deleted_id_may_come_back_once_it_is_forgotten() -> None:
    forgotten = LOG.events[9]._replace(body=TombstonesDropped(9, 1), session=2)
    time_ms = forgotten.log_time_ms
    again = LOG.events[1]._replace(position=10, log_time_ms=time_ms, request_id=b"again")
    early = forgotten._replace(body=TombstonesDropped(8, 1))

    assert lifecycle(relogged(LOG, [*LOG.events[:9], forgotten, again])) == []
    found = lifecycle(relogged(LOG, [*LOG.events[:9], early, again]))
    assert any("was deleted, and came back" in one.message for one in found)


def test_nothing_comes_after_a_finished_deletion() -> None:
    log = deleted_partition().log()
    last = log.events[-1]

    assert lifecycle(log) == []
    update = log.events[1]._replace(body=SegmentUpdated(ADD.segment_id, 1, 1, 1, None))
    for event in (*log.events[:3], update):
        late = event._replace(position=5, log_time_ms=last.log_time_ms, request_id=b"late")
        found = lifecycle(relogged(log, [*log.events, late]))
        assert any(one.message.startswith("position 5: ") for one in found)


def test_a_log_that_does_not_fold_is_found() -> None:
    log = rewritten(LOG, FINISHED_EVENT, segment_id=b"?" * 16)

    assert any("does not fold" in one.message for one in lifecycle(log))


def test_a_state_that_no_log_leads_to_is_found() -> None:
    """No event is unlawful here; what the state remembers of requests goes out of order."""
    again = replaced(LOG, 8, request_id=LOG.events[6].request_id)

    found = lifecycle(again, every=1)

    assert {one.checker for one in found} == {"lifecycle"}
    assert found[0].message.startswith("behind position 8 the state contradicts itself: ")
    assert "request" in found[0].message


def test_a_digest_covers_the_indexes_of_what_is_kept() -> None:
    fields = [b"a" * 16, COPY_FINISHED, 0, 9, [0, 0, 0], 100, 5, 1, 5, None, False, 4]
    state = PartitionState(TIP, b"")
    state.kept.add(b"a" * 16, 7, KeptSegment(pack_row(fields), UNTIL_RELEASED_MS, 0, "", 7))
    before = state_digest(state)

    state.kept.unreleased.drop(7, 7)

    assert fields_that_differ(before, state_digest(state)) == ["kept segments"]
