"""Decides whether a call is tried again after a failed attempt, and with which error it ends.

A refusal speaks of its own attempt. An earlier attempt whose outcome is unknown may have been
carried out, or may arrive later, so most refusals do not end its doubt.
"""

from __future__ import annotations

from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    Fenced,
    NotReady,
    OutcomeUnknown,
    PartitionDeleted,
    RemoteStorageError,
    RetryableError,
)

PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Pauses between attempts; the last repeats until the deadline."""

RETRIED_WITH_S = 0.1
"""A retry with less left would mostly turn a certain refusal into an unknown outcome."""

_LASTING = (CustomMetadataSizeLimitExceeded, PartitionDeleted)
"""Refusals that hold for all attempts of a call. Of the others, some depend on a state that may
change before an earlier attempt arrives, and some come from a process that may never have seen
that attempt, which may be stored."""

LASTING_AT_COORDINATOR = (*_LASTING, Fenced)
"""The same for requests to the coordinator: it fences a client for good, whatever became of the
client's earlier attempts."""


class Retries:
    """The failed attempts of one call."""

    __slots__ = ("_attempts", "_is_change", "_lasting", "_refusal", "doubt")

    def __init__(
        self, *, is_change: bool, lasting: tuple[type[RemoteStorageError], ...] = _LASTING
    ) -> None:
        """`is_change`: the call may change something, so that an unknown outcome matters.

        `lasting`: refusals that end the doubt about earlier attempts.
        """
        self.doubt: OutcomeUnknown | None = None
        """The last attempt whose outcome is unknown."""
        self._refusal: RetryableError | None = None
        self._attempts = 0
        self._is_change = is_change
        self._lasting = lasting

    def failed(self, error: RemoteStorageError, left_s: float) -> float | RemoteStorageError:
        """The pause (s) before the next attempt, or the error with which the call ends.

        `error`: of the last attempt. `left_s`: the time until the caller's deadline.
        """
        if isinstance(error, OutcomeUnknown):
            self.doubt = error
        elif isinstance(error, RetryableError):
            self._refusal = error
        else:
            return self._final(error)
        pause_s = PAUSES_S[min(self._attempts, len(PAUSES_S) - 1)]
        self._attempts += 1
        if pause_s + RETRIED_WITH_S <= left_s:
            return pause_s
        return self._ended("")

    def timed_out(self, seconds: float, *, is_sent: bool) -> RemoteStorageError:
        """The error of a call whose deadline passes while an attempt is under way.

        `seconds`: the time that the call had. `is_sent`: whether the attempt may have arrived.
        """
        if is_sent and self.doubt is None:
            self.doubt = OutcomeUnknown(f"no answer within {seconds:g} s")
        return self._ended(f"not sent within {seconds:g} s: no host to send it to")

    def _final(self, error: RemoteStorageError) -> RemoteStorageError:
        if self._is_change and not isinstance(error, self._lasting):
            return self.doubt or error
        return error

    def _ended(self, not_sent: str) -> RemoteStorageError:
        if self._is_change:
            return self.doubt or self._refusal or NotReady(not_sent)
        # A query leaves nothing in doubt: its last refusal tells the caller more.
        return self._refusal or NotReady(str(self.doubt or not_sent))
