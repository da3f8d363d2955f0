"""What becomes of a batch that was sent to a log's next slot.

An append without an answer may have been stored, may be lost, or may still arrive. A writer
that takes it for stored acknowledges what may be lost. A writer that takes it for lost, and
goes on with other content or in another slot, may put the same commands into the log twice.
So the slot is read, and three things can stand there. Our bytes: the batch is stored. Other
bytes: it never will be, as a slot is created once. Nothing: the same bytes go to the same slot
again, and the attempt that arrives first fills it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from tierledger.actors.messages import AppendOutcome, SlotRead


class NextStep(Enum):
    """What the writer does next."""

    SETTLE = auto()
    """It is stored: apply it, and answer."""
    YIELD = auto()
    """Another writer's batch has the slot."""
    LEAVE = auto()
    """The log goes on behind the slot, which was forgotten, with whatever it held."""
    LOOK = auto()
    """Read the slot."""
    LOOK_LATER = auto()
    """Read the slot after a pause: what is on its way may arrive."""
    SEND = auto()
    """Send the same bytes to the same slot again."""
    GIVE_UP = auto()
    """Nothing was kept, and nothing is on its way."""


class SentBatch(NamedTuple):
    """A batch on its way to its slot."""

    number: int
    value: bytes
    is_uncertain: bool = False
    """The store did not answer an attempt, which may still arrive."""

    def answered(self, outcome: AppendOutcome) -> NextStep:
        """The next step after an answer to an attempt, or none (`UNKNOWN`)."""
        match outcome:
            case AppendOutcome.CREATED:
                return NextStep.SETTLE
            case AppendOutcome.EXISTS:  # Perhaps it holds an earlier attempt of ours.
                return NextStep.LOOK
            case AppendOutcome.PASSED:
                return NextStep.LEAVE
            case AppendOutcome.UNKNOWN:
                return NextStep.LOOK_LATER

    def refused(self) -> NextStep:
        """The next step after the store kept nothing of an attempt: an earlier one may be."""
        return NextStep.LOOK_LATER if self.is_uncertain else NextStep.GIVE_UP

    def seen(self, read: SlotRead) -> NextStep:
        """The next step after the slot was read."""
        if read.is_passed:
            return NextStep.LEAVE
        if read.value is None:
            return NextStep.SEND
        return NextStep.SETTLE if read.value == self.value else NextStep.YIELD

    def in_doubt(self) -> SentBatch:
        """The same batch after an attempt without an answer."""
        return self._replace(is_uncertain=True)
