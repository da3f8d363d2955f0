"""Kafka's records are read as Kafka reads them, and written back byte for byte."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from msgspec.structs import replace

from tierledger.events.errors import CorruptLog, InvalidArgument, MetadataParseError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import (
    NO_TAGS,
    KafkaValue,
    UnknownTags,
    decode,
    encode,
    is_newer,
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

TRACES = Path(__file__).parents[2] / "traces"
RECORDED = sorted(
    [*TRACES.glob("*/records.jsonl.gz"), *TRACES.glob("histories/*/records.jsonl.gz")]
)

FOO = TopicIdPartition(Uuid(bytes(range(0x01, 0x11))), 0, "foo")
SEGMENT_ID = RemoteLogSegmentId(FOO, Uuid(bytes(range(0x11, 0x21))))
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
EVENT_TIME = 1_700_000_000_000
CUSTOM = CustomMetadata(bytes(range(4)))

A = RemoteLogSegmentMetadata(
    SEGMENT_ID, 0, 100, -1, 1, EVENT_TIME, 1024, STARTED, {0: 0, 1: 20, 2: 80}, CUSTOM
)
A2 = replace(A, segment_leader_epochs={0: 0}, custom_metadata=None)
A3 = replace(A2, custom_metadata=CustomMetadata(b""), state=FINISHED)
B = RemoteLogSegmentMetadataUpdate(SEGMENT_ID, EVENT_TIME, FINISHED, 2, CUSTOM)
B2 = replace(B, state=DELETING, custom_metadata=None)
C = RemotePartitionDeleteMetadata(FOO, MARKED, EVENT_TIME, 0)
D = RemoteLogSegmentMetadataSnapshot(
    SEGMENT_ID.id, 0, 100, -1, 1, EVENT_TIME, 1024, FINISHED, {0: 0, 1: 20, 2: 80}, CUSTOM
)
E = replace(B, event_timestamp_ms=1, custom_metadata=CustomMetadata(bytes(200)))


def tight(text: str) -> str:
    """Hex digits without the spaces that make them readable."""
    return text.replace(" ", "")


PARTITION_HEX = tight("04 666f6f 0102030405060708090a0b0c0d0e0f10 00000000 00")
ID_HEX = PARTITION_HEX + tight("1112131415161718191a1b1c1d1e1f20 00")
HEAD_HEX = tight("0000000000000000 0000000000000064 00000001 ffffffffffffffff 0000018bcfe56800")
ONE_HEX = tight("02 00000000 0000000000000000 00")
THREE_HEX = tight(
    "04 00000000 0000000000000000 00 00000001 0000000000000014 00 00000002 0000000000000050 00"
)

A_HEX = "010000" + ID_HEX + HEAD_HEX + THREE_HEX + tight("00000400 05 00010203 00 00")
A2_HEX = "010000" + ID_HEX + HEAD_HEX + ONE_HEX + tight("00000400 00 00 00")
A3_HEX = "010000" + ID_HEX + HEAD_HEX + ONE_HEX + tight("00000400 01 01 00")
B_HEX = "010100" + ID_HEX + tight("00000002 0000018bcfe56800 05 00010203 01 00")
B2_HEX = "010100" + ID_HEX + tight("00000002 0000018bcfe56800 00 02 00")
C_HEX = "010200" + PARTITION_HEX + tight("00000000 0000018bcfe56800 00 00")
D_ID_HEX = "010300" + tight("1112131415161718191a1b1c1d1e1f20")
D_HEX = D_ID_HEX + HEAD_HEX + THREE_HEX + tight("00000400 05 00010203 01 00")
E_HEX = "010100" + ID_HEX + tight("00000002 0000000000000001 c901") + 200 * "00" + "0100"

WRITTEN_BY_KAFKA: dict[str, tuple[KafkaValue, str, int]] = {
    "A": (A, A_HEX, 132),
    "A2": (A2, A2_HEX, 102),
    "A3": (A3, A3_HEX, 102),
    "B": (B, B_HEX, 64),
    "B2": (B2, B2_HEX, 60),
    "C": (C, C_HEX, 42),
    "D": (D, D_HEX, 106),
    "E": (E, E_HEX, 261),
}
"""The bytes that Kafka's own serde made of each object, and their length."""


