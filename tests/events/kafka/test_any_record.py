"""No bytes make the codec do anything but decode or refuse, and what decodes comes back."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tierledger.events.errors import MetadataParseError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import (
    KafkaRecord,
    UnknownTags,
    decode,
    encode,
    peek_partition,
)
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
OFFSETS = st.integers(0, (1 << 63) - 1)

ids = st.binary(min_size=16, max_size=16).map(Uuid)
partitions = st.builds(
    TopicIdPartition, ids, st.integers(0, (1 << 31) - 1), st.text(max_size=40)
)
segment_ids = st.builds(RemoteLogSegmentId, partitions, ids)
states = st.sampled_from(RemoteLogSegmentState)
customs = st.none() | st.builds(CustomMetadata, st.binary(max_size=300))

tag_lists = st.lists(
    st.tuples(st.integers(1, (1 << 32) - 1), st.binary(max_size=200)), max_size=3
).map(tuple)


@st.composite
def segments(draw: st.DrawFn) -> KafkaRecord:
    kind: Any = draw(
        st.sampled_from([RemoteLogSegmentMetadata, RemoteLogSegmentMetadataSnapshot])
    )
    is_whole = kind is RemoteLogSegmentMetadata
    epochs = draw(st.dictionaries(INT32, INT64, min_size=1, max_size=5))
    value = kind(
        draw(segment_ids if is_whole else ids),
        *sorted((draw(OFFSETS), draw(OFFSETS))),
        draw(INT64),
        draw(INT32),
        draw(INT64),
        draw(INT32),
        draw(states),
        epochs,
        draw(customs),
        draw(st.booleans()),
    )
    tagged = ((epoch, draw(tag_lists)) for epoch in sorted(epochs))
    tags = UnknownTags(
        draw(tag_lists) if is_whole else (),
        draw(tag_lists) if is_whole else (),
        tuple((epoch, tags) for epoch, tags in tagged if tags),
        draw(tag_lists),
    )
    return KafkaRecord(value, tags)


updates = st.builds(
    KafkaRecord,
    st.builds(RemoteLogSegmentMetadataUpdate, segment_ids, INT64, states, INT32, customs),
    st.builds(UnknownTags, tag_lists, tag_lists, st.just(()), tag_lists, st.none()),
)

deletes = st.builds(
    KafkaRecord,
    st.builds(
        RemotePartitionDeleteMetadata,
        partitions,
        st.sampled_from(RemotePartitionDeleteState),
        INT64,
        INT32,
    ),
    st.builds(UnknownTags, tag_lists, st.just(()), st.just(()), tag_lists, st.none()),
)

records = segments() | updates | deletes


def comes_back_or_is_refused(value: bytes) -> bool:
    """Whether `value` decodes; if so, it is written again as it was."""
    try:
        record = decode(value)
    except MetadataParseError:
        return False
    assert encode(*record) == value
    return True


@given(records)
def test_any_object_is_read_as_it_was_written(record: KafkaRecord) -> None:
    value = encode(*record)

    assert decode(value) == record


@given(records)
def test_no_beginning_of_a_record_is_a_record(record: KafkaRecord) -> None:
    value = encode(*record)

    assert not any(comes_back_or_is_refused(value[:length]) for length in range(len(value)))


@given(records, st.binary(min_size=1, max_size=20))
def test_a_record_with_more_behind_it_is_refused(record: KafkaRecord, more: bytes) -> None:
    assert not comes_back_or_is_refused(encode(*record) + more)


@given(records, st.data())
def test_a_record_with_flipped_bits_comes_back_or_is_refused(
    record: KafkaRecord, data: st.DataObject
) -> None:
    value = bytearray(encode(*record))
    places = st.tuples(st.integers(0, len(value) - 1), st.integers(1, 255))

    for _ in range(20):
        at, mask = data.draw(places)
        value[at] ^= mask
        comes_back_or_is_refused(bytes(value))


@given(records, records, st.data())
def test_a_record_spliced_into_another_comes_back_or_is_refused(
    one: KafkaRecord, other: KafkaRecord, data: st.DataObject
) -> None:
    head, tail = encode(*one), encode(*other)
    until = data.draw(st.integers(0, len(head)))
    since = data.draw(st.integers(0, len(tail)))

    comes_back_or_is_refused(head[:until] + tail[since:])


@given(st.sampled_from([b"", b"\x01", b"\x01\x00\x00", b"\x01\x02\x00"]), st.binary())
@example(b"\x01\x00\x00", b"\xff" * 300)
@example(b"", b"\x80" * 300)
def test_random_bytes_come_back_or_are_refused(frame: bytes, noise: bytes) -> None:
    comes_back_or_is_refused(frame + noise)


@given(st.binary())
def test_a_peek_at_random_bytes_finds_a_partition_or_refuses(noise: bytes) -> None:
    for value in (noise, b"\x01\x01\x00" + noise):
        try:
            partition = peek_partition(value)
        except MetadataParseError:
            continue
        assert len(partition.topic_id) == 16
