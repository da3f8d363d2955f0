"""Mistakes in who may lead: sessions, announcements, placements, and the leader oracle."""

from __future__ import annotations

from typing import Any

from tierledger.actors.coordinator import decide as coordinator_decide
from tierledger.actors.coordinator import displaced, messages, ownership, refusals
from tierledger.actors.coordinator import placement as places
from tierledger.actors.leader.claim import WaitingClaims
from tierledger.events.partition import decide
from tierledger.events.partition import sessions as decide_session
from tierledger.events.partition.overlay import Overlay
from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten


@mistake("M16", "fencing", within=200)
def old_assignment_reopens() -> Patches:
    """An assignment that has opened a session opens another."""
    newer = "command.assignment <= session.assignment"
    return rewritten(decide_session._refuse_outdated, newer, newer.replace("<=", "<"))


@mistake("M35", "fencing", within=200)
def late_announcement_wins() -> Patches:
    """An older announcement counts if it arrives later."""
    refuse: Any = vars(decide_session)["_refuse_outdated"]
    announce = coordinator_decide.announce

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
        (coordinator_decide, "announce", forgetful),
    ]


@mistake("M36", "fencing")
def lower_leader_epoch_accepted() -> Patches:
    """A claim wins against a higher leader epoch."""
    compared = "if ours is None or theirs is None or ours > theirs:"
    return outranked_claim_taken() + rewritten(decide_session._against, compared, "if True:")


@mistake("M25", "unsettled_dispute")
def oracle_not_asked() -> Patches:
    """Of two claims that cannot be compared the later one wins."""
    return rewritten(decide_session._needs_verdict, "return (c", "return False and (c")


@mistake("M37", "fencing")
def claim_not_compared() -> Patches:
    """Who writes needs no claim as long as somebody leads."""
    return rewritten(decide._require_session, "not session.is_of(claim)", "False")


@mistake("M38", "liveness")
def foreign_session_closed() -> Patches:
    """A broker that no longer leads closes whatever session is open."""
    return rewritten(decide_session.close_session, "session.claim != command.claim", "False")


@mistake("M23", "liveness")
def assignment_given_twice() -> Patches:
    """Assignments are counted from those that run."""
    led = "[one.leadership for one in state.partitions.values()]"
    runs = f"max((one.assignment for one in {led} if one is not None), default=0)"
    return rewritten(places._Placing.__init__, "= state.assignment", f"= {runs}")


@mistake("M28", "refusal_repeated", within=500)
def refused_claim_stays() -> Patches:
    """A claim that the log refused stays in force."""
    return rewritten(refusals.give_back, "led.assignment != body.assignment", "True")


@mistake("M26", "lifecycle", within=200)
def disputes_not_counted_on() -> Patches:
    """Of disputes in a row each counts as the first."""
    return rewritten(decide_session._in_a_row, "return run.in_a_row", "return 0")


@mistake("M41", "misdecided")
def closed_in_the_same_batch() -> Patches:
    """What follows in a batch that closes the session is decided as if it were open."""
    return rewritten(
        Overlay.note, "self.session = self.session._replace(is_open=False)", "pass"
    )


@mistake("M64", "unforeseen_failure")
def claim_compared_with_nobody() -> Patches:
    """The coordinator fails at a claim to a partition that nobody leads."""
    return rewritten(
        coordinator_decide.outranked,
        "led is None or led.claim.broker_id == given.broker_id",
        "led.claim.broker_id == given.broker_id",
    )


@mistake("M72", "crowded")
def full_host_takes_one_more() -> Patches:
    """A host that has all that it has room for gets one more."""
    least = places._Room.least
    return rewritten(least, "load >= self._bound", "load > self._bound")


@mistake("M73", "passed_over", within=500)
def oldest_claim_stands_again() -> Patches:
    """Of the claims that stand when one is given up the oldest is put in force."""
    last = displaced._last_standing
    return rewritten(last, "reversed(entry.displaced.items())", "entry.displaced.items()")


