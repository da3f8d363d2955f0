"""What a check sees, and how it stands with that."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class CheckState(StrEnum):
    """How it stands with what was looked at; each is a word of `events.vocabulary`."""

    WELL = "well"
    WARNING = "warning"
    FAILED = "failed"
    NOT_LOOKED_AT = "not_looked_at"


class CheckSeen(NamedTuple):
    """What was seen of one thing."""

    state: CheckState
    subject: str
    """What was looked at: `broker 1`, a file, an address; empty if the check says it all."""
    text: str
    mend: str = ""
    """What an operator does; empty if there is nothing to do."""

    @classmethod
    def well(cls, subject: str, text: str) -> CheckSeen:
        return cls(CheckState.WELL, subject, text)

    @classmethod
    def warning(cls, subject: str, text: str, mend: str) -> CheckSeen:
        return cls(CheckState.WARNING, subject, text, mend)

    @classmethod
    def failed(cls, subject: str, text: str, mend: str) -> CheckSeen:
        return cls(CheckState.FAILED, subject, text, mend)

    @classmethod
    def unseen(cls, text: str, mend: str = "") -> CheckSeen:
        return cls(CheckState.NOT_LOOKED_AT, "", text, mend)


class UnseenError(Exception):
    """What a check rests on was not seen; the text says why."""
