"""An object that exists is well-formed: each wrong value of each field is refused by name."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from typing_extensions import override

from tests.events.test_metadata import DELETE, PARTITION, SEGMENT, SEGMENT_ID, SNAPSHOT, UPDATE
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata
from tierledger.events.typed_fields import (
    LEADER_EPOCHS_MAX,
    TOPIC_CHARACTERS_MAX,
    Count,
    checked,
    exactly,
    kinds_of,
    shown,
)

OBJECTS = (PARTITION, SEGMENT_ID, SEGMENT, SNAPSHOT, UPDATE, DELETE, CustomMetadata(b"x"))


class Hostile:
    """Raises at whatever is done with it."""

    def __index__(self) -> int:
        raise RuntimeError("index")

    @override
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    @override
    def __hash__(self) -> int:
        raise RuntimeError("hash")

    @override
    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("iter")


class HostileMapping(Mapping[int, int]):
    """Has a length, and cannot be read."""

    @override
    def __getitem__(self, key: int) -> int:
        raise RuntimeError("item")

    @override
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("iter")

    @override
    def __len__(self) -> int:
        return 1


def float_of(value: object) -> object:
    return float(value) if isinstance(value, int) else 30.0


WRONG: tuple[Any, ...] = (
    30.0,
    math.nan,
    np.float64(3),
    "3",
    "\ud800",
    b"3",
    bytes(1 << 20),
    10**5000,
    -(10**5000),
    1 << 64,
    [],
    [[]],
    {},
    {0: 30.0},
    {0: np.float32(1)},
    {None: 0},
    {0: {0: 0}},
    dict.fromkeys(range(LEADER_EPOCHS_MAX + 1), 0),
    object(),
    Hostile(),
    HostileMapping(),
    {0: Hostile()},
    KafkaRecord,
    RemoteLogSegmentState,
    Uuid(bytes(16)),
    PARTITION,
    np.bool_(True),
)
"""Right for hardly any field; where one is, it is left out below."""

FITS: dict[str, tuple[type, ...]] = {
    "topic_id": (Uuid,),
    "id": (Uuid,),
    "segment_id": (Uuid,),
    "topic": (str,),
    "topic_id_partition": (type(PARTITION),),
    "value": (bytes, Uuid),
}


def wrong_values(name: str) -> Iterator[Any]:
    yield from (value for value in WRONG if type(value) not in FITS.get(name, ()))
    if name != "custom_metadata":
        yield None
    if name != "txn_index_empty":
        yield True


@pytest.mark.parametrize(
    ("whole", "name"),
    [(whole, name) for whole in OBJECTS for name in whole.__struct_fields__],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_wrong_value_of_any_field_is_refused_by_the_fields_name(
    whole: Any,  # noqa: ANN401 - Of any class.
    name: str,
) -> None:
    for value in wrong_values(name):
        with pytest.raises(InvalidArgument) as caught:
            replace(whole, **{name: value})

        message = str(caught.value)
        assert name in message or "for an id" in message, (message, type(value))
        assert len(message) < 300


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({0: 30.0}, r"expected an integer for segment_leader_epochs\[0\], got 30.0"),
        ({"0": 30}, "expected an integer for a key of segment_leader_epochs, got '0'"),
        ({True: 30}, "expected an integer for a key of segment_leader_epochs, got True"),
        ([0], r"expected a mapping for segment_leader_epochs, got \[0\]"),
    ],
)
def test_a_refusal_says_which_part_is_wrong(value: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match=message):
        replace(SEGMENT, segment_leader_epochs=value)


def test_what_stands_for_a_number_becomes_one() -> None:
    like_numbers: dict[str, Any] = {
        "start_offset": np.int64(10),
        "broker_id": RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        "segment_leader_epochs": {np.int32(0): np.uint64(10)},
    }
    made = replace(SEGMENT, **like_numbers)
    epochs = made.segment_leader_epochs

    assert made == replace(SEGMENT, broker_id=1, segment_leader_epochs={0: 10})
    assert {type(made.start_offset), type(made.broker_id)} == {int}
    assert {*map(type, epochs), *map(type, epochs.values())} == {int}


def test_bytes_and_text_lose_their_class() -> None:
    class Name(str):
        __slots__ = ()

    custom = CustomMetadata(Uuid(bytes(16)))
    like_an_id: Any = bytes(16)
    partition = replace(PARTITION, topic=Name("orders"), topic_id=like_an_id)

    assert type(custom.value) is bytes
    assert (type(partition.topic), type(partition.topic_id)) == (str, Uuid)
    assert partition.topic == "orders"


def test_a_topic_is_as_long_as_kafka_lets_it_be() -> None:
    longest = "x" * TOPIC_CHARACTERS_MAX

    assert replace(PARTITION, topic=longest).topic == longest
    with pytest.raises(
        InvalidArgument, match="expected 0 to 249 characters for topic, got 250"
    ):
        replace(PARTITION, topic=longest + "x")


@pytest.mark.parametrize("number", [-1, 1 << 31])
def test_a_partitions_number_fits_kafkas_field(number: int) -> None:
    with pytest.raises(InvalidArgument, match=f"for partition, got {number}"):
        replace(PARTITION, partition=number)


def test_epochs_that_were_changed_later_are_noticed() -> None:
    made = replace(SEGMENT, segment_leader_epochs={0: 10})
    epochs: Any = made.segment_leader_epochs
    epochs[0] = 30.0

    assert not exactly(type(made))(made)
    with pytest.raises(InvalidArgument, match=r"metadata.segment_leader_epochs\[0\], got 30.0"):
        checked(type(made), made, "metadata")


@pytest.mark.parametrize("value", [None, 30.0, True, "1", -1, 1 << 63, Hostile()])
def test_a_number_alone_is_checked_like_a_field(value: object) -> None:
    with pytest.raises(InvalidArgument, match="for offset, got"):
        checked(Count, value, "offset")


def test_every_value_can_be_shown_and_none_at_length() -> None:
    for value in (*WRONG, bytes(50 << 20), "x" * (50 << 20), [bytes(1 << 20)] * 9):
        assert len(shown(value)) < 100


def test_the_fields_of_an_object_are_known_in_their_order() -> None:
    assert list(kinds_of(type(PARTITION))) == ["topic_id", "partition", "topic"]
