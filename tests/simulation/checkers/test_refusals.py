"""A refusal is right if the log justified it at some moment of the call, and else a lie."""

import pytest

from tests.models.simulation.planted_anomalies import altered, without_times
from tests.models.simulation.recorded_run import (
    FIRST,
    RecordedRun,
    deleted_partition,
    long_run,
    small_run,
)
from tierledger.actors.messages import Query
from tierledger.simulation.checkers.refusals import wrong_refusal
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    Update,
)
from tierledger.simulation.history.calls import FAIL, Operation

ADD = Add(b"a" * 16, 0, 9, {0: 0})
OTHER = ADD._replace(size=9)
FINISH = Update(ADD.segment_id, COPY_FINISHED)
LARGE = FINISH._replace(custom_metadata=b"x" * 129)
DELETING = Update(ADD.segment_id, DELETE_STARTED)
DELETED = Update(ADD.segment_id, DELETE_FINISHED)

ILLEGAL, UNKNOWN = "InvalidStateTransition", "RemoteResourceNotFound"
TOO_LARGE, GONE = "CustomMetadataSizeLimitExceeded", "PartitionDeleted"


def refused(record: Record, error: str, *before: Record) -> tuple[RecordedRun, list[Operation]]:
    """A run in which `record`, after `before`, was refused, right or wrong."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    for one in before:
        run.write("writer", one)
    log_ends = len(run.batches)
    number = run.write("refused", record)
    del run.batches[log_ends:]  # It was refused: nothing is left of it.
    return run, altered(run.operations, number, outcome=FAIL, position=None, error=error)


@pytest.mark.parametrize(
    ("record", "error", "before", "is_right"),
    [
        (ADD, ILLEGAL, [], False),
        (ADD, ILLEGAL, [ADD], False),
        (OTHER, ILLEGAL, [ADD], True),
        (ADD, ILLEGAL, [ADD, FINISH], True),
        (ADD, ILLEGAL, [ADD, DELETING, DELETED], True),
        (ADD, UNKNOWN, [], False),
        (FINISH, UNKNOWN, [], True),
        (FINISH, UNKNOWN, [ADD], False),
        (FINISH, UNKNOWN, [ADD, DELETING, DELETED], True),
        (FINISH, ILLEGAL, [ADD], False),
        (FINISH, ILLEGAL, [ADD, DELETING], True),
        (FINISH, ILLEGAL, [], False),
        (DELETED, ILLEGAL, [ADD], True),
        (DELETED, ILLEGAL, [ADD, DELETING], False),
        (DELETING, UNKNOWN, [], False),
        (LARGE, TOO_LARGE, [ADD], True),
        (FINISH, TOO_LARGE, [ADD], False),
        (DELETING._replace(custom_metadata=b"x" * 129), TOO_LARGE, [ADD], False),
        (PartitionDelete(0), ILLEGAL, [], False),
        (PartitionDelete(2), ILLEGAL, [], True),
        (PartitionDelete(1), ILLEGAL, [PartitionDelete(0)], False),
        (ADD, GONE, [PartitionDelete(0), PartitionDelete(1)], False),
        (ADD, GONE, [PartitionDelete(0), PartitionDelete(1), PartitionDelete(2)], True),
        (ADD, "Fenced", [], True),
    ],
)
def test_only_the_log_justifies_a_refusal(
    record: Record, error: str, before: list[Record], is_right: bool
) -> None:
    run, operations = refused(record, error, *before)

    found = wrong_refusal(operations, run.log(), 128)

    assert (found == []) == is_right
    assert all(one.operations == (operations[-1].number,) for one in found)


def test_any_moment_of_the_call_may_justify_it_but_none_after_it() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    pending = run.begin_write("refused", FINISH)
    run.write("writer", ADD)
    during = run.now
    run.write("writer", DELETING)
    number = pending.number
    log = run.log()

    def judged(error: str, completed: int) -> int:
        changed = altered(
            run.operations, number, outcome=FAIL, completed=completed, error=error
        )
        return len(wrong_refusal(changed, log, 128))

    assert judged(UNKNOWN, run.now) == 0
    assert judged(ILLEGAL, run.now) == 0
    assert judged(ILLEGAL, during) == 1
    late = altered(run.operations, number, outcome=FAIL, invoked=during, error=UNKNOWN)
    assert len(wrong_refusal(altered(late, number, completed=run.now), log, 128)) == 1
    assert wrong_refusal(altered(late, number, completed=run.now), without_times(log)) == []


def test_a_read_is_refused_once_the_partition_is_deleted_and_not_before() -> None:
    run = deleted_partition()
    number = run.read("reader", Query("size"))
    changed = altered(run.operations, number, outcome=FAIL, position=None, error=GONE)

    assert wrong_refusal(changed, run.log()) == []
    early = altered(changed, number, invoked=0, completed=1)
    assert [one.operations for one in wrong_refusal(early, run.log())] == [(number,)]


def test_right_refusals_pass() -> None:
    refusals = 0
    for run in (small_run(), *(long_run(seed, 200) for seed in range(20))):
        refusals += sum(op.error in (ILLEGAL, UNKNOWN) for op in run.operations)

        assert wrong_refusal(run.operations, run.log(), 128) == []
        assert wrong_refusal(run.operations, without_times(run.log()), 128) == []

    assert refusals > 20
