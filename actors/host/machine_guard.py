"""Turns unforeseen errors of a partition's machine into a quarantine of that partition.

Rule 1: any exception of a partition's step, of whatever class, quarantines that partition and
no other. Code that uses a guard does not have to catch anything.
Rule 2: callers whose answer the exception has lost get a true error. A write is in doubt and
gets `OutcomeUnknown`, unless it still waited for its turn.

The story of the last steps is kept here, not in the machine, which holds only what its rules
need.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from traceback import walk_tb
from typing import TypeAlias

from tierledger.actors import messages as msg
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader
from tierledger.actors.story import Story
from tierledger.events.errors import OutcomeUnknown

Machine: TypeAlias = Leader | Follower

CAUSE_CHARACTERS = 300
"""Characters of an unforeseen error's message that are reported."""


CHECKS: list[Callable[[Machine, Enum, msg.Stimulus], None]] = []
"""Called after each step with the phase that heard the stimulus: for tests."""


class MachineGuard:
    """A leader or follower, its last steps, and the callers that wait for its answers."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.failure: str | None = None
        """The cause of the last unforeseen error, until it is taken from here."""
        self._story = Story()
        self._waiting: dict[int, msg.Stimulus] = {}

    def handle(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        """The effects that `stimulus` calls for, to be carried out in order."""
        if isinstance(stimulus, msg.QueryExpired):
            self._forget(stimulus.reply_to)
        elif isinstance(stimulus, msg.CommandsArrived):
            for one in stimulus.commands:
                if one.reply_to is not None:
                    self._waiting[one.reply_to] = one
        else:
            self._wait(stimulus)
        before = self.machine.phase
        try:
            effects = self.machine.handle(stimulus)
            for check in CHECKS:
                check(self.machine, before, stimulus)
        except Exception as error:  # noqa: BLE001 - Rule 1.
            self._note(stimulus, [])
            return self.failed(error)
        self._note(stimulus, effects)
        return effects

    def failed(self, error: Exception) -> list[msg.Effect]:
        """The effects of an unforeseen `error` in any step of the partition."""
        story = str(self._story)
        failure = msg.StepFailed(_cause(error), story)
        self.failure = failure.cause
        effects = self.machine.handle(failure)
        self._note(failure, effects)
        lost, self._waiting = self._waiting, {}
        for reply_to, stimulus in lost.items():
            if isinstance(stimulus, msg.QueryArrived):
                effects += self.machine.handle(stimulus)
            else:
                unknown = OutcomeUnknown(f"the partition failed meanwhile: {failure.cause}")
                effects.append(msg.ReplyError(reply_to, unknown))
        return effects

    def _note(self, stimulus: msg.Stimulus, effects: list[msg.Effect]) -> None:
        about: object = getattr(stimulus, "number", None)
        if isinstance(stimulus, msg.CommandArrived):
            about = type(stimulus.command).__name__
        elif isinstance(stimulus, msg.CommandsArrived):
            about = len(stimulus.commands)
        self._story.note(stimulus, about, effects)
        waiting = self._waiting
        for effect in effects:
            # Inlined for speed: this runs for each answer.
            if type(effect) is msg.Reply or type(effect) is msg.Answer:
                waiting.pop(effect.reply_to, None)  # type: ignore[arg-type] # Nobody is none.
            else:
                self._forget(getattr(effect, "reply_to", None))

    def _wait(self, stimulus: msg.Stimulus) -> None:
        reply_to = getattr(stimulus, "reply_to", None)
        if reply_to is not None:
            self._waiting[reply_to] = stimulus

    def _forget(self, reply_to: msg.ReplyTo) -> None:
        if reply_to is not None:
            self._waiting.pop(reply_to, None)


def _cause(error: Exception) -> str:
    """The class, message and place of `error`."""
    try:
        text = str(error)[:CAUSE_CHARACTERS]
    except Exception:  # noqa: BLE001 - An error of a foreign object's.
        text = ""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        place = f" in {code.co_name}, line {line} of {code.co_filename.rpartition('/')[2]}"
    return f"{type(error).__name__}: {text}{place}"