@pytest.mark.parametrize("name", WRITTEN_BY_KAFKA)
def test_an_object_is_written_and_read_as_kafka_does(name: str) -> None:
    value, text, length = WRITTEN_BY_KAFKA[name]

    assert encode(value).hex() == text
    assert len(encode(value)) == length
    assert decode(bytes.fromhex(text)) == (value, NO_TAGS)


def test_the_topics_name_is_read_although_it_is_no_part_of_the_identity() -> None:
    value = decode(bytes.fromhex(B_HEX)).value

    assert isinstance(value, RemoteLogSegmentMetadataUpdate)
    assert value.topic_id_partition.topic == "foo"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_every_recorded_record_comes_back_byte_for_byte(path: Path) -> None:
    with gzip.open(path, "rt") as lines:
        values = [bytes.fromhex(json.loads(line)["value_hex"]) for line in lines]

    records = [decode(value) for value in values]

    assert values
    assert [encode(*record) for record in records] == values
    assert {record.tags for record in records} == {NO_TAGS}


def test_there_are_recorded_records_to_read() -> None:
    assert len(RECORDED) >= 37


# Tagged fields.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (replace(A2, txn_index_empty=True), A2_HEX[:-2] + "01000101"),
        (replace(D, txn_index_empty=True), D_HEX[:-2] + "01000101"),
    ],
    ids=["segment", "snapshot"],
)
def test_an_empty_transaction_index_is_a_tagged_field(value: KafkaValue, text: str) -> None:
    assert encode(value).hex() == text
    assert decode(bytes.fromhex(text)) == (value, NO_TAGS)


@pytest.mark.parametrize(
    ("head", "newer"),
    [
        ("010000", False),
        ("010300", False),
        ("010001", True),
        ("010302", True),
        ("010400", True),
        ("020000", True),
        ("1f0000", True),
        ("200000", False),
        ("ff", False),
        ("01", False),
        ("018080028000", False),
        ("00ffff", False),
    ],
)
def test_what_only_a_newer_kafka_writes_is_told_from_text_and_damage(
    head: str, newer: bool
) -> None:
    assert is_newer(bytes.fromhex(head)) is newer


def test_unknown_tagged_fields_are_kept_at_every_level() -> None:
    text = (
        tight("010000 04 666f6f 0102030405060708090a0b0c0d0e0f10 00000000 01 07 01 aa")
        + tight("1112131415161718191a1b1c1d1e1f20 02 03 02 bbbb ac02 00")
        + HEAD_HEX
        + tight("03 00000000 0000000000000000 00 00000001 0000000000000014 01 00 01 cc")
        + tight("00000400 00 00 02 00 01 01 05 03 dddddd")
    )

    value, tags = decode(bytes.fromhex(text))

    one_epoch_more = replace(A2, segment_leader_epochs={0: 0, 1: 20}, txn_index_empty=True)
    assert value == one_epoch_more
    assert tags == UnknownTags(
        partition=((7, b"\xaa"),),
        segment=((3, b"\xbb\xbb"), (300, b"")),
        epochs=((1, ((0, b"\xcc"),)),),
        record=((5, b"\xdd\xdd\xdd"),),
    )
    assert encode(value, tags).hex() == text


def test_tag_0_of_an_update_is_none_of_ours() -> None:
    text = B_HEX[:-2] + "01000107"

    value, tags = decode(bytes.fromhex(text))

    assert value == B
    assert tags == UnknownTags(record=((0, b"\x07"),))
    assert encode(value, tags).hex() == text


def test_kept_tags_go_with_a_changed_object() -> None:
    value, tags = decode(bytes.fromhex(C_HEX[:-2] + "010901ff"))
    assert isinstance(value, RemotePartitionDeleteMetadata)

    text = encode(replace(value, broker_id=5), tags).hex()

    assert text == C_HEX.replace("000000000000018b", "000000050000018b")[:-2] + "010901ff"


TWO_HEX = tight("03 00000001 0000000000000014 00 00000000 0000000000000000 00")
TWICE_HEX = tight("03 00000000 0000000000000014 00 00000000 0000000000000000 00")
TWICE_TAGGED_HEX = tight("03 00000000 0000000000000014 010100 00000000 0000000000000000 00")
TWO_EPOCHS = replace(A2, segment_leader_epochs={0: 0, 1: 20})
NO_TXN_INDEX = replace(A2, txn_index_empty=True)

