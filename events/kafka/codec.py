"""Decodes and encodes the records of Kafka's `__remote_log_metadata` topic.

A value is `frame version 1 | api key | message version 0 | message`. Api keys:

    0 segment    1 segment update    2 partition delete    3 segment in a snapshot

Rule 1: `decode` returns or raises `MetadataParseError`, for any bytes.
Rule 2: `encode(*decode(value)) == value` for every value that decodes. Tagged fields of a newer
Kafka, or an unusual spelling, which an object has no place for, are kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from tierledger.events.errors import InvalidArgument, MetadataParseError
from tierledger.events.identifiers import UUID_BYTES, RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.layout import (
    EPOCH,
    FRAME_VERSION,
    HEADER_MAX,
    KEY_OF_FRAME,
    MESSAGE_VERSION,
    PARTITION,
    PARTITION_DELETE,
    PLAIN_EPOCH,
    PLAIN_SEGMENT,
    PLAIN_UPDATE,
    SEGMENT,
    SEGMENT_HEAD,
    SEGMENT_SNAPSHOT,
    SEGMENT_UPDATE,
    SIZE,
    TEXT,
    TXN_INDEX_EMPTY,
    TXN_INDEX_EMPTY_ALONE,
    UPDATE_HEAD,
)
from tierledger.events.kafka.primitives import Reader
from tierledger.events.kafka.tags import NO_TAGS, EpochTags, Tags, UnknownTags, unknown_tags
from tierledger.events.kafka.writer import KafkaValue, write_record
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

T = TypeVar("T")

__all__ = [
    "NO_TAGS",
    "KafkaRecord",
    "KafkaValue",
    "UnknownTags",
    "decode",
    "encode",
    "is_newer",
    "peek_partition",
]

PARTITIONS_KNOWN = 1024
"""Records follow each other that are of few partitions: those read last are kept."""

NO_TAG_SECTION = b"\0"
ONE = 2
"""A number of items, as it is written where it may also be null."""

_SEGMENT_STATES = tuple(RemoteLogSegmentState)
_DELETE_STATES = tuple(RemotePartitionDeleteState)
_new_uuid = bytes.__new__  # Skips the check of the length: the layout has 16 bytes.


class KafkaRecord(NamedTuple):
    """A record's object, and the record's unknown tagged fields."""

    value: KafkaValue
    tags: UnknownTags = NO_TAGS


def decode(value: bytes) -> KafkaRecord:
    """The record in `value`.

    As in Kafka, the last entry counts if a leader epoch is listed twice, and a segment may be
    in any state. Unlike in Kafka, a topic's name that is not UTF-8 is refused, because it could
    not be written again. A name that is too long and a negative partition are refused, too,
    which Kafka does elsewhere.

    Raises:
        MetadataParseError: `value` is no record of Kafka's; the message tells where and why.
    """
    plain = _plain(value)
    if plain is not None:
        return plain
    reader = Reader(value)
    key = _read_frame(reader)
    if key == SEGMENT:
        record = _read_segment(reader)
    elif key == SEGMENT_UPDATE:
        record = _read_update(reader)
    elif key == PARTITION_DELETE:
        record = _read_partition_delete(reader)
    else:
        record = _read_snapshot(reader)
    if reader.at != len(value):
        rest = value[reader.at : reader.at + 32].hex()
        raise reader.error(reader.at, "the record's end", rest)
    if reader.is_odd:
        return KafkaRecord(record.value, record.tags._replace(verbatim=value))
    return record


def _plain(value: bytes) -> KafkaRecord | None:
    """The record in `value` if it has the form of nearly all; None says nothing about it."""
    key = KEY_OF_FRAME.get(value[:3])
    if key not in {SEGMENT, SEGMENT_UPDATE} or len(value) < 4 or value[3] > 0x7F:
        return None
    end = 3 + value[3] + PARTITION.size + 1
    partition = _plain_partition(value[3:end])
    if partition is None:
        return None
    if key == SEGMENT_UPDATE:
        return _plain_update(value, end, partition)
    return _plain_segment(value, end, partition)


def _plain_segment(value: bytes, at: int, partition: TopicIdPartition) -> KafkaRecord | None:
    flag = value[at + PLAIN_SEGMENT.size :]
    is_empty = flag == TXN_INDEX_EMPTY_ALONE
    if not is_empty and flag != NO_TAG_SECTION:
        return None
    fields = PLAIN_SEGMENT.unpack_from(value, at)
    segment_id, tags, start, end, broker, max_ms, event_ms, *behind = fields
    count, epoch, offset, more, size, custom, state = behind
    if tags or more or custom or count != ONE or not 0 <= state < len(_SEGMENT_STATES):
        return None
    try:
        return _new_record(
            RemoteLogSegmentMetadata(
                RemoteLogSegmentId(partition, _new_uuid(Uuid, segment_id)),
                start,
                end,
                max_ms,
                broker,
                event_ms,
                size,
                _SEGMENT_STATES[state],
                {epoch: offset},
                None,
                is_empty,
            )
        )
    except InvalidArgument:
        return None  # Who reads it field by field says where it is wrong.


def _plain_update(value: bytes, at: int, partition: TopicIdPartition) -> KafkaRecord | None:
    if len(value) != at + PLAIN_UPDATE.size:
        return None
    segment_id, tags, broker, event_ms, custom, state, last = PLAIN_UPDATE.unpack_from(
        value, at
    )
    if tags or custom or last or not 0 <= state < len(_SEGMENT_STATES):
        return None
    segment = RemoteLogSegmentId(partition, _new_uuid(Uuid, segment_id))
    return _new_record(
        RemoteLogSegmentMetadataUpdate(segment, event_ms, _SEGMENT_STATES[state], broker, None)
    )


def _new_record(value: KafkaValue) -> KafkaRecord:
    return tuple.__new__(KafkaRecord, (value, NO_TAGS))


def peek_partition(value: bytes) -> TopicIdPartition:
    """The partition of the record `value`, whose rest is not decoded.

    Raises:
        MetadataParseError: `value` does not begin like a record of Kafka's, or is a segment in
            a snapshot, which names no partition.
    """
    reader = Reader(value)
    key = _read_frame(reader)
    if key == SEGMENT_SNAPSHOT:
        raise reader.error(1, "a record that names its partition", f"api key {key}")
    return _read_partition(reader)[0]


def is_newer(value: bytes) -> bool:
    """Whether `value` has a frame, an api key or a version that only a newer Kafka writes.

    Such a record may be about segments, so who passes it over does not know them. A first
    number from 32 on is none of Kafka's frames but text.
    """
    reader = Reader(value)
    try:
        frame, key, version = (reader.uvarint("a number") for _ in range(3))
    except MetadataParseError:
        return False
    if frame != FRAME_VERSION:
        return FRAME_VERSION < frame < TEXT
    return max(key, version) <= HEADER_MAX and (
        key > SEGMENT_SNAPSHOT or version > MESSAGE_VERSION
    )


def encode(value: KafkaValue, tags: UnknownTags = NO_TAGS) -> bytes:
    """The record of `value`, as Kafka writes it, with `tags` in their places.

    Raises:
        InvalidArgument: The topic's name or the partition does not fit Kafka's field.
    """
    written = write_record(value, tags)
    if tags.verbatim is not None:
        was = decode(tags.verbatim)
        if write_record(was.value, was.tags) == written:
            return tags.verbatim
    return written


def _read_frame(reader: Reader) -> int:
    """The api key in the record's frame, whose versions are checked."""
    key = KEY_OF_FRAME.get(reader.value[:3])
    if key is not None:
        reader.at = 3
        return key
    _read_header(reader, "frame version", FRAME_VERSION, FRAME_VERSION)
    key = _read_header(reader, "api key", SEGMENT, SEGMENT_SNAPSHOT)
    _read_header(reader, f"version of api key {key}", MESSAGE_VERSION, MESSAGE_VERSION)
    return key


