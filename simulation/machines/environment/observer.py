"""Observation of a world's machines: rare situations are marked, states are remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader, LeaderPhase
from tierledger.actors.messages import REFUSED, STOPPED, AppendAnswered, AppendOutcome, SlotRead
from tierledger.events.commands import Claim
from tierledger.events.partition.state import Session
from tierledger.simulation.checkers.state_digest import state_digest
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.observations import Applied, Led, Ready, StateSeen
from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife
from tierledger.simulation.machines.environment.recording import Recording

SAMPLED = 32
"""One state in so many is remembered, and compared with the log's state later."""


class ObservedNode(Protocol):
    """A leader or follower on a host, as the observer sees it."""

    @property
    def life(self) -> ProcessLife: ...
    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def key(self) -> PartitionKey: ...
    @property
    def machine(self) -> Leader | Follower: ...


class Observer:
    """Records what machines do; it changes nothing."""

    def __init__(
        self,
        clock: Clockwork,
        recording: Recording,
        leading_elsewhere: Callable[[PartitionKey, ProcessLife], int],
    ) -> None:
        self.applied: list[Applied] = []
        self.led: list[Led] = []
        self.ready: list[Ready] = []
        self.states: list[StateSeen] = []
        self._sessions: dict[str, int | None] = {}
        """By a shell's name, the session that it leads in."""
        self.failures: list[Violation] = []
        self._clock, self._recording = clock, recording
        self._leading_elsewhere = leading_elsewhere

    def leader_heard(
        self,
        shell: ObservedNode,
        stimulus: msg.Stimulus,
        before: int,
        *,
        had_claimed: bool,
    ) -> None:
        """Note what a leader did after an answer of the store, and mark rare situations."""
        leader = shell.machine
        assert isinstance(leader, Leader), "only leaders append"
        mark, state = self._recording.mark, leader.state
        if state is None:
            return  # Its step failed in the middle of a change.
        if leader.position > before:
            self._note_applied(shell, before)
            session = state.session
            # A finished deletion is served without a session; all that is left is to close it.
            if session is not None and not state.is_finished:
                self.led.append(
                    Led(
                        self._clock.now * 1000, shell.name, shell.key,
                        session.number, leader.position,
                    )
                )  # fmt: skip
            if isinstance(stimulus, SlotRead):
                mark("own write recognised in its slot")
        elif isinstance(stimulus, AppendAnswered):
            if stimulus.outcome is AppendOutcome.EXISTS:
                mark("append found its slot taken")
            elif stimulus.outcome is AppendOutcome.UNKNOWN:
                mark("append in doubt")
        if leader._claims and leader.phase is LeaderPhase.LOADING:
            mark("claim lost a race")
        if leader._has_claimed and leader.phase is LeaderPhase.LEADING:
            if not had_claimed:
                self._claimed(shell)
            self._note_session(shell, state.session)

    def _note_session(self, shell: ObservedNode, session: Session | None) -> None:
        """Note in the picture that a leader serves another session than before, or none."""
        number = None if session is None or not session.is_open else session.number
        if self._sessions.get(shell.name) != number:
            self._sessions[shell.name] = number
            if self._recording.keeps:
                what = "session closed" if number is None else "claim"
                claim = "" if session is None else f"{session.claim}"
                self._recording.moment(
                    shell.life.name, what, claim, number, shell.key.partition
                )

    def _claimed(self, shell: ObservedNode) -> None:
        others = self._leading_elsewhere(shell.key, shell.life)
        if others:
            self._recording.mark("two believed they lead")
        if others > 1:
            self._recording.mark("three believed they lead")

    def entered(self, shell: ObservedNode, position: int, chain_hash: bytes) -> None:
        """Note that a machine has loaded a state, and reads on from there."""
        text = f"{shell.role} at position {position}"
        self._recording.moment(shell.life.name, "loaded", text, None, shell.key.partition)
        self.applied.append(
            Applied(
                self._clock.now * 1000, shell.name, shell.key,
                position + 1, position, chain_hash,
            )
        )  # fmt: skip

    def read_on(self, shell: ObservedNode, before: int) -> None:
        """Note that a machine has applied the events that it read after position `before`."""
        self._note_applied(shell, before)

    def _note_applied(self, shell: ObservedNode, before: int) -> None:
        machine, state = shell.machine, shell.machine.state
        assert state is not None, "it has applied something"
        self.applied.append(
            Applied(
                self._clock.now * 1000, shell.name, shell.key,
                before + 1, machine.position, state.chain_hash,
            )
        )  # fmt: skip
        if machine.position % SAMPLED == 0:
            self.saw(shell)

    def saw(self, shell: ObservedNode) -> None:
        """Remember a machine's state as it is."""
        state = shell.machine.state
        if state is not None:
            key = shell.key
            position, now = state.next_position - 1, self._clock.now * 1000
            self.states.append(
                StateSeen(now, shell.name, shell.role, key, position, state_digest(state))
            )

    def was_ready(self, shell: ObservedNode, claim: Claim) -> None:
        """Note that a leader or follower has reported ready for an announcement."""
        key = shell.key
        now, position = self._clock.now * 1000, shell.machine.position
        ready = Ready(now, shell.name, shell.role, key, claim, position)
        self.note_ready(ready, shell.life.name)

    def note_ready(self, ready: Ready, life: str) -> None:
        """Note a report of readiness; `life`: its lane in the picture."""
        self.ready.append(ready)
        if self._recording.keeps:
            text = f"{ready.role} at position {ready.position} for {ready.claim}"
            self._recording.moment(life, "ready", text, None, ready.key.partition)

    def failed(self, shell: ObservedNode, cause: str) -> None:
        """Note an unforeseen error in a step; the service would quarantine the partition."""
        key, now = shell.key, ms_text(self._clock.now * 1000)
        message = f"a step of {shell.name} at {now}: {cause}"
        self.failures.append(Violation("unforeseen", key, message))

    def alarmed(self, shell: ObservedNode, effect: msg.Alarm) -> None:
        if effect.kind == "quarantined":
            self._recording.mark("partition quarantined")
            self._recording.event("quarantined", shell.life.name, shell.key.partition)
        elif effect.kind == "CustomMetadataSizeLimitExceeded":
            self._recording.mark("custom metadata refused")
        elif effect.kind == "Fenced":
            self._recording.mark("fenced")
        elif effect.kind == "InvalidStateTransition":
            self._recording.mark("illegal transition refused")
        self._recording.moment(
            shell.life.name, effect.kind, effect.message, None, shell.key.partition
        )

    def left(self, shell: ObservedNode, reason: str) -> None:
        if shell.role == FOLLOWER:
            return
        if reason == "fenced":
            self._recording.mark("leader found that it was replaced")
        elif reason == STOPPED:
            self._recording.mark("leader stopped")
        elif reason == REFUSED:
            self._recording.mark("leader gave way")
        self._recording.moment(shell.life.name, "gone", reason, None, shell.key.partition)
