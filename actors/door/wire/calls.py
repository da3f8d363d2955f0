"""Calls about a partition: `calls.Call` as a message, and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    STORAGE,
    Call,
    CommandCall,
    PageCall,
    QueryCall,
    ReadyCall,
)
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.segments import (
    PARTITIONS_KEPT,
    added_metadata,
    cause_of,
    claim_message,
    claim_of,
    deletion_message,
    deletion_of,
    key_message,
    key_of,
    partition_of,
    put_added,
    put_update,
    update_of,
)
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.kafka import codec as kafka_codec
from tierledger.events.log_events import Origin
from tierledger.events.typed_fields import INT32_MAX, REQUEST_ID_BYTES_MAX, checked, shown

N = TypeVar("N", pb.Role, pb.QuestionKind)

DEADLINE_MS = 30_000
"""Deadline of a call that names none."""

_ROLES: dict[str, pb.Role] = {
    LEADER: pb.LEADER,
    FOLLOWER: pb.FOLLOWER,
    STORAGE: pb.STORAGE,
}
_KINDS: dict[str, pb.QuestionKind] = {
    "lookup": pb.LOOKUP,
    "highest_offset": pb.HIGHEST_OFFSET,
    "size": pb.SIZE,
    "summary": pb.SUMMARY,
    "next_txn": pb.NEXT_TXN_SEGMENT,
    "list": pb.LIST,
    "list_epoch": pb.LIST_EPOCH,
}
_ROLE_NAMES = {number: name for name, number in _ROLES.items()}
_KIND_NAMES = {number: name for name, number in _KINDS.items()}


def kind_number(kind: str) -> pb.QuestionKind:
    """The number of a kind of query."""
    return _numbered(_KINDS, kind, "kind")


def kind_of(number: pb.QuestionKind) -> str:
    """The kind of query that has this number.

    Raises:
        InvalidArgument: No kind has it.
    """
    return _named(_KIND_NAMES, number, "kind")


# Out.


def put_call(call: Call, into: pb.Call) -> None:
    """Write `call` into the message `into`.

    Raises:
        InvalidArgument: `call` is no call that clients may make.
    """
    match call:
        case CommandCall():
            put_write(call, into.write)
        case QueryCall(key, role, query, position_min, _):
            question = into.question
            partition = question.partition
            partition.topic_id, partition.partition = key
            question.role = _numbered(_ROLES, role, "role")
            question.kind = kind_number(query.kind)
            question.epoch = query.epoch
            question.offset = query.offset
            if position_min >= 0:
                question.position_min = position_min
        case ReadyCall():
            ready = into.ready
            ready.partition.CopyFrom(key_message(call.key))
            ready.role = _numbered(_ROLES, call.role, "role")
            ready.claim.CopyFrom(claim_message(call.claim))
        case PageCall():
            into.next_page.cursor = call.cursor
        case _:
            raise InvalidArgument(f"no call of a client: {shown(call)}")


def put_write(call: CommandCall, into: pb.Write) -> None:
    """Write the change of `call` into the message `into`; raises as `put_call` does."""
    command = call.command
    match command:
        case cmd.AddSegment(claim, origin, metadata):
            tip = metadata.remote_log_segment_id.topic_id_partition
            into.MergeFromString(
                _packed_head(tip.topic_id, tip.partition, tip.topic, claim, origin.broker_id)
            )
            put_added(metadata, into.add)
        case cmd.UpdateSegment(claim, origin, update, guarded_for):
            tip = update.remote_log_segment_id.topic_id_partition
            into.MergeFromString(
                _packed_head(tip.topic_id, tip.partition, tip.topic, claim, origin.broker_id)
            )
            put_update(update, guarded_for, into.update)
        case cmd.PutPartitionDelete(claim, origin, deletion):
            tip = deletion.topic_id_partition
            into.MergeFromString(
                _packed_head(tip.topic_id, tip.partition, tip.topic, claim, origin.broker_id)
            )
            into.delete.CopyFrom(deletion_message(deletion))
        case cmd.ImportRecords(claim, records):
            into.MergeFromString(_packed_head(*call.key, "", claim, None))
            into.import_records.records.extend(map(_record_message, records))
            return
        case _:
            raise InvalidArgument(f"no change that a client may make: {shown(command)}")
    if origin.request_id is not None:
        into.request_id = origin.request_id


@lru_cache(maxsize=PARTITIONS_KEPT)
def _packed_head(
    topic_id: bytes,
    partition: int,
    topic: str,
    claim: cmd.Claim,
    origin_broker_id: int | None,
) -> bytes:
    """The fields that all writes of a broker to a partition share, as bytes of a `pb.Write`.

    To merge these bytes into a message costs a fourth of setting the fields.
    """
    return pb.Write(
        partition=pb.Partition(topic_id=topic_id, partition=partition, topic=topic),
        claim=claim_message(claim),
        origin_broker_id=origin_broker_id,
    ).SerializeToString()


def _record_message(one: cmd.ImportedRecord) -> pb.ImportedRecord:
    return pb.ImportedRecord(
        metadata_partition=one.metadata_partition,
        offset=one.offset,
        timestamp_ms=one.timestamp_ms,
        record=kafka_codec.encode(*one.record),
    )


def _numbered(numbers: Mapping[str, N], name: str, what: str) -> N:
    number = numbers.get(name)
    if number is None:
        raise InvalidArgument(f"expected one of {', '.join(numbers)} for {what}, got {name!r}")
    return number


# In.


def call_of(message: pb.Call) -> CommandCall | QueryCall | ReadyCall | PageCall | None:
    """The call about a partition in a message; None if it is another call.

    Raises:
        InvalidArgument: A field is wrong; the error names it.
        MetadataParseError: A record of Kafka's cannot be parsed.
    """
    match message.WhichOneof("ask"):
        case "write":
            return write_of(message.write)
        case "question":
            return _kind_of(message)
        case "ready":
            ready = message.ready
            role = _named(_ROLE_NAMES, ready.role, "role")
            claim = claim_of(_given(ready, "claim").claim)
            return ReadyCall(key_of(ready.partition), role, claim)
        case "next_page":
            call: PageCall = checked(PageCall, PageCall(message.next_page.cursor), "next_page")
            return call
        case _:
            return None


def id_of(message: pb.Call) -> bytes:
    """The id of a call, no longer than it may be; empty if it has none."""
    return (message.write.request_id or message.request_id)[:REQUEST_ID_BYTES_MAX]


def check_named(message: pb.Call) -> None:
    """Refuse a call whose id is too long.

    Raises:
        InvalidArgument: It is.
    """
    _check_id(message.request_id)


def _check_id(request_id: bytes) -> None:
    if len(request_id) > REQUEST_ID_BYTES_MAX:
        raise InvalidArgument(
            f"expected 0 to {REQUEST_ID_BYTES_MAX} bytes for request_id, got {len(request_id)}"
        )


def write_of(message: pb.Write) -> CommandCall:
    """The write in a message; raises as `call_of` does."""
    tip, key = partition_of(message.partition)
    claim = claim_of(_given(message, "claim").claim)
    request_id = message.request_id if message.HasField("request_id") else None
    if request_id is not None:
        _check_id(request_id)
    command = _command(message, tip, claim, Origin(message.origin_broker_id, request_id))
    return CommandCall(key, command)


def _command(
    message: pb.Write, tip: TopicIdPartition, claim: cmd.Claim, origin: Origin
) -> cmd.Command:
    match message.WhichOneof("change"):
        case "add":
            return cmd.AddSegment(claim, origin, added_metadata(tip, message.add))
        case "update":
            update = update_of(tip, message.update)
            return cmd.UpdateSegment(claim, origin, update, cause_of(message.update))
        case "delete":
            return cmd.PutPartitionDelete(claim, origin, deletion_of(tip, message.delete))
        case "import_records":
            records = message.import_records.records
            return cmd.ImportRecords(claim, tuple(map(_record_of, records)))
        case _:
            raise InvalidArgument("expected a change that this host knows for change, got none")


def _record_of(message: pb.ImportedRecord) -> cmd.ImportedRecord:
    if message.offset < 0:
        raise InvalidArgument(f"expected 0 or more for offset, got {message.offset}")
    return cmd.ImportedRecord(
        message.metadata_partition,
        message.offset,
        message.timestamp_ms,
        kafka_codec.decode(message.record),
    )


def _kind_of(message: pb.Call) -> QueryCall:
    question = message.question
    position_min = -1
    if question.HasField("position_min"):
        position_min = question.position_min
    return QueryCall(
        key_of(question.partition),
        _named(_ROLE_NAMES, question.role, "role"),
        Query(kind_of(question.kind), question.epoch, question.offset),
        position_min,
        min(message.deadline_ms or DEADLINE_MS, INT32_MAX),
    )


def _named(names: Mapping[N, str], number: N, what: str) -> str:
    name = names.get(number)
    if name is None:
        known = ", ".join(map(str, names))
        raise InvalidArgument(f"expected one of {known} for {what}, got {number}")
    return name


def _given(message: pb.Write | pb.ReadyQuestion, field: str) -> pb.Write | pb.ReadyQuestion:
    """`message`, if it has the field: protobuf would read an unset one as zeros."""
    if not message.HasField(field):
        raise InvalidArgument(f"expected a value for {field}, got none")
    return message