def _read_header(reader: Reader, what: str, lowest: int, highest: int) -> int:
    at = reader.at
    number = reader.uvarint(what)
    if number > HEADER_MAX:
        raise reader.error(at, f"{what} of at most {HEADER_MAX}", number)
    if not lowest <= number <= highest:
        known = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
        raise reader.error(at, f"{what} {known}", number)
    return number


def _made(at: int, kind: Callable[..., T], *fields: Any) -> T:  # noqa: ANN401
    """The object with `fields`, which were read from position `at` on."""
    try:
        return kind(*fields)
    except InvalidArgument as error:
        raise MetadataParseError(f"position {at}: {error}") from error


def _read_partition(reader: Reader) -> tuple[TopicIdPartition, Tags]:
    at, value = reader.at, reader.value
    if at < len(value) and value[at] < 0x80:  # A name of usual length.
        end = at + value[at] + PARTITION.size + 1
        known = _plain_partition(value[at:end])
        if known is not None:
            reader.at = end
            return known, ()
    return _read_any_partition(reader)


@lru_cache(PARTITIONS_KNOWN)
def _plain_partition(data: bytes) -> TopicIdPartition | None:
    """The partition that `data` is, without tagged fields; None if it is anything else."""
    reader = Reader(data)
    try:
        found, tags = _read_any_partition(reader)
    except MetadataParseError:
        return None
    return found if not tags and reader.at == len(data) else None


