"""Who may lead: of one broker the newer announcement, of two the higher leader epoch."""

import pytest

from tests.models.events.driven_partition import (
    CLAIM,
    DrivenPartition,
    command_of,
    open_session,
    opened,
)
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import Fenced
from tierledger.events.log_events import SessionClosed, SessionOpened
from tierledger.events.partition.state import Session
from tierledger.simulation.checkers.slow.model import Add

OTHER = cmd.Claim(2, 1, 1)


def led(claim: cmd.Claim, assignment: int, epoch: int | None) -> DrivenPartition:
    partition = DrivenPartition()
    partition.accept(open_session(claim, assignment, epoch))
    return partition


def kinds(events: tuple[log.Event, ...]) -> list[type[object]]:
    return [type(event.body) for event in events]


def session_of(partition: DrivenPartition) -> Session:
    assert partition.state.session is not None
    return partition.state.session


def test_the_first_claim_opens_the_first_session() -> None:
    partition = DrivenPartition()

    (event,) = partition.accept(open_session(CLAIM, 1, 4)).events

    assert event.body == SessionOpened(1, 1, 1, 1, 1, 4, "orders", None)
    assert event.session == 1, "an opening belongs to the session that it opens"
    assert session_of(partition).is_open


@pytest.mark.parametrize(
    "claim",
    [
        cmd.Claim(1, 5, 4),
        cmd.Claim(1, 4, 9),
        cmd.Claim(1, 1, 1),
    ],
    ids=["announcement", "incarnation", "both"],
)
def test_an_older_announcement_of_a_broker_is_refused(claim: cmd.Claim) -> None:
    partition = led(cmd.Claim(1, 5, 5), 1, None)

    assert isinstance(partition.refuse(open_session(claim, 2, 99)), Fenced)


def test_an_older_announcement_is_refused_even_after_another_broker_led() -> None:
    partition = led(cmd.Claim(1, 1, 5), 1, None)
    partition.accept(open_session(OTHER, 2))
    partition.accept(cmd.CloseSession(OTHER, "shutdown"))

    assert isinstance(partition.refuse(open_session(cmd.Claim(1, 1, 4), 3)), Fenced)


def test_a_newer_announcement_or_incarnation_of_the_broker_opens() -> None:
    partition = opened()

    partition.accept(open_session(cmd.Claim(1, 1, 2), 2))
    partition.accept(open_session(cmd.Claim(1, 2, 0), 3))

    assert (session_of(partition).number, session_of(partition).pair) == (3, (2, 0))


@pytest.mark.parametrize("assignment", [1, 2])
def test_an_assignment_that_is_not_newer_is_refused(assignment: int) -> None:
    partition = led(CLAIM, 2, None)

    for claim in (cmd.Claim(1, 1, 2), OTHER):
        assert isinstance(partition.refuse(open_session(claim, assignment, 9)), Fenced)


def test_a_leader_that_moves_between_hosts_keeps_its_pair_and_gets_a_new_session() -> None:
    partition = opened()

    partition.accept(open_session(CLAIM, 2))

    session = session_of(partition)
    assert (session.number, session.pair, session.assignment) == (2, (1, 1), 2)
    partition.accept(command_of(Add(b"\x01" * 16, 0, 9, {0: 0})))


def test_what_was_closed_is_not_opened_again_under_its_announcement() -> None:
    partition = opened()
    partition.accept(cmd.CloseSession(CLAIM, "shutdown"))

    assert isinstance(partition.refuse(open_session(CLAIM, 2)), Fenced)
    partition.accept(open_session(CLAIM._replace(announcement=2), 2))


@pytest.mark.parametrize(
    ("theirs", "ours", "outcome"),
    [
        (4, 5, [SessionOpened]),
        (5, 5, None),
        (6, 5, None),
        (None, None, [SessionOpened]),
    ],
)
def test_between_two_brokers_the_leader_epoch_decides_where_it_can(
    theirs: int | None, ours: int | None, outcome: list[type[object]] | None
) -> None:
    partition = led(CLAIM, 1, theirs)
    claim = open_session(OTHER, 2, ours)

    if outcome is None:
        assert isinstance(partition.refuse(claim), Fenced)
    else:
        assert kinds(partition.accept(claim).events) == outcome
        assert session_of(partition).broker_id == OTHER.broker_id
    assert partition.state.disputes == 0


def test_a_closed_session_disputes_nothing() -> None:
    partition = led(CLAIM, 1, 7)
    partition.accept(cmd.CloseSession(CLAIM, "shutdown"))

    assert kinds(partition.accept(open_session(OTHER, 2, 3)).events) == [SessionOpened]


@pytest.mark.parametrize(
    ("follows", "opens"),
    [(CLAIM._replace(announcement=2), True), (CLAIM, False), (cmd.Claim(3, 9, 9), False)],
)
def test_an_import_takes_over_from_a_broker_that_has_resigned_since(
    follows: cmd.Claim, *, opens: bool
) -> None:
    """It may have died before its session was closed, and only follow after a restart."""
    partition = led(CLAIM, 1, 7)
    claim = open_session(OTHER, 2)._replace(
        import_cluster="kafka", verdict=cmd.LeaderVerdict(CLAIM.broker_id, 7)
    )
    claim = claim._replace(resigned=(follows,))

    if opens:
        assert kinds(partition.accept(claim).events) == [SessionOpened]
    else:
        assert isinstance(partition.refuse(claim), Fenced)


def test_whoever_was_replaced_is_fenced() -> None:
    partition = opened()
    partition.accept(open_session(OTHER, 2))

    error = partition.refuse(command_of(Add(b"\x01" * 16, 0, 9, {0: 0})))

    assert isinstance(error, Fenced)
    assert "session 2" in str(error)


def test_a_broker_closes_its_own_session() -> None:
    partition = opened()

    (event,) = partition.accept(cmd.CloseSession(CLAIM, "shutdown")).events

    assert event.body == SessionClosed(1, "shutdown")
    assert not session_of(partition).is_open


@pytest.mark.parametrize(
    "claim", [OTHER, cmd.Claim(1, 1, 2), cmd.Claim(1, 2, 1), cmd.Claim(1, 0, 0)]
)
def test_no_claim_closes_a_session_that_it_does_not_hold(claim: cmd.Claim) -> None:
    partition = opened()

    assert partition.accept(cmd.CloseSession(claim, "shutdown")).events == ()
    assert session_of(partition).is_open


def test_closing_twice_or_what_was_never_open_holds_already() -> None:
    closed = opened()
    closed.accept(cmd.CloseSession(CLAIM, "shutdown"))

    for partition in (closed, DrivenPartition()):
        assert partition.accept(cmd.CloseSession(CLAIM, "shutdown")).events == ()
