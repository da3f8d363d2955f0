"""What a world sees of its machines: rare situations are marked, states are remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.actors.calls import FOLLOWER
from tierledger.actors.leader import Leader, Phase
from tierledger.actors.messages import AppendAnswered, AppendOutcome, SlotRead
from tierledger.simulation.observations import Applied, Led, StateSeen

if TYPE_CHECKING:
    from tierledger.actors import messages as msg
    from tierledger.simulation.machines.shell import Shell
    from tierledger.simulation.machines.world import World

SAMPLED = 32
"""One state in so many is remembered, to be held against the log's."""


class Observer:
    """Changes nothing."""

    def __init__(self, world: World) -> None:
        self.applied: list[Applied] = []
        self.led: list[Led] = []
        self.states: list[StateSeen] = []
        self._world = world
        self._clock, self._recording = world.clock, world.recording

    def leader_heard(
        self,
        shell: Shell,
        stimulus: msg.Stimulus,
        before: int,
        *,
        had_claimed: bool,
    ) -> None:
        """A leader has heard from the store: what is rare about that is marked."""
        leader = shell.machine
        assert isinstance(leader, Leader), "only leaders append"
        mark, state = self._recording.mark, leader.state
        assert state is not None, "a leader that appends has loaded"
        if leader.position > before:
            self._note_applied(shell, before)
            session = state.session
            # A finished deletion is served without a session; all that is left is to close it.
            if session is not None and not state.is_finished:
                self.led.append(
                    Led(
                        self._clock.now * 1000, shell.name, self._world.keys_of[shell.number],
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
        if leader._claims and leader.phase is Phase.LOADING:
            mark(("claim lost a race", "claim lost two races", "claim lost three races")[
                min(leader._claims, 3) - 1
            ])  # fmt: skip
        if leader._has_claimed and not had_claimed and leader.phase is Phase.LEADING:
            self._claimed(shell, state.session)

    def _claimed(self, shell: Shell, session: Any) -> None:  # noqa: ANN401
        others = sum(
            other is not shell.host
            and not other.life.is_dead
            and other.believes_to_lead(shell.number)
            for other in self._world.hosts.values()
        )
        if others:
            self._recording.mark("two believed they lead")
        if others > 1:
            self._recording.mark("three believed they lead")
        number = None if session is None else session.number
        self._recording.moment(shell.host.life.name, "claim", "", number, shell.number)

    def entered(self, shell: Shell, position: int, chain_hash: bytes) -> None:
        """A machine has loaded a state, and reads on from there."""
        self.applied.append(
            Applied(
                self._clock.now * 1000, shell.name, self._world.keys_of[shell.number],
                position + 1, position, chain_hash,
            )
        )  # fmt: skip

    def read_on(self, shell: Shell, before: int) -> None:
        """A machine has applied what it read, from behind `before` on."""
        self._note_applied(shell, before)

    def _note_applied(self, shell: Shell, before: int) -> None:
        machine, state = shell.machine, shell.machine.state
        assert state is not None, "it has applied something"
        self.applied.append(
            Applied(
                self._clock.now * 1000, shell.name, self._world.keys_of[shell.number],
                before + 1, machine.position, state.chain_hash,
            )
        )  # fmt: skip
        if machine.position % SAMPLED == 0:
            self.saw(shell)

    def saw(self, shell: Shell) -> None:
        """Remember a machine's state as it is."""
        state = shell.machine.state
        if state is not None:
            key = self._world.keys_of[shell.number]
            position, now = state.next_position - 1, self._clock.now * 1000
            self.states.append(
                StateSeen(now, shell.name, shell.role, key, position, state.digest())
            )

    def alarmed(self, shell: Shell, effect: msg.Alarm) -> None:
        if effect.kind == "quarantined":
            self._recording.mark("partition quarantined")
            self._recording.event("quarantined", shell.host.life.name, shell.number)
        elif effect.kind == "CustomMetadataSizeLimitExceeded":
            self._recording.mark("custom metadata refused")
        elif effect.kind == "Fenced":
            self._recording.mark("fenced")
        elif effect.kind == "InvalidStateTransition":
            self._recording.mark("illegal transition refused")
        self._recording.moment(
            shell.host.life.name, effect.kind, effect.message, None, shell.number
        )

    def left(self, shell: Shell, reason: str) -> None:
        if shell.role == FOLLOWER:
            return
        if reason == "fenced":
            self._recording.mark("leader found that it was replaced")
        elif shell.machine.position >= 0:
            self._recording.mark("leader stopped")
        self._recording.moment(shell.host.life.name, "gone", reason, None, shell.number)
