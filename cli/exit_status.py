"""What the command's exit status says, for a script or a monitor to act on."""

from __future__ import annotations

from enum import IntEnum

from tierledger.events.errors import (
    FormatTooNew,
    MetadataParseError,
    RejectedError,
    StoreRefused,
)

ASKED_WRONGLY = (RejectedError, MetadataParseError, StoreRefused, FormatTooNew)
"""Errors that the same command meets again, until it is given something else."""


class ExitStatus(IntEnum):
    """All that there are; each says one thing, whichever command it comes from."""

    WELL = 0
    """It is done, and nothing was found."""
    FOUND = 1
    """The command did its work, and the answer is no, or something was found."""
    USAGE = 2
    """What was asked for is wrong: an option, an argument, or what it names."""
    PARTLY = 3
    """It is done, but for what is damaged or was refused, which is named."""
    FAILED = 4
    """It could not do its work."""
    INTERRUPTED = 130
    """SIGINT ended it before it was done; what it had started has ended, too."""
    TERMINATED = 143
    """The same of SIGTERM."""

    @classmethod
    def of(cls, error: Exception) -> ExitStatus:
        """What an error says that ended a command."""
        return cls.USAGE if isinstance(error, ASKED_WRONGLY) else cls.FAILED
