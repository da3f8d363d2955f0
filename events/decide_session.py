"""Who may lead. Kafka's notifications carry no epoch and arrive in any order; this decides.

Of one broker the newer announcement holds. Between brokers a known leader epoch decides against
a known one; where one of the two is unknown the later claim opens, with a dispute on record, so
that no true leader is locked out for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events import log_events as log
from tierledger.events.errors import Fenced

if TYPE_CHECKING:
    from tierledger.events.commands import CloseSession, OpenSession
    from tierledger.events.overlay import Overlay
    from tierledger.events.partition_state import Session


def open_session(view: Overlay, command: OpenSession) -> list[log.Body]:
    """The events of a claim to lead.

    Every assignment opens its own session, even under the pair that leads already: a host that
    was handed the partition may not rely on what another host opened.

    Raises:
        Fenced: An older announcement, an assignment that is not newer, or a leader epoch that
            is not above that of another broker's open session. Nothing changes.
    """
    claim, session = command.claim, view.session
    pair = (claim.incarnation, claim.announcement)
    newest = view.last_heard(claim.broker_id)
    if pair < newest:
        raise Fenced(
            f"{view.topic_id_partition}: broker {claim.broker_id} announced {pair} "
            f"after {newest}"
        )
    if session is not None and command.assignment <= session.assignment:
        raise Fenced(
            f"{view.topic_id_partition}: assignment {command.assignment} is not newer than "
            f"{session.assignment}, which opened session {session.number}"
        )
    holds = session is not None and (session.broker_id, *session.pair) == claim
    if holds and session is not None and not session.is_open:
        raise Fenced(
            f"{view.topic_id_partition}: the session under {pair} was closed; announce again"
        )
    opened = log.SessionOpened(
        number=1 if session is None else session.number + 1,
        broker_id=claim.broker_id,
        incarnation=claim.incarnation,
        announcement=claim.announcement,
        assignment=command.assignment,
        leader_epoch=command.leader_epoch,
        topic=command.topic,
        import_cluster=command.import_cluster,
    )
    if session is None or not session.is_open or session.broker_id == claim.broker_id:
        return [opened]
    return [opened, *_dispute(view, command, session)]


def _dispute(view: Overlay, command: OpenSession, session: Session) -> list[log.Body]:
    ours, theirs = command.leader_epoch, session.leader_epoch
    if ours is None and theirs is None:
        return []  # The last word wins: an ordinary change of leaders looks just so.
    if ours is not None and theirs is not None:
        if ours > theirs:
            return []
        raise Fenced(
            f"{view.topic_id_partition}: broker {command.claim.broker_id} claims leader epoch "
            f"{ours}, broker {session.broker_id} leads in epoch {theirs}"
        )
    return [log.SessionDisputed(command.claim.broker_id, ours, session.broker_id, theirs)]


def close_session(view: Overlay, command: CloseSession) -> list[log.Body]:
    """The event that ends the session which the claim holds; none if it holds none."""
    session = view.session
    if session is None or not session.is_open:
        return []
    if (session.broker_id, *session.pair) != command.claim:
        return []  # Another broker's session is not ours to close.
    return [log.SessionClosed(session.number, command.reason)]
