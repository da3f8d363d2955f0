"""Once nothing fails any more the elected leader writes, calls end."""

import pytest

from tests.models.simulation.planted_anomalies import altered
from tests.models.simulation.recorded_run import FIRST, SECOND, RecordedRun
from tierledger.simulation.checkers.healing import liveness, lockout
from tierledger.simulation.checkers.slow.model import Add
from tierledger.simulation.history.calls import FAIL, INFO
from tierledger.simulation.history.observations import Healed


def add(number: int) -> Add:
    return Add(bytes([number]) * 16, number, number, {0: number})


def healed_run() -> tuple[RecordedRun, Healed]:
    """Broker 2 follows broker 1, writes twice while it heals, and once when all is well."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.write("writer-1", add(1))
    run.lead(SECOND, 2)
    since = run.now + 1
    run.write("writer-2", add(2))
    run.write("writer-2", add(3))
    until = run.now
    run.write("writer-2", add(4))
    return run, Healed(since, until, broker_id=2)


RUN, WELL = healed_run()
OF_RUN, LOG = RUN.operations, RUN.log()


def test_a_leader_that_writes_again_in_time_is_not_locked_out() -> None:
    assert lockout(OF_RUN, LOG, WELL) == []
    once = altered(OF_RUN, 1, outcome=FAIL, error="Fenced", position=None)
    assert lockout(once, LOG, WELL) == [], "one of its two writes is enough"


@pytest.mark.parametrize("outcome", [FAIL, INFO])
def test_a_leader_none_of_whose_writes_succeeds_is_locked_out(outcome: str) -> None:
    refused = OF_RUN
    for number in (1, 2):
        refused = altered(refused, number, outcome=outcome, error="NotReady", position=None)

    (found,) = lockout(refused, LOG, WELL)

    assert "succeeded: 2 NotReady" in found.message


def test_a_write_that_succeeds_too_late_or_began_too_early_does_not_count() -> None:
    for times in (Healed(WELL.until + 1, WELL.until + 2, 2), WELL._replace(until=WELL.since)):
        (found,) = lockout(OF_RUN, LOG, times)
        assert "succeeded: there was none" in found.message


def test_another_broker_s_session_in_the_end_locks_the_leader_out() -> None:
    told = [one.message for one in lockout(OF_RUN, LOG, WELL._replace(broker_id=1))]

    assert any(
        "broker 1 leads, and the last session is that of broker 2, opened at position 2" in one
        for one in told
    )


def test_a_leader_refused_as_somebody_else_when_all_is_well_is_locked_out() -> None:
    refused = altered(OF_RUN, 3, outcome=FAIL, error="Fenced", position=None)
    (found,) = lockout(refused, LOG, WELL)

    assert "call 3 of the leader, broker 2, was refused with Fenced" in found.message
    former = SECOND._replace(incarnation=0)
    assert lockout(altered(refused, 3, claim=former), LOG, WELL) == [], "of a former life"


def test_a_call_that_begins_when_all_is_well_ends() -> None:
    def in_doubt(number: int, completed: int | None) -> int:
        told = altered(OF_RUN, number, outcome=INFO, completed=completed, position=None)
        return len(liveness(told, LOG, WELL))

    assert liveness(OF_RUN, LOG, WELL) == []
    assert in_doubt(3, RUN.now) == 1
    assert in_doubt(3, None) == 0, "the run ended before it did"
    assert in_doubt(2, RUN.now) == 0, "it began before"
