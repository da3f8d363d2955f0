"""The last steps of a machine, for errors and explanations of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from typing_extensions import override

STORY_STEPS = 12
"""Steps that are kept, to be reported with an unforeseen error."""


class StoryStep(NamedTuple):
    """One stimulus, and the effects that it led to."""

    number: int
    """Counts the machine's stimuli from its first."""
    stimulus: type[Any]
    about: object
    effects: tuple[type[Any], ...]

    @override
    def __str__(self) -> str:
        about = "" if self.about is None else f" {self.about}"
        effects = ", ".join(kind.__name__ for kind in self.effects) or "nothing"
        return f"{self.stimulus.__name__}{about}: {effects}"


class Story:
    """A machine's last stimuli, each with its effects."""

    def __init__(self) -> None:
        self._steps: deque[tuple[Any, ...]] = deque(maxlen=STORY_STEPS)
        """The fields of each `StoryStep`, which is made only if the step is reported."""
        self._count = 0

    def note(self, stimulus: object, about: object, effects: Sequence[object]) -> None:
        self._count += 1
        kinds = tuple(map(type, effects))
        self._steps.append((self._count, type(stimulus), about, kinds))

    @override
    def __str__(self) -> str:
        return "; ".join(map(str, self._recent()))

    def numbered(self) -> list[str]:
        """A line for each step, with its number."""
        return [f"#{step.number} {step}" for step in self._recent()]

    def _recent(self) -> list[StoryStep]:
        return list(map(StoryStep._make, self._steps))
