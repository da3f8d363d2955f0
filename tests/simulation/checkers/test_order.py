"""Checkers of order: each finds the anomaly planted for it, and nothing in a clean history."""

import pytest

from tests.models.simulation.planted_anomalies import altered, names, without_times
from tests.models.simulation.recorded_run import FIRST, RecordedRun, long_run, small_run
from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.messages import Query
from tierledger.simulation.checkers.order import linearizability, session_reads
from tierledger.simulation.checkers.slow.model import Add
from tierledger.simulation.history.calls import OK, READ, Operation

LOOKUP = Query("lookup", 0, 50)


def segment(number: int) -> Add:
    return Add(number.to_bytes(16, "big"), number, number, {0: number})


def growing_run(writes: int) -> RecordedRun:
    run = RecordedRun()
    run.lead(FIRST, 1)
    for number in range(writes):
        run.write("writer", segment(number))
        run.read("reader", LOOKUP)
    return run


@pytest.mark.parametrize("seed", range(20))
def test_a_right_run_is_in_order_for_everybody(seed: int) -> None:
    run = long_run(seed, 300)

    assert linearizability(run.operations, run.log()) == []
    assert session_reads(run.operations, run.log()) == []


def test_a_stale_read_is_found_200_positions_later() -> None:
    run = growing_run(300)
    run.read("another", LOOKUP)
    number = len(run.operations) - 1
    stale = altered(run.operations, number, position=run.leader.position - 200)

    found = linearizability(stale, without_times(run.log()))

    assert found
    assert number in found[0].operations
    assert linearizability(run.operations, without_times(run.log())) == []


def test_a_read_behind_what_was_durable_is_found_though_nobody_saw_it_answered() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    unheard = run.begin_write("writer", segment(1))
    run.carry_out(unheard)
    run.lose_reply(unheard)
    number = run.read("reader", LOOKUP)
    stale = altered(run.operations, number, position=0)

    (found,) = linearizability(stale, run.log())

    assert found.operations == (number,)
    assert "position 1 was durable" in found.message
    assert linearizability(run.operations, run.log()) == []


def test_an_answer_of_a_write_that_appended_nothing_is_a_read() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.write("writer", segment(1))
    run.write("writer", segment(2))
    number = run.write("repeater", segment(1))
    log = without_times(run.log())
    assert run.operations[number].position == 2

    assert linearizability(run.operations, log) == []
    (found,) = linearizability(altered(run.operations, number, position=1), log)

    assert number in found.operations


def test_a_lost_reply_may_mean_an_append_at_any_later_time() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    pending = run.begin_write("writer", segment(1))
    run.lose_reply(pending)
    run.read("reader", LOOKUP)
    run.carry_out(pending)
    run.read("reader", LOOKUP)

    assert linearizability(run.operations, run.log()) == []


def test_overlapping_calls_may_take_effect_in_either_order() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    first = run.begin_write("writer-1", segment(1))
    second = run.begin_write("writer-2", segment(2))
    for pending in (second, first):
        run.end(pending, run.carry_out(pending))

    assert linearizability(run.operations, run.log()) == []


@pytest.mark.parametrize("change", [{"role": FOLLOWER}, {"stale": True}], ids=str)
def test_neither_a_follower_nor_a_stale_answer_promises_to_be_current(
    change: dict[str, object],
) -> None:
    run = growing_run(3)
    late = altered(run.operations, 5, position=1)
    assert names(linearizability(late, run.log())) == {"linearizability"}

    assert linearizability(altered(late, 5, **change), run.log()) == []


# What one caller sees.


def one_caller(*calls: tuple[str, int]) -> list[Operation]:
    """The calls of "reader" at the given positions of a run."""
    run = growing_run(4)
    reads = [op for op in run.operations if op.kind == READ]
    return [
        reads[at]._replace(
            number=at, process="reader", role=role, position=position, outcome=OK
        )
        for at, (role, position) in enumerate(calls)
    ]


@pytest.mark.parametrize(
    ("calls", "violations"),
    [
        ([(FOLLOWER, 1), (FOLLOWER, 1), (FOLLOWER, 3)], 0),
        ([(FOLLOWER, 3), (FOLLOWER, 1)], 1),
        ([(LEADER, 3), (FOLLOWER, 2), (FOLLOWER, 2)], 2),
        ([(FOLLOWER, 3), (FOLLOWER, 2), (FOLLOWER, 3)], 1),
    ],
    ids=["forward", "back", "leader first", "back and forth"],
)
def test_a_caller_never_reads_behind_what_it_has_read(
    calls: list[tuple[str, int]], violations: int
) -> None:
    assert len(session_reads(one_caller(*calls), growing_run(4).log())) == violations


def test_a_caller_reads_its_own_writes() -> None:
    run = growing_run(2)
    run.follow()
    number = run.read("writer", LOOKUP, FOLLOWER)
    late = altered(run.operations, number, position=1)

    assert session_reads(run.operations, run.log()) == []
    assert [one.operations for one in session_reads(late, run.log())] == [(number, 2)]


def test_a_caller_appends_behind_what_it_has_read() -> None:
    run = growing_run(3)
    number = run.write("reader", segment(9))
    position = run.operations[number].position
    foreseen = altered(run.operations, 5, position=position)

    assert session_reads(run.operations, run.log()) == []
    (found,) = session_reads(foreseen, run.log())

    assert found.operations == (number, 5)


def test_only_a_leader_in_quarantine_may_lead_a_caller_back() -> None:
    calls = one_caller((LEADER, 3), (LEADER, 1))
    log = growing_run(4).log()

    assert len(session_reads(altered(calls, 1, stale=True, role=FOLLOWER), log)) == 1
    assert session_reads(altered(calls, 1, stale=True), log) == []


def test_the_small_run_is_in_order() -> None:
    assert linearizability(small_run().operations, small_run().log()) == []
    assert session_reads(small_run().operations, small_run().log()) == []