ODD_SPELLINGS = {
    "frame in more bytes": ("8100" + A2_HEX[2:], A2),
    "length of the name in more bytes": ("0100008400" + A2_HEX[8:], A2),
    "no tags in more bytes": (A2_HEX[:-2] + "808000", A2),
    "no custom metadata in more bytes": (A2_HEX[:-6] + "80000000", A2),
    "epochs descending": (A2_HEX.replace(ONE_HEX, TWO_HEX), TWO_EPOCHS),
    "an epoch twice": (A2_HEX.replace(ONE_HEX, TWICE_HEX), A2),
    "an epoch twice, with tags": (A2_HEX.replace(ONE_HEX, TWICE_TAGGED_HEX), A2),
    "false written out": (A2_HEX[:-2] + tight("01 00 01 00"), A2),
    "true as 2": (A2_HEX[:-2] + tight("01 00 01 02"), NO_TXN_INDEX),
    "the flag behind a tag": (A2_HEX[:-2] + tight("02 03 00 00 01 01"), NO_TXN_INDEX),
    "the flag twice": (A2_HEX[:-2] + tight("02 00 01 01 00 01 00"), A2),
}


@pytest.mark.parametrize("name", ODD_SPELLINGS)
def test_an_odd_spelling_is_read_and_kept(name: str) -> None:
    text, expected = ODD_SPELLINGS[name]

    value, tags = decode(bytes.fromhex(text))

    assert value == expected
    assert tags.verbatim == bytes.fromhex(text)
    assert encode(value, tags).hex() == text


def test_an_odd_spelling_is_not_used_for_another_object() -> None:
    value, tags = decode(bytes.fromhex(A2_HEX[:-2] + "01000100"))
    assert isinstance(value, RemoteLogSegmentMetadata)
    renamed = replace(
        value,
        remote_log_segment_id=RemoteLogSegmentId(replace(FOO, topic="bar"), SEGMENT_ID.id),
    )

    assert encode(renamed, tags).hex() == A2_HEX.replace("666f6f", b"bar".hex())


@pytest.mark.parametrize(
    "tags",
    [
        NO_TAGS,
        UnknownTags(record=((5, b"\x00"), (300, b""))),
        UnknownTags(((1, b"a"),), ((2, b"b"),), ((0, ((3, b"c"),)),), (), b"whole"),
    ],
    ids=["none", "record", "all"],
)
def test_tags_survive_as_plain_data(tags: UnknownTags) -> None:
    stored = msgpack.packb(tags.to_plain())

    assert UnknownTags.from_plain(msgpack.unpackb(stored)) == tags
    assert UnknownTags.from_plain(msgpack.unpackb(stored, use_list=False)) == tags


def test_no_tags_cost_nothing_to_store() -> None:
    assert NO_TAGS.to_plain() is None


# What is refused.

