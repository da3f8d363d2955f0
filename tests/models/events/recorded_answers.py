"""The slow model's answers to the questions of a recorded trace."""

from collections.abc import Iterable, Iterator
from typing import Any

from tierledger.conformance.answers import (
    AnsweredQuestion,
    QueryResult,
    Question,
    grouped_by_after,
)
from tierledger.conformance.trace import TraceRecord
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import decode
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.simulation.checkers.slow.model import (
    Add,
    PartitionDelete,
    Record,
    Segment,
    SlowPartition,
    Update,
)


def answer_all(
    records: Iterable[TraceRecord], questions: Iterable[Question]
) -> Iterator[AnsweredQuestion]:
    """Answer each question from the records before its point of the trace."""
    partitions: dict[TopicIdPartition, SlowPartition] = {}
    ahead = [one for one in records if one.value is not None]
    for after, run in grouped_by_after(questions):
        later = []
        for record in ahead:
            if after is not None and record.offset > after.get(record.partition, -1):
                later.append(record)
            else:
                partition, plain = plain_record(record.value or b"")
                partitions.setdefault(partition, SlowPartition()).apply(plain)
        ahead = later
        for question in run:
            asked = TopicIdPartition(question.topic_id, question.partition, question.topic)
            model = partitions.get(asked) or SlowPartition()
            yield AnsweredQuestion(question, QueryResult(_answer(model, question)))


def plain_record(value: bytes) -> tuple[TopicIdPartition, Record]:
    """A Kafka record's partition, and the record in the form of the slow model."""
    match decode(value).value:
        case RemoteLogSegmentMetadata() as added:
            return added.topic_id_partition, Add(
                segment_id=bytes(added.remote_log_segment_id.id),
                start_offset=added.start_offset,
                end_offset=added.end_offset,
                epochs=added.segment_leader_epochs,
                size=added.segment_size_in_bytes,
                max_timestamp_ms=added.max_timestamp_ms,
                broker_id=added.broker_id,
                event_timestamp_ms=added.event_timestamp_ms,
                custom_metadata=_plain(added.custom_metadata),
                txn_index_empty=added.txn_index_empty,
                state=int(added.state),
            )
        case RemoteLogSegmentMetadataUpdate() as update:
            return update.topic_id_partition, Update(
                segment_id=bytes(update.remote_log_segment_id.id),
                state=int(update.state),
                broker_id=update.broker_id,
                event_timestamp_ms=update.event_timestamp_ms,
                custom_metadata=_plain(update.custom_metadata),
            )
        case RemotePartitionDeleteMetadata() as deletion:
            return deletion.topic_id_partition, PartitionDelete(
                int(deletion.state), deletion.broker_id, deletion.event_timestamp_ms
            )
        case snapshot:
            raise ValueError(f"expected a record that names its partition, found {snapshot}")


def _plain(custom: CustomMetadata | None) -> bytes | None:
    return None if custom is None else custom.value


def _answer(model: SlowPartition, question: Question) -> object:
    epoch, offset = question.epoch or 0, question.offset or 0
    match question.query:
        case "lookup":
            return _text(model.lookup(epoch, offset))
        case "next_txn":
            return _text(model.next_txn(epoch, offset))
        case "highest_offset":
            return model.highest(epoch)
        case "size":
            return model.size(epoch)
        case "list_epoch":
            return [_text(one) for one in model.list_epoch(epoch)]
        case _:
            return [_listed(one) for one in model.list_all()]


def _text(segment_id: bytes | None) -> str | None:
    return None if segment_id is None else str(Uuid(segment_id))


def _listed(segment: Segment) -> dict[str, Any]:
    added, custom = segment.added, segment.custom_metadata
    return {
        "id": _text(added.segment_id),
        "state": RemoteLogSegmentState(segment.state).name,
        "start_offset": added.start_offset,
        "end_offset": added.end_offset,
        "size": added.size,
        "max_timestamp_ms": added.max_timestamp_ms,
        "broker_id": segment.broker_id,
        "event_timestamp_ms": segment.event_timestamp_ms,
        "custom_metadata_hex": None if custom is None else custom.hex(),
        "txn_index_empty": added.txn_index_empty,
    }
