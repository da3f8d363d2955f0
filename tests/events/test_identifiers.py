"""Ids are their bytes, read as Kafka's text, and a topic's name is not part of who it is."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid

TOPIC_ID = Uuid(bytes(range(0x01, 0x11)))
SEGMENT_ID = Uuid(bytes(range(0x11, 0x21)))


def test_an_id_equals_its_bytes_and_hashes_as_they_do() -> None:
    plain = bytes(range(0x01, 0x11))

    assert plain == TOPIC_ID
    assert {plain: "found"}[TOPIC_ID] == "found"


def test_an_id_is_written_as_kafka_writes_it() -> None:
    assert str(TOPIC_ID) == "AQIDBAUGBwgJCgsMDQ4PEA"
    assert f"{Uuid(bytes([0xFB, 0xFF] * 8))}" == "-__7__v_-__7__v_-__7_w"
    assert repr(TOPIC_ID) == "Uuid('AQIDBAUGBwgJCgsMDQ4PEA')"


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_an_id_is_22_characters_and_is_parsed_back(value: bytes) -> None:
    text = str(Uuid(value))

    assert len(text) == 22
    assert Uuid.parse(text) == value
    assert Uuid.parse(text + "==") == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AQIDBAUGBwgJCgsMDQ4PE",
        "AQIDBAUGBwgJCgsMDQ4PEA=",
        "AQIDBAUGBwgJCgsMDQ4PEAA",
        "AQIDBAUGBwgJCgsMDQ4PEA===",
        "AQIDBAUGBwgJCgsMDQ4PE+",
        "AQIDBAUGBwgJCgsMDQ4P/A",
        "AQIDBAUGBwgJ gsMDQ4PEA",
        "AQIDBAUGBwgJCgsMDQ4PEA\n",
        "ÄQIDBAUGBwgJCgsMDQ4PEA",
    ],
)
def test_a_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="22 characters"):
        Uuid.parse(text)


@pytest.mark.parametrize("length", [0, 15, 17, 22])
def test_an_id_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(InvalidArgument, match=f"16 bytes for an id, got {length}"):
        Uuid(bytes(length))


def test_two_names_for_one_topic_id_are_one_partition() -> None:
    old = TopicIdPartition(TOPIC_ID, 3, "orders")
    new = TopicIdPartition(TOPIC_ID, 3, "orders-renamed")

    assert old == new
    assert len({old, new}) == 1
    assert (old.topic, new.topic) == ("orders", "orders-renamed")


def test_another_topic_id_or_number_is_another_partition() -> None:
    one = TopicIdPartition(TOPIC_ID, 3, "orders")

    assert one != TopicIdPartition(TOPIC_ID, 4, "orders")
    assert one != TopicIdPartition(SEGMENT_ID, 3, "orders")


def test_identifiers_survive_pickle() -> None:
    partition = TopicIdPartition(TOPIC_ID, 3, "orders")
    segment = RemoteLogSegmentId(partition, SEGMENT_ID)

    copy = pickle.loads(pickle.dumps(segment))

    assert copy == segment
    assert type(copy.id) is Uuid
    assert copy.topic_id_partition.topic == "orders"


def test_a_segment_id_reads_from_the_topic_down() -> None:
    segment = RemoteLogSegmentId(TopicIdPartition(TOPIC_ID, 3, "orders"), SEGMENT_ID)

    assert str(segment) == "AQIDBAUGBwgJCgsMDQ4PEA:orders-3/ERITFBUWFxgZGhscHR4fIA"