def _read_any_partition(reader: Reader) -> tuple[TopicIdPartition, Tags]:
    at = reader.at
    topic = reader.string("the topic's name")
    topic_id, partition = reader.unpack(PARTITION, "topic id and partition")
    known = _made(at, TopicIdPartition, _new_uuid(Uuid, topic_id), partition, topic)
    return known, reader.tags()


def _read_segment_id(reader: Reader) -> tuple[RemoteLogSegmentId, Tags, Tags]:
    topic_id_partition, partition_tags = _read_partition(reader)
    segment_id = reader.raw(UUID_BYTES, "the segment's id")
    tags = reader.tags()
    return (
        RemoteLogSegmentId(topic_id_partition, _new_uuid(Uuid, segment_id)),
        partition_tags,
        tags,
    )


def _read_segment(reader: Reader) -> KafkaRecord:
    segment_id, partition_tags, segment_tags = _read_segment_id(reader)
    at = reader.at
    fields, epoch_tags, record_tags = _read_segment_body(reader)
    value = _made(at, RemoteLogSegmentMetadata, segment_id, *fields)
    return KafkaRecord(
        value, unknown_tags(partition_tags, segment_tags, epoch_tags, record_tags)
    )


def _read_snapshot(reader: Reader) -> KafkaRecord:
    segment_id = reader.raw(UUID_BYTES, "the segment's id")
    at = reader.at
    fields, epoch_tags, record_tags = _read_segment_body(reader)
    value = _made(at, RemoteLogSegmentMetadataSnapshot, Uuid(segment_id), *fields)
    return KafkaRecord(value, unknown_tags((), (), epoch_tags, record_tags))


def _read_segment_body(
    reader: Reader,
) -> tuple[tuple[Any, ...], EpochTags, Tags]:
    """The end of both segment records: fields in their constructors' order, and tags."""
    head = reader.unpack(SEGMENT_HEAD, "offsets, broker and times")
    start, end, broker, max_timestamp_ms, event_timestamp_ms = head
    epochs, epoch_tags = _read_epochs(reader)
    (size,) = reader.unpack(SIZE, "the segment's size")
    custom = _read_custom(reader)
    state = _read_state(reader, _SEGMENT_STATES)
    txn_index_empty, tags = _read_txn_index_empty(reader)
    fields = (
        start,
        end,
        max_timestamp_ms,
        broker,
        event_timestamp_ms,
        size,
        state,
        epochs,
        custom,
        txn_index_empty,
    )
    return fields, epoch_tags, tags