REFUSED = {
    "nothing": ("", "position 0: expected frame version, found the record's end after 0 bytes"),
    "frame 0": ("00" + A_HEX[2:], "position 0: expected frame version 1, found 0"),
    "frame 2": ("02" + A_HEX[2:], "position 0: expected frame version 1, found 2"),
    "frame above 16 bits": ("808002" + A_HEX[2:], "position 0: .* at most 32767, found 32768"),
    "api key 4": ("0104" + A_HEX[4:], "position 1: expected api key 0 to 3, found 4"),
    "version 1": ("010001" + A_HEX[6:], "position 2: .*version of api key 0 0, found 1"),
    "one byte more": (A_HEX + "2a", "position 132: expected the record's end, found 2a"),
    "one byte less": (A_HEX[:-2], "position 131: .*tagged fields, found the record's end"),
    "no name": ("01000000" + A_HEX[14:], "position 3: expected the topic's name, found null"),
    "a long name": (
        "010000818002" + 32768 * "61" + A_HEX[14:],
        "position 3: expected at most 32767 bytes for the topic's name, found 32768",
    ),
    "a name that is cut off": ("0100000466", "position 4: expected 3 bytes of the topic"),
    "a name not in UTF-8": (
        "01000004ff6f6f" + A_HEX[14:],
        "position 4: expected UTF-8 for the topic's name, found ff6f6f",
    ),
    "a number of six bytes": (
        "010000808080808001",
        "position 3: .* to end within 5 bytes, found 8080808080",
    ),
    "a number of 33 bits": ("0100008080808010", "position 3: .*at most 32 bits .*4294967296"),
    "a number that is cut off": ("0100008080", "position 3: .*the record's end after 5 bytes"),
    "a negative start": (
        A_HEX.replace(HEAD_HEX, "ffffffffffffffff" + HEAD_HEX[16:]),
        "position 45: expected 0 or more for start_offset, got -1",
    ),
    "an end before the start": (
        A_HEX.replace(HEAD_HEX[:32], "00000000000000650000000000000064", 1),
        "position 45: expected an end_offset of 101 or more, got 100",
    ),
    "an end before the start in a snapshot": (
        D_HEX.replace(HEAD_HEX[:32], "00000000000000650000000000000064", 1),
        "position 19: expected an end_offset of 101 or more, got 100",
    ),
    "null epochs": (
        A2_HEX.replace(ONE_HEX, "00"),
        "position 81: expected one leader epoch or more, found null",
    ),
    "no epochs": (
        A2_HEX.replace(ONE_HEX, "01"),
        "position 81: expected one leader epoch or more, found none",
    ),
    "more epochs than bytes": (
        A2_HEX.replace(ONE_HEX, "ffffffff0f" + ONE_HEX[2:]),
        "position 81: expected as many leader epochs as 20 bytes can hold, found 4294967294",
    ),
    "more tags than bytes": (A2_HEX[:-2] + "ffffffff0f", "position 101: .* found 4294967295"),
    "a tag that is cut off": (A2_HEX[:-2] + "010302ff", "position 104: expected 2 bytes"),
    "a flag of no bytes": (A2_HEX[:-2] + "010000", "byte for TxnIndexEmpty, found none"),
    "a flag of two bytes": (A2_HEX[:-2] + "0100020101", "byte for TxnIndexEmpty, found 0101"),
    "a segment's state 4": (A2_HEX[:-4] + "0400", "position 100: expected a state .*, found 4"),
    "a segment's state -1": (A2_HEX[:-4] + "ff00", "position 100: .*0 to 3, found -1"),
    "an update's state 4": (B_HEX[:-4] + "0400", "position 62: .*0 to 3, found 4"),
    "a partition's state 3": (C_HEX[:-4] + "0300", "position 40: .*0 to 2, found 3"),
    "custom metadata cut off": (B_HEX[:-14] + "ff010203", "254 bytes of custom metadata"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_kafka_cannot_mean_is_refused_with_place_and_reason(name: str) -> None:
    text, message = REFUSED[name]

    with pytest.raises(MetadataParseError, match=message):
        decode(bytes.fromhex(text))


@pytest.mark.parametrize(
    "change",
    [
        {"topic": 32768 * "x"},
        {"topic": "\ud800"},
        {"partition": 1 << 31},
    ],
    ids=["long name", "no Unicode", "large partition"],
)
def test_what_does_not_fit_kafkas_fields_is_not_written(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        encode(replace(C, topic_id_partition=replace(FOO, **change)))


# The partition alone.


@pytest.mark.parametrize("text", [A_HEX, B_HEX, C_HEX])
def test_the_partition_can_be_read_alone(text: str) -> None:
    partition = peek_partition(bytes.fromhex(text))

    assert partition == FOO
    assert partition.topic == "foo"


def test_the_partition_is_read_before_anything_behind_it_is_checked() -> None:
    assert peek_partition(bytes.fromhex(A_HEX)[:28]) == FOO


@pytest.mark.parametrize("text", ["", "01", "0104", "010000", A_HEX[:40], D_HEX])
def test_a_record_without_a_partition_is_refused(text: str) -> None:
    with pytest.raises(MetadataParseError, match="position"):
        peek_partition(bytes.fromhex(text))


@pytest.mark.parametrize(
    "plain",
    [
        ((1.5,),),
        (),
        ((), (), (), ()),
        (((1, "x"),), (), (), (), None),
        (((1.5, b"x"),), (), (), (), None),
        ((), (), (), (), 7),
        ((), (), ((None, ()),), (), None),
        7,
    ],
    ids=repr,
)
def test_tags_that_no_record_had_are_damage(plain: object) -> None:
    with pytest.raises(CorruptLog, match="expected a record's tags"):
        UnknownTags.from_plain(plain)
