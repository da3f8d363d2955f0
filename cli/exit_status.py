"""The command's exit status, for scripts and monitors."""

from __future__ import annotations

from enum import IntEnum

from tierledger.events.errors import (
    FormatTooNew,
    MetadataParseError,
    RejectedError,
    StoreRefused,
)

ASKED_WRONGLY = (RejectedError, MetadataParseError, StoreRefused, FormatTooNew)
"""Errors that the same command would meet again."""


class ExitStatus(IntEnum):
    """All exit statuses; each means the same for every command."""

    WELL = 0
    """The command did its work, and found nothing."""
    FOUND = 1
    """The command did its work, and the answer is no, or it found something."""
    USAGE = 2
    """The user's request is wrong: an option, an argument, or what it names."""
    PARTLY = 3
    """The command did its work but for what is damaged or was refused; it names that."""
    FAILED = 4
    """The command could not do its work."""
    INTERRUPTED = 130
    """SIGINT ended the command before it was done; what it had started has ended, too."""
    TERMINATED = 143
    """SIGTERM ended it in the same way."""

    @classmethod
    def of(cls, error: Exception) -> ExitStatus:
        """The status of a command that `error` ended."""
        return cls.USAGE if isinstance(error, ASKED_WRONGLY) else cls.FAILED