def _read_update(reader: Reader) -> KafkaRecord:
    segment_id, partition_tags, segment_tags = _read_segment_id(reader)
    broker, event_timestamp_ms = reader.unpack(UPDATE_HEAD, "broker and event time")
    custom = _read_custom(reader)
    state = _read_state(reader, _SEGMENT_STATES)
    tags = unknown_tags(partition_tags, segment_tags, (), reader.tags())
    return KafkaRecord(
        RemoteLogSegmentMetadataUpdate(segment_id, event_timestamp_ms, state, broker, custom),
        tags,
    )


def _read_partition_delete(reader: Reader) -> KafkaRecord:
    topic_id_partition, partition_tags = _read_partition(reader)
    broker, event_timestamp_ms = reader.unpack(UPDATE_HEAD, "broker and event time")
    state = _read_state(reader, _DELETE_STATES)
    tags = unknown_tags(partition_tags, (), (), reader.tags())
    return KafkaRecord(
        RemotePartitionDeleteMetadata(topic_id_partition, state, event_timestamp_ms, broker),
        tags,
    )


def _read_epochs(reader: Reader) -> tuple[dict[int, int], EpochTags]:
    at = reader.at
    count = reader.uvarint("the number of leader epochs") - 1
    if count < 1:
        found = "null" if count < 0 else "none"
        raise reader.error(at, "one leader epoch or more", found)
    end = reader.at + count * PLAIN_EPOCH.size
    if end > len(reader.value):
        room = f"as many leader epochs as {len(reader.value) - reader.at} bytes can hold"
        raise reader.error(at, room, count)
    epochs: dict[int, int] = {}
    for epoch, offset, tag_count in PLAIN_EPOCH.iter_unpack(reader.value[reader.at : end]):
        if tag_count:  # The following entries were cut at wrong places: read them singly.
            return _read_tagged_epochs(reader, count)
        epochs[epoch] = offset
    reader.at = end
    if count > 1:
        reader.is_odd |= len(epochs) < count or list(epochs) != sorted(epochs)
    return epochs, ()


def _read_tagged_epochs(reader: Reader, count: int) -> tuple[dict[int, int], EpochTags]:
    epochs: dict[int, int] = {}
    tagged: dict[int, Tags] = {}
    for _ in range(count):
        epoch, offset = reader.unpack(EPOCH, "a leader epoch and its offset")
        epochs[epoch] = offset
        tags = reader.tags()
        if tags:
            tagged[epoch] = tags
    reader.is_odd |= len(epochs) < count or list(epochs) != sorted(epochs)
    return epochs, tuple(tagged.items())


def _read_custom(reader: Reader) -> CustomMetadata | None:
    data = reader.nullable_bytes("custom metadata")
    return None if data is None else CustomMetadata(data)


def _read_state(reader: Reader, states: tuple[Any, ...]) -> Any:  # noqa: ANN401 - Of either kind.
    number = reader.int8("a state")
    if not 0 <= number < len(states):
        raise reader.error(reader.at - 1, f"a state from 0 to {len(states) - 1}", number)
    return states[number]


def _read_txn_index_empty(reader: Reader) -> tuple[bool, Tags]:
    """The flag, and the record's other tagged fields."""
    at = reader.at
    if reader.value[at:] == TXN_INDEX_EMPTY_ALONE:
        reader.at = len(reader.value)
        return True, ()
    tags = reader.tags()
    if not tags:
        return False, ()
    flags = [data for tag, data in tags if tag == TXN_INDEX_EMPTY]
    for data in flags:
        if len(data) != 1:
            raise reader.error(at, "one byte for TxnIndexEmpty", data.hex() or "none")
    if flags and (len(flags) > 1 or tags[0] != (TXN_INDEX_EMPTY, b"\x01")):
        reader.is_odd = True
    others = tuple(pair for pair in tags if pair[0] != TXN_INDEX_EMPTY)
    return bool(flags) and flags[-1] != b"\x00", others
