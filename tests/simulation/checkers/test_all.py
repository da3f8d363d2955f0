"""All checkers together: their assumptions, their findings, and runs too quiet to judge."""

from pathlib import Path

import pytest

from tests.models.events.driven_partition import TIP
from tests.models.simulation.planted_anomalies import (
    all_found,
    altered,
    names,
    relogged,
    replaced,
)
from tests.models.simulation.recorded_run import KEY, deleted_partition, long_run, small_run
from tierledger.actors.calls import PartitionKey
from tierledger.simulation.checkers.all import Minimums, assumptions, check, vacuity
from tierledger.simulation.checkers.violation import VIOLATIONS_MAX, Violation
from tierledger.simulation.history.calls import (
    INFO,
    OK,
    CallHistory,
    Operation,
    history_as_lines,
    read_history,
)
from tierledger.simulation.history.final_log import FinalLog

RUN = small_run()
LOG = RUN.log()


@pytest.mark.parametrize("seed", range(20))
def test_a_right_run_has_no_violations(seed: int) -> None:
    assert all_found(long_run(seed, 200)) == []


def test_the_small_runs_have_no_violations() -> None:
    assert all_found(RUN) == []
    assert all_found(deleted_partition()) == []


def test_a_history_read_from_its_file_is_judged_alike(tmp_path: Path) -> None:
    run = long_run(1, 200)
    wrong = CallHistory(altered(run.operations, 5, position=0), run.history().notes)
    (tmp_path / "history.jsonl").write_bytes(b"".join(history_as_lines(wrong)))

    again = check(read_history(tmp_path / "history.jsonl"), {KEY: run.log()})

    assert again
    assert again == check(wrong, {KEY: run.log()})


@pytest.mark.parametrize(
    ("operations", "log", "name"),
    [
        (altered(RUN.operations, 10, position=4), LOG, "linearizability"),
        (altered(RUN.operations, 15, position=4), LOG, "session_reads"),
        (altered(RUN.operations, 0, position=3), LOG, "lost_write"),
        (altered(RUN.operations, 9, outcome="fail"), LOG, "phantom_write"),
        (
            RUN.operations,
            relogged(LOG, [*LOG.events, LOG.events[8]._replace(position=10)]),
            "duplicate_write",
        ),
        (RUN.operations, replaced(LOG, 1, body=LOG.events[3].body), "altered_write"),
        (altered(RUN.operations, 9, invoked=999, completed=999), LOG, "early_answer"),
        (RUN.operations, replaced(LOG, 6, session=1), "fencing"),
        (altered(RUN.operations, 10, value=b""), LOG, "wrong_answer"),
        (altered(RUN.operations, 4, position=3), LOG, "hollow_write"),
        (RUN.operations, replaced(LOG, 4, broker_id=7), "checkpoint_is_fold"),
        (RUN.operations, replaced(LOG, 8, log_time_ms=0), "lifecycle"),
    ],
)
def test_every_anomaly_is_found_under_its_name(
    operations: list[Operation], log: FinalLog, name: str
) -> None:
    assert name in names(all_found(RUN, operations=operations, log=log))


def test_a_thousand_violations_are_told_as_a_few() -> None:
    run = long_run(1, 200)
    wrong = [op._replace(value=b"") for op in run.operations]

    found = all_found(run, operations=wrong)

    assert len(found) == VIOLATIONS_MAX
    assert " more" in found[-1].message


# What is assumed.


def broken(operations: list[Operation], log: FinalLog = LOG) -> list[Violation]:
    found = all_found(RUN, operations=operations, log=log)
    assert names(found) == {"assumptions"}, "the other checkers were not asked"
    return found


@pytest.mark.parametrize(
    ("number", "fields", "what"),
    [
        (3, {"completed": 0}, "it ended at 0, before it began"),
        (3, {"completed": None}, "it is ok at None"),
        (3, {"position": None}, "with position None"),
        (3, {"position": -2}, "with position -2"),
        (10, {"query": None}, "nobody knows the question"),
        (3, {"outcome": "maybe"}, "'maybe'"),
        (3, {"process": "writer-4", "completed": 10_000}, "began call 16 within 3"),
        (3, {"process": "writer-4", "completed": None, "outcome": INFO}, "within 3"),
        (3, {"request": RUN.operations[0].request}, "calls 0 and 3 share request"),
    ],
)
def test_a_history_that_cannot_be_judged_is_refused(
    number: int, fields: dict[str, object], what: str
) -> None:
    found = broken(altered(RUN.operations, number, **fields))

    assert any(what in one.message for one in found), found


def test_a_log_that_cannot_be_judged_is_refused() -> None:
    gap = relogged(LOG, [*LOG.events[:4], *LOG.events[5:]])
    times = FinalLog(TIP, LOG.genesis, LOG.events, durable_at=LOG.durable_at[:-1])
    back = FinalLog(TIP, LOG.genesis, LOG.events, durable_at=LOG.durable_at[::-1])

    for log, what in ((gap, "expected position 4"), (times, "times"), (back, "predecessor")):
        (found,) = broken(RUN.operations, log)
        assert what in found.message


def test_calls_of_a_partition_without_a_log_are_refused() -> None:
    other = PartitionKey(b"x" * 16, 0)

    found = check(CallHistory(altered(RUN.operations, 0, key=other), []), {KEY: LOG})

    assert found == [Violation("assumptions", other, "no log was given")]
    assert assumptions(RUN.operations, {KEY: LOG}) == []


# What was too quiet.


def test_a_run_that_saw_little_proves_nothing() -> None:
    logs = {KEY: LOG}
    seen = Minimums(ok_writes=8, ok_reads=8, leadership_changes=2, faults=1)
    assert vacuity(RUN.history(), logs, seen) == []

    for name, value in (seen._replace(fault_notes=None))._asdict().items():  # type: ignore[arg-type]
        if value is None:
            continue
        (found,) = check(RUN.history(), logs, minimums=seen._replace(**{name: value + 1}))
        assert found.checker == "vacuous"
        assert f"expected at least {value + 1}" in found.message


def test_who_counts_faults_can_say_what_a_fault_is() -> None:
    minimums = Minimums(faults=3, fault_notes=frozenset({"claimed"}))

    assert vacuity(RUN.history(), {KEY: LOG}, minimums) == []
    assert sum(op.outcome == OK for op in RUN.operations) == 16