@mistake("M74", "miscoordinated")
def anybody_refuses() -> Patches:
    """A claim is taken from its host because another host reports that it was refused."""
    return rewritten(refusals.leader_refused, "if entry.leader_host != host:", "if False:")


@mistake("M75", "lifecycle")
def import_ends_at_the_hosts_time() -> Patches:
    """The end of an import makes its log as late as its host is."""
    imports = "if view.session is not None and view.session.import_cluster is not None:"
    return rewritten(decide._decided, imports, "if False:")


@mistake("M76", "misdecided", within=500)
def waiting_does_not_count() -> Patches:
    """A claim that has waited waits as long again where the host's clock is behind."""
    back_off: Any = vars(decide_session)["_back_off"]
    return rewritten(
        back_off, "max(waited_ms, now_ms - run.log_time_ms)", "(now_ms - run.log_time_ms)"
    )


@mistake("M77", "miscoordinated")
def late_registration_fences() -> Patches:
    """A broker's registration that comes late counts as its newest."""
    return rewritten(coordinator_decide.register, "after != newest or ", "")


@mistake("M79", "wrong_memory")
def late_answer_of_the_oracle_counts() -> Patches:
    """The oracle's answer about a claim counts for the one that replaced it."""
    late = "waiting is None or waiting.number != answer.number"
    return rewritten(WaitingClaims.answered, late, "waiting is None")


@mistake("M80", "against_kafka")
def kafkas_answer_ignored() -> Patches:
    """A claim is taken though Kafka names another broker."""
    return rewritten(
        coordinator_decide.not_taken,
        "[*named, *outranked(state, given)]",
        "outranked(state, given)",
    )


@mistake("M81", "against_kafka")
def kafkas_epoch_lost() -> Patches:
    """The leader epoch that Kafka names is not announced."""
    return rewritten(messages.informed, "epoch = verdict.leader_epoch", "pass")


@mistake("M83", "miscoordinated")
def shadow_let_in_too_late() -> Patches:
    """A broker that decides by Kafka's own manager is let in while tierledger owns."""
    shadow = "if owner == Owner.TIERLEDGER:"
    return rewritten(ownership.check_mode, shadow, "if False:")


@mistake("M84", "miscoordinated")
def any_owner_epoch_ends_a_move() -> Patches:
    """A move is ended by a wish that names another move."""
    numbered = "if ownership.epoch != wish.owner_epoch:"
    return rewritten(ownership.hand_over, numbered, "if False:")


@mistake("M85", "miscoordinated")
def leader_beside_kafkas_manager() -> Patches:
    """A broker leads while Kafka's own manager owns the metadata."""
    kafkas = "if ownership.owner == Owner.KAFKA:"
    return rewritten(ownership.check_leading, kafkas, "if False:")


@mistake("M86", "miscoordinated")
def move_ends_with_a_stranger() -> Patches:
    """A move from Kafka's own manager to tierledger may end with nobody."""
    ends = "if to not in {ownership.source, ownership.heading}:"
    return rewritten(ownership.hand_over, ends, "if False:")


@mistake("M87", "liveness")
def unknown_leader_is_another() -> Patches:
    """A claim is refused though Kafka does not know who leads."""
    return rewritten(
        messages.informed,
        "verdict.broker_id >= 0",
        "verdict.broker_id != given.broker_id",
    )


@mistake("M88", "miscoordinated", within=200)
def outranked_claim_taken() -> Patches:
    """A claim replaces one in force that has a higher leader epoch."""
    return rewritten(coordinator_decide.outranked, "ours <= theirs", "False")


@mistake("M82", "miscoordinated")
def plugin_let_in_too_early() -> Patches:
    """A broker's plugin is let in while nobody owns the metadata."""
    return rewritten(coordinator_decide.register, "if mode is not None:", "if False:")
