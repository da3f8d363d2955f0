"""What becomes of a batch that was sent: mine, another's, or nobody's."""

import pytest

from tierledger.actors.messages import AppendOutcome, SlotRead
from tierledger.actors.sent_batch import NextStep, SentBatch

SENT = SentBatch(7, b"ours")


@pytest.mark.parametrize(
    ("outcome", "step"),
    [
        (AppendOutcome.CREATED, NextStep.SETTLE),
        (AppendOutcome.EXISTS, NextStep.LOOK),
        (AppendOutcome.UNKNOWN, NextStep.LOOK_LATER),
        (AppendOutcome.PASSED, NextStep.LEAVE),
    ],
)
def test_only_a_created_slot_is_believed_without_a_look(
    outcome: AppendOutcome, step: NextStep
) -> None:
    assert SENT.answered(outcome) is step
    assert SENT.in_doubt().answered(outcome) is step


@pytest.mark.parametrize(
    ("read", "step"),
    [
        (SlotRead(7, b"ours"), NextStep.SETTLE),
        (SlotRead(7, b"another's"), NextStep.YIELD),
        (SlotRead(7, None), NextStep.SEND),
        (SlotRead(7, None, is_passed=True), NextStep.LEAVE),
    ],
)
def test_what_stands_in_the_slot_decides(read: SlotRead, step: NextStep) -> None:
    assert SENT.seen(read) is step
    assert SENT.in_doubt().seen(read) is step


def test_a_refusal_is_certain_only_if_every_attempt_was_answered() -> None:
    assert SENT.refused() is NextStep.GIVE_UP
    assert SENT.in_doubt().refused() is NextStep.LOOK_LATER
    assert SENT.in_doubt()[:2] == SENT[:2], "the same bytes, for the same slot"
