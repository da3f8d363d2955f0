"""Mistakes in who may lead: sessions, announcements, placements, and the leader oracle."""

from __future__ import annotations

from typing import Any

from tierledger.actors.coordinator import displaced, messages, ownership, refusals, rules
from tierledger.actors.coordinator import placement as places
from tierledger.actors.leader.claim import WaitingClaims
from tierledger.events import log_events as log
from tierledger.events.commands import Claim
from tierledger.events.partition import decide
from tierledger.events.partition import sessions as decide_session
from tierledger.events.partition.overlay import Overlay
from tierledger.simulation.mutants.rewriting import rewritten


def old_assignment_reopens() -> list[tuple[Any, str, Any]]:
    refuse: Any = vars(decide_session)["_refuse_outdated"]

    def lenient(view: Any, command: Any) -> None:  # noqa: ANN401 - As the original.
        session = view.session
        again = session is not None and command.assignment == session.assignment
        refuse(view, command._replace(assignment=command.assignment + again))

    return [(decide_session, "_refuse_outdated", lenient)]


def late_announcement_wins() -> list[tuple[Any, str, Any]]:
    refuse: Any = vars(decide_session)["_refuse_outdated"]
    announce = rules.announce

    class Deaf:
        """A view that has heard of no newer announcement."""

        def __init__(self, view: Any) -> None:  # noqa: ANN401
            self._view = view

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self._view, name)

        def last_heard(self, _broker_id: int) -> tuple[int, int]:
            return (0, 0)

    def deaf(view: Any, command: Any) -> None:  # noqa: ANN401
        refuse(Deaf(view), command)

    def forgetful(state: Any, given: Any, denied: Any) -> Any:  # noqa: ANN401
        announced, incarnations = dict(state.announced), dict(state.incarnations)
        heard = dict(state.heard)
        for known in (state.announced, state.heard):
            known.pop(given.broker_id, None)
        if given.incarnation < incarnations.get(given.broker_id, 0):
            state.incarnations[given.broker_id] = given.incarnation
        try:
            return announce(state, given, denied)
        finally:
            state.announced.update(announced)
            state.heard.update(heard)
            state.incarnations.update(incarnations)

    return [
        (decide_session, "_refuse_outdated", deaf),
        (rules, "announce", forgetful),
    ]


def lower_leader_epoch_accepted() -> list[tuple[Any, str, Any]]:
    against: Any = vars(decide_session)["_against"]

    def lenient(view: Any, command: Any, rival: Any) -> Any:  # noqa: ANN401
        if command.leader_epoch is None or rival.leader_epoch is None:
            return against(view, command, rival)
        return command.leader_epoch, []

    def nobody(_state: object, _given: object) -> list[object]:
        return []

    return [(decide_session, "_against", lenient), (rules, "outranked", nobody)]


def oracle_not_asked() -> list[tuple[Any, str, Any]]:
    def never(_command: object, _rival: object) -> bool:
        return False

    return [(decide_session, "_needs_verdict", never)]


def claim_not_compared() -> list[tuple[Any, str, Any]]:
    require: Any = vars(decide)["_require_session"]

    def lenient(view: Any, claim: Claim) -> None:  # noqa: ANN401
        session = view.session
        require(view, claim if session is None else session.claim)

    return [(decide, "_require_session", lenient)]


def foreign_session_closed() -> list[tuple[Any, str, Any]]:
    close: Any = vars(decide)["close_session"]

    def careless(view: Any, command: Any) -> list[log.Body]:  # noqa: ANN401
        session = view.session
        if session is not None:
            command = command._replace(claim=session.claim)
        bodies: list[log.Body] = close(view, command)
        return bodies

    return [(decide, "close_session", careless)]


def assignment_given_twice() -> list[tuple[Any, str, Any]]:
    placing: Any = vars(places)["_Placing"]
    begin = placing.__init__

    def from_what_runs(self: Any, state: Any, partitions_per_host: int) -> None:  # noqa: ANN401
        begin(self, state, partitions_per_host)
        led = [entry.leadership for entry in state.partitions.values()]
        self.number = max((one.assignment for one in led if one is not None), default=0)

    return [(placing, "__init__", from_what_runs)]


