"""Decides which broker leads a partition: Kafka's notifications come unordered, without epochs.

Of one broker's announcements the newest holds. Between two brokers the higher leader epoch wins
if both are known. If neither is known the later claim wins. If one is known the leader oracle
is asked. Without its verdict the later claim opens a session with a dispute on record, after a
back-off that doubles with each dispute in a row. So no true leader is locked out for good, and
two brokers that contradict each other for ever take turns ever more slowly.
"""

from __future__ import annotations

from tierledger.events import log_events as log
from tierledger.events.commands import NOBODY_KNOWS, CloseSession, LeaderVerdict, OpenSession
from tierledger.events.errors import Fenced
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import Session

BACK_OFF_FIRST_MS = 1_000
"""Back-off after a first dispute: long enough for a broker to write several batches."""

BACK_OFF_MAX_MS = 300_000
"""The longest back-off: brokers refresh what they know of leaders every five minutes."""


def delay_to_ask(view: Overlay, command: OpenSession, now_ms: int) -> int | None:
    """Milliseconds until the oracle has to be asked about a claim; None if it can be decided.

    Raises:
        Fenced: The claim is out of date, whatever the oracle would say.
    """
    _refuse_outdated(view, command)
    rival = _rival(view, command)
    if rival is None or not _needs_verdict(command, rival):
        return None
    if command.verdict is None or command.asked_of not in {None, rival.number}:
        return 0
    if _verdict(command, rival) is not NOBODY_KNOWS:
        return None
    return _back_off(view, command.waited_ms, now_ms) or None


def open_session(view: Overlay, command: OpenSession) -> list[log.Body]:
    """The events that open a session for a claim which `delay_to_ask` found decidable.

    Every assignment opens its own session, even for the claim that leads already. The session's
    event takes a slot of the log, and that slot fences the host of the assignment before.

    Raises:
        Fenced: An older announcement, an assignment that is not newer, a leader epoch that is
            not above that of another broker's open session, or the oracle names another
            leader. Nothing changes.
    """
    _refuse_outdated(view, command)
    claim, session, rival = command.claim, view.session, _rival(view, command)
    epoch, disputes = command.leader_epoch, list[log.Body]()
    if rival is not None:
        epoch, disputes = _against(view, command, rival)
    opened = log.SessionOpened(
        number=1 if session is None else session.number + 1,
        broker_id=claim.broker_id,
        incarnation=claim.incarnation,
        announcement=claim.announcement,
        assignment=command.assignment,
        leader_epoch=epoch,
        topic=command.topic,
        import_cluster=command.import_cluster,
    )
    return [opened, *disputes]


def _refuse_outdated(view: Overlay, command: OpenSession) -> None:
    claim, session = command.claim, view.session
    pair = (claim.incarnation, claim.announcement)
    newest = view.last_heard(claim.broker_id)
    if pair < newest:
        raise Fenced(
            f"{view.topic_id_partition}: broker {claim.broker_id} announced {pair} "
            f"after {newest}"
        )
    if session is None:
        return
    if command.assignment <= session.assignment:
        raise Fenced(
            f"{view.topic_id_partition}: assignment {command.assignment} is not newer than "
            f"{session.assignment}, which opened session {session.number}"
        )
    if not session.is_open and session.claim == claim:
        raise Fenced(
            f"{view.topic_id_partition}: the session under {pair} was closed; announce again"
        )


def _rival(view: Overlay, command: OpenSession) -> Session | None:
    """Another broker's open session, which the claim contests; None without one.

    A broker that has announced since that it only follows is no rival. It may have died before
    its session was closed. That session would fence or dispute an import, which has neither a
    leader epoch nor a verdict of Kafka's on its side.
    """
    session = view.session
    if session is None or not session.is_open:
        return None
    if session.broker_id == command.claim.broker_id:
        return None
    for follows in command.resigned:
        if follows.broker_id == session.broker_id and follows[1:] > session.pair:
            return None
    return session


def _needs_verdict(command: OpenSession, rival: Session) -> bool:
    """Whether the leader epochs cannot be compared, because one of the two is unknown."""
    return (command.leader_epoch is None) != (rival.leader_epoch is None)


def _verdict(command: OpenSession, rival: Session) -> LeaderVerdict:
    """The oracle's verdict, unless one of the two brokers knows of a later leader epoch.

    Such a verdict is older than their dispute, and decides nothing.
    """
    verdict = command.verdict
    if verdict is None or verdict.broker_id < 0:
        return NOBODY_KNOWS
    known = [e for e in (command.leader_epoch, rival.leader_epoch) if e is not None]
    if verdict.leader_epoch is not None and verdict.leader_epoch < max(known, default=-1):
        return NOBODY_KNOWS
    return verdict


def _against(
    view: Overlay, command: OpenSession, rival: Session
) -> tuple[int | None, list[log.Body]]:
    """The leader epoch to open with, and the dispute if there is one."""
    claim, ours, theirs = command.claim, command.leader_epoch, rival.leader_epoch
    if not _needs_verdict(command, rival):
        if ours is None or theirs is None or ours > theirs:
            return ours, []  # Neither known: an ordinary change of leaders looks the same.
        raise Fenced(
            f"{view.topic_id_partition}: broker {claim.broker_id} claims leader epoch "
            f"{ours}, broker {rival.broker_id} leads in epoch {theirs}"
        )
    verdict = _verdict(command, rival)
    if verdict.broker_id == claim.broker_id:
        known = [epoch for epoch in (ours, verdict.leader_epoch) if epoch is not None]
        return max(known, default=None), []
    if verdict is not NOBODY_KNOWS:
        raise Fenced(
            f"{view.topic_id_partition}: broker {claim.broker_id} claims to lead, but "
            f"Kafka says that broker {verdict.broker_id} does"
        )
    in_a_row = _in_a_row(view) + 1
    dispute = log.SessionDisputed(claim.broker_id, ours, rival.broker_id, theirs, in_a_row)
    return ours, [dispute]


def _in_a_row(view: Overlay) -> int:
    """How many of the last sessions in a row opened with a dispute."""
    run, session = view.dispute_run, view.session
    if run is None or session is None or run.session != session.number:
        return 0
    return run.in_a_row


def _back_off(view: Overlay, waited_ms: int, now_ms: int) -> int:
    """Milliseconds for which a claim still has to wait.

    Log time may be ahead of this host's clock by hours, so the time that the claim has already
    waited counts, too.
    """
    run, in_a_row = view.dispute_run, _in_a_row(view)
    if run is None or in_a_row == 0:
        return 0
    doublings = min(in_a_row - 1, BACK_OFF_MAX_MS.bit_length())
    back_off = min(BACK_OFF_FIRST_MS << doublings, BACK_OFF_MAX_MS)
    return max(0, back_off - max(waited_ms, now_ms - run.log_time_ms))


def close_session(view: Overlay, command: CloseSession) -> list[log.Body]:
    """The event that closes the claim's open session; empty if the claim holds none."""
    session = view.session
    if session is None or not session.is_open:
        return []
    if session.claim != command.claim:
        return []  # A claim closes only its own session.
    return [log.SessionClosed(session.number, command.reason)]
