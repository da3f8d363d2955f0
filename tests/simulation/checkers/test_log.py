"""Checkers of the log: each finds the anomaly planted for it, and nothing in a right run."""

import re
from collections.abc import Callable

import pytest

from tests.models.simulation.planted_anomalies import (
    altered,
    names,
    relogged,
    replaced,
    rewritten,
    without_times,
)
from tests.models.simulation.recorded_run import FIRST, SECOND, RecordedRun, long_run, small_run
from tierledger.actors.messages import Query
from tierledger.events.commands import Claim
from tierledger.events.log_events import Body, Event, SessionClosed, SessionOpened
from tierledger.simulation.checkers.log import (
    altered_write,
    duplicate_write,
    early_answer,
    fencing,
    lost_write,
    phantom_write,
)
from tierledger.simulation.checkers.slow.model import Add, Update
from tierledger.simulation.history.calls import FAIL
from tierledger.simulation.history.final_log import FinalLog

ALL = (altered_write, duplicate_write, early_answer, fencing, lost_write, phantom_write)
OF_RUN, LOG = small_run().operations, small_run().log()
FIRST_WRITE, LAST_WRITE, IN_DOUBT = 0, 17, 9


@pytest.mark.parametrize("checker", ALL)
@pytest.mark.parametrize("seed", range(5))
def test_a_right_run_passes(checker: Callable[..., object], seed: int) -> None:
    run = long_run(seed, 300)

    assert checker(run.operations, run.log()) == []
    assert checker(run.operations, without_times(run.log())) == []
    assert checker(OF_RUN, LOG) == []


def test_a_log_that_lost_its_end_lacks_acknowledged_writes() -> None:
    found = lost_write(OF_RUN, relogged(LOG, LOG.events[:7]))

    assert [one.operations for one in found] == [(16,), (17,), (18,)]
    assert "the log ends at 6" in found[0].message


def test_a_write_that_stands_elsewhere_than_its_answer_says_is_found() -> None:
    found = lost_write(altered(OF_RUN, FIRST_WRITE, position=2), LOG)

    assert [one.operations for one in found] == [(FIRST_WRITE,)]


def test_a_failed_write_in_the_log_is_found() -> None:
    for number in (FIRST_WRITE, IN_DOUBT):
        failed = altered(OF_RUN, number, outcome=FAIL, position=None, error="Fenced")

        found = phantom_write(failed, LOG)

        assert [one.operations for one in found] == [(number,)]


def test_a_write_that_nobody_asked_for_is_found() -> None:
    found = phantom_write(OF_RUN, replaced(LOG, 7, request_id=b"nobody's"))

    assert len(found) == 1
    assert b"nobody's".hex() in found[0].message


def test_a_write_that_stands_twice_is_found() -> None:
    again = LOG.events[8]._replace(position=10, session=3)

    (found,) = duplicate_write(OF_RUN, relogged(LOG, [*LOG.events, again]))

    assert found.operations == (LAST_WRITE,)
    assert "at 8 and again at 10" in found.message


@pytest.mark.parametrize("position", [1, 2, 6])
def test_a_write_with_another_content_than_was_asked_for_is_found(position: int) -> None:
    found = altered_write(OF_RUN, rewritten(LOG, position, event_timestamp_ms=77))

    assert [one.checker for one in found] == ["altered_write"]


def test_oversized_metadata_of_a_deletion_may_be_dropped_but_not_changed() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.write("writer", Add(b"a" * 16, 0, 9, {0: 0}))
    large = b"x" * (2 << 20)
    run.write("writer", Update(b"a" * 16, 2, custom_metadata=large))
    log = run.log()
    assert altered_write(run.operations, log) == []

    found = altered_write(run.operations, rewritten(log, 2, dropped_bytes=5))

    assert names(found) == {"altered_write"}


def test_an_answer_from_before_its_position_was_durable_is_found() -> None:
    for number in (FIRST_WRITE, 10):
        position = OF_RUN[number].position
        assert position is not None
        durable = LOG.durable_at[position]
        assert durable is not None
        early = altered(OF_RUN, number, completed=durable - 1, invoked=durable - 1)

        assert [one.operations for one in early_answer(early, LOG)] == [(number,)]