def refused_claim_stays() -> list[tuple[Any, str, Any]]:
    def never(*_: object) -> None:
        return None

    return [(rules, "give_back", never)]


def disputes_not_counted_on() -> list[tuple[Any, str, Any]]:
    return rewritten(decide_session._in_a_row, "return run.in_a_row", "return 0")


def closed_in_the_same_batch() -> list[tuple[Any, str, Any]]:
    return rewritten(
        Overlay.note, "self.session = self.session._replace(is_open=False)", "pass"
    )


def claim_compared_with_nobody() -> list[tuple[Any, str, Any]]:
    return rewritten(
        rules.outranked,
        "led is None or led.claim.broker_id == given.broker_id",
        "led.claim.broker_id == given.broker_id",
    )


def full_host_takes_one_more() -> list[tuple[Any, str, Any]]:
    least = places._Room.least
    return rewritten(least, "load >= self._bound", "load > self._bound")


def oldest_claim_stands_again() -> list[tuple[Any, str, Any]]:
    last = displaced._last_standing
    return rewritten(last, "reversed(entry.displaced.items())", "entry.displaced.items()")


def anybody_refuses() -> list[tuple[Any, str, Any]]:
    return rewritten(refusals.leader_refused, "if entry.leader_host != host:", "if False:")


def import_ends_at_the_hosts_time() -> list[tuple[Any, str, Any]]:
    imports = "if view.session is not None and view.session.import_cluster is not None:"
    return rewritten(decide._decided, imports, "if False:")


def waiting_does_not_count() -> list[tuple[Any, str, Any]]:
    back_off: Any = vars(decide_session)["_back_off"]
    return rewritten(
        back_off, "max(waited_ms, now_ms - run.log_time_ms)", "(now_ms - run.log_time_ms)"
    )


def late_registration_fences() -> list[tuple[Any, str, Any]]:
    return rewritten(rules.register, "after != newest or ", "")


def late_word_of_the_oracle_counts() -> list[tuple[Any, str, Any]]:
    late = "waiting is None or waiting.number != answer.number"
    return rewritten(WaitingClaims.answered, late, "waiting is None")


def kafkas_word_ignored() -> list[tuple[Any, str, Any]]:
    return rewritten(
        rules.not_taken, "[*named, *outranked(state, given)]", "outranked(state, given)"
    )


def kafkas_epoch_lost() -> list[tuple[Any, str, Any]]:
    informed = messages.informed

    def forgetful(given: Any, verdicts: Any) -> Any:  # noqa: ANN401
        return informed(given, verdicts)._replace(given=given)

    return [(messages, "informed", forgetful)]


def shadow_let_in_too_late() -> list[tuple[Any, str, Any]]:
    shadow = "if owner == Owner.TIERLEDGER:"
    return rewritten(ownership.check_mode, shadow, "if False:")


def any_word_ends_a_move() -> list[tuple[Any, str, Any]]:
    numbered = "if word.number != wish.number:"
    return rewritten(ownership.hand_over, numbered, "if False:")


def leader_beside_kafkas_manager() -> list[tuple[Any, str, Any]]:
    kafkas = "if word.owner == Owner.KAFKA:"
    return rewritten(ownership.check_leading, kafkas, "if False:")


def move_ends_anywhere() -> list[tuple[Any, str, Any]]:
    ends = "if to not in {word.source, word.heading}:"
    return rewritten(ownership.hand_over, ends, "if False:")


def unknown_leader_is_another() -> list[tuple[Any, str, Any]]:
    return rewritten(
        messages.informed,
        "verdict.broker_id >= 0",
        "verdict.broker_id != given.broker_id",
    )


def outranked_claim_taken() -> list[tuple[Any, str, Any]]:
    return rewritten(rules.outranked, "ours <= theirs", "False")


def plugin_let_in_too_early() -> list[tuple[Any, str, Any]]:
    return rewritten(rules.register, "if mode is not None:", "if False:")
