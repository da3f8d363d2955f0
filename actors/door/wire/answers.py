"""Hosts' answers about partitions, as messages, and back."""

from __future__ import annotations

from typing import Any

from tierledger.actors.calls import Answered
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.failures import error_of, failure_message
from tierledger.events.errors import OutcomeUnknown
from tierledger.events.partition.answers import PartitionSummary


def put_result(result: object, into: pb.Answer) -> None:
    """Write the result of a call about a partition, a value or an error, into `into`."""
    if type(result) is int:
        into.written.position = result
    elif isinstance(result, Answered):
        _put_found(result, into.found)
    elif type(result) is bool:
        into.ready.is_ready = result
    elif isinstance(result, BaseException):
        into.failure.CopyFrom(failure_message(result))
    else:
        error = OutcomeUnknown(f"no answer of the protocol: a {type(result).__name__}")
        into.failure.CopyFrom(failure_message(error))


def _put_found(answered: Answered, into: pb.Found) -> None:
    into.position = answered.position
    if answered.stale:
        into.stale = True
    if answered.cursor is not None:
        into.cursor = answered.cursor
    value: Any = answered.value
    if type(value) is bytes:
        into.row = value
    elif type(value) is int:
        into.number = value
    elif type(value) is list:
        into.rows.rows.extend(value)
        into.rows.SetInParent()  # So that an empty list is sent as a list.
    elif value is not None:
        states, sizes, epochs, deletion = value
        into.summary.CopyFrom(
            pb.Summary(
                count_by_state=states,
                bytes_by_state=sizes,
                leader_epochs=epochs,
                deletion=None if deletion is None else deletion + 1,
            )
        )


def result_of(answer: pb.Answer) -> Any:  # noqa: ANN401 - Whatever the call comes to.
    """The result of a call about a partition: a value, or an error as a value."""
    match answer.WhichOneof("result"):
        case "written":
            return answer.written.position
        case "found":
            return _answered(answer.found)
        case "ready":
            return answer.ready.is_ready
        case "failure":
            return error_of(answer.failure)
        case other:
            return OutcomeUnknown(f"expected an answer about a partition, got {other}")


def _answered(found: pb.Found) -> Answered:
    value: object = None
    match found.WhichOneof("value"):
        case "row":
            value = found.row
        case "number":
            value = found.number
        case "rows":
            value = list(found.rows.rows)
        case "summary":
            value = tuple(_summary(found.summary))
        case _:
            pass  # The answer is None.
    cursor = found.cursor if found.HasField("cursor") else None
    return Answered(value, found.position, cursor, found.stale)


def _summary(message: pb.Summary) -> PartitionSummary:
    return PartitionSummary(
        tuple(message.count_by_state),
        tuple(message.bytes_by_state),
        tuple(message.leader_epochs),
        message.deletion - 1 if message.HasField("deletion") else None,
    )
