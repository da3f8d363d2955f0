"""Stored values are read back unchanged, and changed bytes are noticed."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.storage.flipped_bits import flipped
from tierledger.events.errors import CorruptCheckpoint, FormatTooNew, InvalidArgument
from tierledger.storage.serde import KINDS, VERSIONS, MsgpackSerDe, Plain

GOLDEN = Path(__file__).parents[1] / "golden"
SERDE = MsgpackSerDe()

PLAIN: st.SearchStrategy[Plain] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=8),
    lambda children: st.lists(children, max_size=4),
    max_leaves=12,
)
FIELDS = st.lists(PLAIN, max_size=6)
KIND = st.sampled_from(sorted(KINDS))


def golden(version: int) -> dict[str, dict[str, Plain]]:
    """Per kind, fields (bytes as {"hex": …}) and the hex of what is stored for them."""
    read: dict[str, dict[str, Plain]] = json.loads(
        (GOLDEN / f"serde-v{version}.json").read_text(),
        object_hook=lambda o: bytes.fromhex(o["hex"]) if "hex" in o else o,
    )
    return read


def test_there_is_a_golden_value_for_each_kind() -> None:
    assert golden(1).keys() == KINDS.keys()
    assert all(kind in golden(version) for kind, version in VERSIONS.items())


@pytest.mark.parametrize("kind", KINDS)
def test_todays_bytes_are_those_of_the_released_version(kind: str) -> None:
    sample = golden(VERSIONS[kind])[kind]

    assert SERDE.serialize(kind, sample["fields"]).hex() == sample["stored"]
    assert SERDE.deserialize(kind, bytes.fromhex(sample["stored"])) == sample["fields"]


def test_a_partitions_value_of_the_first_version_rises_to_todays() -> None:
    old = golden(1)["partition"]

    risen = SERDE.deserialize("partition", bytes.fromhex(old["stored"]))

    assert risen == golden(2)["partition"]["fields"]
    assert risen[:8] + risen[9:] == old["fields"][:8] + old["fields"][9:]


@pytest.mark.parametrize("fields", [[], [1] * 12])
def test_an_old_value_whose_fields_do_not_fit_is_noticed(fields: list[Plain]) -> None:
    with pytest.raises(CorruptCheckpoint, match="format 1"):
        SERDE.deserialize("partition", framed("partition", 1, msgpack.packb(fields)))


@given(KIND, FIELDS, st.integers(0, 8))
def test_the_first_fields_are_read_without_the_others(
    kind: str, fields: list[Plain], count: int
) -> None:
    assert SERDE.first_fields(kind, SERDE.serialize(kind, fields), count) == fields[:count]


def test_the_first_fields_of_an_older_value_are_todays() -> None:
    old = golden(1)["partition"]

    found = SERDE.first_fields("partition", bytes.fromhex(old["stored"]), 9)

    assert found == golden(2)["partition"]["fields"][:9]


@given(KIND, FIELDS)
def test_what_was_stored_comes_back(kind: str, fields: list[Plain]) -> None:
    assert SERDE.deserialize(kind, SERDE.serialize(kind, fields)) == fields


@given(FIELDS)
def test_a_packed_row_is_stored_as_its_fields_are(fields: list[Plain]) -> None:
    row = msgpack.packb(fields)

    stored = SERDE.serialize_row(row)

    assert stored == SERDE.serialize("segment", fields)
    assert SERDE.deserialize_row(stored) == row
    assert stored.endswith(row)


@given(KIND, KIND, FIELDS)
def test_a_value_in_another_kinds_place_is_noticed(
    kind: str, other: str, fields: list[Plain]
) -> None:
    stored = SERDE.serialize(kind, fields)

    if kind != other:
        with pytest.raises(CorruptCheckpoint):
            SERDE.deserialize(other, stored)


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_and_every_torn_end_is_noticed(kind: str) -> None:
    stored = SERDE.serialize(kind, ["orders", 17, None, True, b"\x00\xff", [1, [2]]])
    bits = [flipped(stored, bit // 8, 1 << bit % 8) for bit in range(len(stored) * 8)]
    torn = [stored[:length] for length in range(len(stored))]

    for damaged in [*bits, *torn, stored + b"\0"]:
        with pytest.raises(CorruptCheckpoint):
            SERDE.deserialize(kind, damaged)
        with pytest.raises(CorruptCheckpoint):
            SERDE.first_fields(kind, damaged, 1)
        with pytest.raises(CorruptCheckpoint):
            SERDE.deserialize_row(damaged)


@given(KIND, st.binary(max_size=40))
def test_no_bytes_are_answered_with_anything_but_the_errors_named(
    kind: str, data: bytes
) -> None:
    with pytest.raises((CorruptCheckpoint, FormatTooNew)):
        SERDE.deserialize(kind, data)
    with pytest.raises((CorruptCheckpoint, FormatTooNew)):
        SERDE.first_fields(kind, data, 3)
    with pytest.raises((CorruptCheckpoint, FormatTooNew)):
        SERDE.deserialize_row(data)


@given(
    KIND, st.sampled_from([b"\xc1", b"\x91", b"\x07", b"\x80", b"\xa1\xff", b"\x90\x90", b""])
)
def test_a_whole_value_that_holds_no_fields_is_noticed(kind: str, payload: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        SERDE.deserialize(kind, framed(kind, 1, payload))


def framed(kind: str, version: int, payload: bytes) -> bytes:
    """A stored value, made without the code under test."""
    body = bytes([version]) + KINDS[kind] + payload
    return bytes([version]) + zlib.crc32(body).to_bytes(4, "big") + payload


def test_a_newer_format_is_told_from_damage() -> None:
    for version in (2, 255):
        with pytest.raises(FormatTooNew, match=f"format {version}"):
            SERDE.deserialize("page", framed("page", version, b"anything"))
        with pytest.raises(FormatTooNew):
            SERDE.deserialize_row(framed("segment", version, b"anything"))
    with pytest.raises(CorruptCheckpoint):
        SERDE.deserialize("page", framed("page", 0, b"\x90"))


@pytest.mark.parametrize(
    "fields",
    [[object()], [2**64], ["\ud800"], [{1, 2}]],
    ids=["an object", "2^64", "half a pair", "a set"],
)
def test_what_is_not_plain_is_refused(fields: Sequence[Plain]) -> None:
    with pytest.raises(InvalidArgument):
        SERDE.serialize("page", fields)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'poem'"):
        SERDE.serialize("poem", [])
    with pytest.raises(InvalidArgument, match="'poem'"):
        SERDE.deserialize("poem", framed("page", 1, b"\x90"))
