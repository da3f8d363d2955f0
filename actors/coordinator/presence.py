"""What follows from the reports of plugins, followers, and commands that move the metadata.

Reports come twice a second and are not stored. What has to be durable follows as a request,
on which the coordinator decides like on any other.
"""

from __future__ import annotations

from typing import Any

from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.attendance import (
    Attend,
    Attendance,
    Attended,
    Followed,
    MoveReport,
)
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover, Ownership
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.coordinator.unowned import FOREIGN, Sightings, was_silent
from tierledger.events.errors import Fenced, RejectedError


class Presence:
    """Which brokers, plugins and followers are there, as far as reports tell."""

    def __init__(self, began_ms: int) -> None:
        """`began_ms`: nothing is known of the time before, by the clock of `Moment.s`."""
        self.attendance = Attendance()
        self._sightings = Sightings(began_ms)

    def take(
        self, report: msg.Report, state: CoordinatorState, now: msg.Moment
    ) -> tuple[object, list[msg.Decidable]]:
        """The answer to `report`, and the requests that follow from it.

        Raises:
            Fenced: A newer client of the broker has registered.
        """
        match report:
            case Attend():
                return self._attended(report, state, now)
            case MoveReport():
                self.attendance.move_told(report, now.running_ms)
                return None, []
            case _:
                is_chosen = self.attendance.followed(report, now.running_ms)
                holds = self._holds(report, state, now) if is_chosen else []
                return Followed(state.ownership, is_chosen), holds

    def _attended(
        self, attend: Attend, state: CoordinatorState, now: msg.Moment
    ) -> tuple[Attended, list[msg.Decidable]]:
        broker_id, newest = attend.broker_id, state.incarnations.get(attend.broker_id, 0)
        if 0 < attend.incarnation < newest:
            raise Fenced(
                f"broker {broker_id} registered anew, as incarnation {newest}; "
                f"incarnation {attend.incarnation} is fenced"
            )
        self.attendance.attended(attend, now.running_ms, now.ms)
        self._sightings.heard(broker_id, now.running_ms)
        began_ms = now.ms - attend.ran_ms if attend.ran_ms else None
        is_excused = was_silent(state, broker_id, attend.incarnation, began_ms)
        accepted = self.attendance.accepted(state.ownership.epoch)
        answer = Attended(state.ownership, self.attendance.import_rounds, accepted)
        return answer, [msg.ReleaseDeletions(broker_id)] if is_excused else []

    def _holds(
        self, report: dict[str, Any], state: CoordinatorState, now: msg.Moment
    ) -> list[msg.Decidable]:
        """Requests to hold deletions for what the follower has seen, if that is news."""
        ahead_ms = now.ms - now.running_ms
        if report.get("alive") is not None and "seen_ms_ago" in report:
            self._sightings.seen(report["alive"], now.running_ms - report["seen_ms_ago"])
        requests = [
            msg.HoldDeletions(
                one.broker_id, one.since_ms + ahead_ms, 0, one.excused_ms + ahead_ms
            )
            for one in self._sightings.unowned()
        ]
        if foreign := report.get("foreign"):
            since_ms = report.get("foreign_since_ms") or now.ms
            requests.append(msg.HoldDeletions(FOREIGN, since_ms, foreign))
        return [request for request in requests if request.decide(state)]

    def handed_over(self, wish: Handover, ownership: Ownership) -> None:
        """Note what a move, which has begun, accepts."""
        if ownership.owner == Owner.MOVING:
            self.attendance.accept(ownership.epoch, wish.accepted)

    def refuse_unowned(self, state: CoordinatorState) -> None:
        """Return if deletions may be confirmed.

        Raises:
            RejectedError: Another manager decides, or a broker runs without the plugin.
        """
        owner = state.ownership.owner
        if owner != Owner.TIERLEDGER:
            raise RejectedError(f"{owner} owns the remote log metadata, expected tierledger")
        if found := self._sightings.unowned():
            brokers = ", ".join(str(one.broker_id) for one in found)
            raise RejectedError(
                f"brokers {brokers} run without the plugin, or it does not reach the service: "
                "stop them, or start them with the plugin, then confirm"
            )