def test_an_event_from_before_anybody_asked_for_it_is_found() -> None:
    late = altered(OF_RUN, IN_DOUBT, invoked=10_000, completed=10_001)

    assert [one.operations for one in early_answer(late, LOG)] == [(IN_DOUBT,)]
    assert early_answer(late, without_times(LOG)) == []


# Fencing: the log.


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (rewritten(LOG, 5, number=3), "expected session 2, found 3"),
        (rewritten(LOG, 5, number=1), "expected session 2, found 1"),
        (rewritten(LOG, 5, assignment=1), "assignment 1 opened a session after 1"),
        (rewritten(LOG, 9, announcement=0), r"broker 1 leads under \(1, 0\), after \(1, 1\)"),
        (replaced(LOG, 6, session=1), "position 6: an event of session 1 in 2"),
        (replaced(LOG, 4, session=2), "position 4: an event of session 2 in 1"),
    ],
)
def test_an_event_or_session_that_is_out_of_turn_is_found(log: FinalLog, what: str) -> None:
    found = fencing([], log)

    assert names(found) == {"fencing"}
    assert any(re.search(what, one.message) for one in found)


def test_an_event_while_nobody_leads_is_found() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.write("writer", Add(b"a" * 16, 0, 9, {0: 0}))
    run.close()
    log = run.log()
    assert fencing(run.operations, log) == []
    events = [log.events[0], log.events[2], log.events[1]]

    found = fencing([], relogged(log, events))

    assert ["SegmentAdded while nobody leads" in one.message for one in found] == [True]


def session(number: int, broker_id: int, epoch: int | None) -> SessionOpened:
    return SessionOpened(number, broker_id, 1, number, number, epoch, "orders", None)


@pytest.mark.parametrize(
    ("second", "closed", "violations"),
    [
        (session(2, 2, 8), False, 0),
        (session(2, 2, 7), False, 1),
        (session(2, 2, 6), False, 1),
        (session(2, 2, None), False, 0),
        (session(2, 1, 6), False, 0),
        (session(3, 2, 6), True, 1),
    ],
    ids=["higher", "equal", "lower", "unknown", "same broker", "wrong number"],
)
def test_a_session_of_an_older_leader_epoch_is_found(
    second: SessionOpened, closed: bool, violations: int
) -> None:
    bodies: list[Body] = [session(1, 1, 7)]
    if closed:
        bodies.append(SessionClosed(1, "test"))
    bodies.append(second)
    events = [
        Event(at, body.number, 0, 1, None, body)
        for at, body in enumerate(bodies)
        if isinstance(body, SessionOpened | SessionClosed)
    ]

    assert len(fencing([], relogged(LOG, events))) == violations


# Fencing: the answers.


def test_an_answer_to_a_claim_that_does_not_lead_there_is_found() -> None:
    for number in (FIRST_WRITE, 4, IN_DOUBT):  # An append, a repeat, and one in doubt.
        foreign = Claim(3, 3, 3)

        found = fencing(altered(OF_RUN, number, claim=foreign), LOG)

        assert [one.operations for one in found] == [(number,)]


def test_a_stale_leader_may_not_even_say_that_all_is_done_already() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    add = Add(b"a" * 16, 0, 9, {0: 0})
    run.write("writer", add)
    run.lead(SECOND, 2)
    repeat = run.write("writer", add, FIRST)  # Refused; a stale leader would have confirmed it.
    changed = altered(run.operations, repeat, outcome="ok", position=1, error="")

    (found,) = fencing(changed, run.log())

    assert found.operations == (repeat,)
    assert "successor's session stood at 2" in found.message


def test_a_read_from_a_leader_whose_successor_stands_in_the_log_is_found() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.lead(SECOND, 2)
    number = run.read("reader", Query("lookup", 0, 0))
    stale = altered(run.operations, number, position=0)

    assert fencing(run.operations, run.log()) == []
    assert [one.operations for one in fencing(stale, run.log())] == [(number,)]
    assert fencing(altered(stale, number, stale=True), run.log()) == []


def test_an_update_in_the_log_is_told_from_an_add() -> None:
    swapped = [*LOG.events]
    swapped[1] = swapped[1]._replace(body=swapped[2].body)

    assert names(altered_write(OF_RUN, relogged(LOG, swapped))) == {"altered_write"}
