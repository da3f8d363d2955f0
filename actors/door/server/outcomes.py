"""What a call at a door asked for, and how it ended, in the words of metrics."""

from __future__ import annotations

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.calls import kind_of
from tierledger.actors.door.wire.failures import fate_of
from tierledger.events.errors import InvalidArgument

OK = "ok"
CANCELLED = "cancelled"
"""The caller has left, or waits no longer."""

UNKNOWN_OPERATION = "?"
"""Of a call that this host does not know."""

_FATES: dict[pb.Fate, str] = {
    fate: pb.Fate.Name(fate).lower()
    for fate in (pb.RETRYABLE, pb.UNKNOWN, pb.REJECTED, pb.FENCED_OFF, pb.DAMAGED)
}


def operation_of(message: pb.Call) -> str:
    """The kind of change or question; of all other calls the name of their field."""
    match message.WhichOneof("ask"):
        case "write":
            return message.write.WhichOneof("change") or UNKNOWN_OPERATION
        case "question":
            try:
                return kind_of(message.question.kind)
            except InvalidArgument:
                return UNKNOWN_OPERATION
        case other:
            return other or UNKNOWN_OPERATION


def outcome_of(result: object) -> str:
    """`OK`, or the fate of the error that a call ended with."""
    if isinstance(result, pb.Answer):
        if not result.HasField("failure"):
            return OK
        return _FATES.get(result.failure.fate, "unknown")
    return _FATES[fate_of(result)] if isinstance(result, BaseException) else OK
