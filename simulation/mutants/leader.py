"""Mistakes in how a leader claims, appends, and reports the outcome of a batch."""

from __future__ import annotations

from typing import Any

from tierledger.actors import messages as msg
from tierledger.actors import replaying
from tierledger.actors.leader.machine import Leader
from tierledger.events import log_events as log
from tierledger.events.errors import StorageUnavailable
from tierledger.events.partition import decide
from tierledger.simulation.machines.scenario.drawing import WHOLE_EVERY
from tierledger.simulation.mutants.mistakes import TWO_HISTORIES, Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten


@mistake("M01", "two_leaders")
def claim_not_appended() -> Patches:
    """A leader serves under whatever session it finds open in the log."""
    open_session: Any = vars(decide)["open_session"]
    slot_read = Leader._slot_read

    def content(view: Any, command: Any) -> list[log.Body]:  # noqa: ANN401 - As the original.
        bodies: list[log.Body] = open_session(view, command)
        return [] if view.session is not None and view.session.is_open else bodies

    def in_office(self: Leader, read: msg.SlotRead) -> list[msg.Effect]:
        if read.value is None and any(isinstance(one, msg.Reply) for one in self._probe or ()):
            self._has_claimed = True
        return slot_read(self, read)

    return [(decide, "open_session", content), (Leader, "_slot_read", in_office)]


@mistake("M02", "wrong_answer replay_determinism")
def tail_not_replayed() -> Patches:
    """A leader claims behind a tail of the log of which it has read the sessions only."""
    evolve_all: Any = vars(replaying)["evolve_all"]
    log_read = Leader._log_read
    is_loading = False

    def loading(self: Leader, read: msg.LogRead) -> list[msg.Effect]:
        nonlocal is_loading
        is_loading = True
        try:
            return log_read(self, read)
        finally:
            is_loading = False

    def skimmed(state: Any, events: Any, chain_hash: bytes) -> None:  # noqa: ANN401
        if not is_loading:
            evolve_all(state, events, chain_hash)
            return
        for event in events:
            if isinstance(event.body, log.SessionOpened | log.SessionClosed):
                state.next_position = event.position
                evolve_all(state, (event,), chain_hash)
        state.next_position = events[-1].position + 1
        state.log_time_ms, state.chain_hash = events[-1].log_time_ms, chain_hash

    return [(Leader, "_log_read", loading), (replaying, "evolve_all", skimmed)]


@mistake("M03", TWO_HISTORIES, within=200)
def claim_not_awaited() -> Patches:
    """A leader takes its session for open once it was sent."""
    return _outcome("answered.outcome if self._has_claimed else msg.AppendOutcome.CREATED")


@mistake("M05", TWO_HISTORIES)
def foreign_write_taken_for_own() -> Patches:
    """That the slot exists is success."""
    return _outcome(
        "msg.AppendOutcome.CREATED if answered.outcome is msg.AppendOutcome.EXISTS "
        "else answered.outcome"
    )


def _outcome(taken_for: str) -> Patches:
    """A leader takes the outcome of its append for another one."""
    return rewritten(Leader._append_answered, "(answered.outcome))", f"({taken_for}))")


@mistake("M06", "phantom_write", within=500)
def own_write_taken_for_foreign() -> Patches:
    """What a lost answer left in the slot is not recognised."""
    return rewritten(
        Leader._slot_read,
        "flight.sent.seen(read)",
        "NextStep.YIELD if read.value == flight.sent.value else flight.sent.seen(read)",
    )


@mistake("M07", TWO_HISTORIES, within=500)
def conflict_taken_for_own() -> Patches:
    """A conflict in a slot that is free afterwards is success."""
    return rewritten(
        Leader._slot_read,
        "flight.sent.seen(read)",
        "flight.sent.seen(read) if read.value or flight.sent.is_uncertain else NextStep.SETTLE",
    )


@mistake("M08", "early_answer")
def ack_before_durable() -> Patches:
    """Writes are acknowledged when they are sent to the store."""
    send = "return [*effects, self._append(self._in_flight)]"
    hasty = (
        "self._in_flight = self._in_flight._replace(replies=()); effects = [*replies, *effects]"
    )
    return rewritten(Leader._pump, send, f"{hasty}; {send}")


@mistake("M33", TWO_HISTORIES, within=500)
def unknown_taken_for_failure() -> Patches:
    """What was not answered did not happen."""
    answered = Leader._append_answered

    def hopeless(self: Leader, stimulus: msg.AppendAnswered) -> list[msg.Effect]:
        flight = self._in_flight
        if stimulus.outcome is msg.AppendOutcome.UNKNOWN and flight is not None:
            refused = StorageUnavailable("the store did not answer")
            return self._append_refused(msg.AppendRefused(flight.sent.number, refused))
        return answered(self, stimulus)

    return [(Leader, "_append_answered", hopeless)]


@mistake("M34", TWO_HISTORIES)
def taken_slot_skipped() -> Patches:
    """A leader whose slot is taken takes the next."""
    answered = Leader._append_answered

    def skipping(self: Leader, stimulus: msg.AppendAnswered) -> list[msg.Effect]:
        flight = self._in_flight
        if stimulus.outcome is not msg.AppendOutcome.EXISTS or flight is None:
            return answered(self, stimulus)
        self.next_batch = flight.sent.number + 1
        self._in_flight = flight._replace(sent=flight.sent._replace(number=self.next_batch))
        return [msg.Append(self.next_batch, flight.sent.value)]

    return [(Leader, "_append_answered", skipping)]


@mistake("M17", "linearizability fencing", within=50, first=0, every=WHOLE_EVERY)
def reads_without_probe() -> Patches:
    """A leader answers reads without a look at the next slot."""
    return _unprobed("msg.Answer")


@mistake("M39", "linearizability fencing wrong_refusal", within=70, first=0, every=WHOLE_EVERY)
def never_probed() -> Patches:
    """A leader says whatever appends nothing without a look at the next slot."""
    return _unprobed("msg.Answer | msg.Reply | msg.ReplyError")


def _unprobed(kinds: str) -> Patches:
    at_once = f"at_once = [one for one in replies if isinstance(one, {kinds})]"
    others = f"replies = [one for one in replies if not isinstance(one, {kinds})]"
    probe = "self._probe = replies"
    early = f"{at_once}; {others}; effects = [*at_once, *effects]"
    return rewritten(Leader._pump, probe, f"{early}; {probe}")


@mistake("M63", "linearizability", within=500)
def reads_beside_an_append() -> Patches:
    """A leader answers reads at once while a batch is on its way."""
    wait = "    self._queries.append(arrived)"
    answer = "return [msg.Answer(arrived.reply_to, arrived.query)]"
    return rewritten(Leader._query, wait, f"    if self._in_flight:\n        {answer}\n{wait}")
