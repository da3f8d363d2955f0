"""What a door keeps and tells of the calls there.

Each call is counted with its time. Those that were refused, failed, are in doubt or took long
are logged with the call's id, which the caller has, too, and which the events of a write have.
A flood of them is logged in part: a client that repeats itself must not fill a disk.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.outcomes import CANCELLED, OK, operation_of
from tierledger.actors.door.wire.segments import key_of
from tierledger.actors.host.call_times import DoorTimes
from tierledger.events.errors import InvalidArgument
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span

    from tierledger.actors.door.server.tracing import Tracing

SLOW_S = 1.0
"""A call that takes longer is logged, however it ends."""

LINES_MAX = 100
"""Lines of refusals, and as many of all else, that are logged at once; then one a second."""

REFUSED = "a call was refused"
SLOW = "a call took long"

_TOLD = {
    OK: SLOW,
    CANCELLED: SLOW,
    "rejected": REFUSED,
    "fenced_off": REFUSED,
    "retryable": REFUSED,
    "unknown": "a call is in doubt",
    "damaged": "a call failed",
}

_log = ProcessLog("tierledger.door")


class CallRecord:
    """Counts and logs the calls of one door."""

    def __init__(
        self, desk: Desk, times: DoorTimes | None = None, tracing: Tracing | None = None
    ) -> None:
        self.times = times or DoorTimes()
        self.tracing = tracing
        """Makes spans of calls; None: nobody does."""
        self._desk = desk
        self._refusals = _Budget()
        self._others = _Budget()

    def ended(
        self, message: pb.Call, outcome: str, seconds: float, result: object, client: str
    ) -> None:
        """Note that a call of `client` has ended with `result`, or without (None)."""
        operation = operation_of(message)
        self.times.note(operation, outcome, seconds)
        what = _TOLD[outcome]
        if what is SLOW and seconds < SLOW_S:
            return
        budget = self._refusals if what is REFUSED else self._others
        unlogged = budget.take(asyncio.get_running_loop().time())
        if unlogged is None:
            return
        details: dict[str, Any] = {
            "request": self._desk.named(message).hex(),
            "operation": operation,
            "outcome": outcome,
            "ms": round(seconds * 1000),
            "client": client,
            **_partition_of(message),
        }
        if why := _why(result):
            details["error"] = why
        if unlogged:
            details["unlogged"] = unlogged
        _log.tell("info" if what is REFUSED else "warning", what, details)

    def begun(self, message: pb.Call) -> Span | None:
        """The span of a call that begins; None if it is not traced."""
        if self.tracing is None:
            return None
        with suppress(Exception):  # To tell of a call must not fail it.
            return self.tracing.begun(message)
        return None

    def traced(
        self,
        span: Span,
        message: pb.Call,
        outcome: str,
        times_s: tuple[float, float],
        result: object,
    ) -> None:
        """End the span of a call, in the step that has made its answer."""
        details = {"request_id": self._desk.named(message).hex(), **_partition_of(message)}
        if why := _why(result):
            details["error"] = why
        commit = self._desk.answering if message.HasField("write") else None
        if self.tracing is not None:
            with suppress(Exception):
                self.tracing.ended(span, outcome, times_s, details, commit)


class _Budget:
    """Lines that may be logged: some at once, then one a second."""

    def __init__(self) -> None:
        self._left = float(LINES_MAX)
        self._since_s = 0.0
        self._unlogged = 0

    def take(self, now_s: float) -> int | None:
        """How many lines were left out before this one; None: this one is, too."""
        self._left = min(LINES_MAX, self._left + now_s - self._since_s)
        self._since_s = now_s
        if self._left < 1:
            self._unlogged += 1
            return None
        self._left -= 1
        unlogged, self._unlogged = self._unlogged, 0
        return unlogged


def _why(result: object) -> str:
    """The error in the result of a call; empty if it has none."""
    if isinstance(result, pb.Answer):
        return result.failure.message
    return str(result) if isinstance(result, BaseException) else ""


def _partition_of(message: pb.Call) -> dict[str, str]:
    asked = message.WhichOneof("ask")
    if asked not in {"write", "question", "ready"}:
        return {}
    partition: pb.Partition = getattr(message, asked).partition
    try:
        return {"partition": str(key_of(partition).named(partition.topic or "?"))}
    except InvalidArgument:  # Which the error says.
        return {}
