"""The bytes of our own layout: the indexes object and custom metadata."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.events.errors import DataError, FormatTooNew
from tierledger.events.metadata import CustomMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.ledger.format import (
    LedgerCustomMetadata,
    decode_header,
    encode_indexes,
    verified,
    weight_of,
)

_BLOBS = st.binary(max_size=200)
_INDEXES = st.dictionaries(st.sampled_from(IndexType), _BLOBS)


@given(st.binary(min_size=16, max_size=16), st.lists(st.integers(0, 2**32 - 1)), _INDEXES)
def test_an_indexes_object_is_read_back(
    segment: bytes, crcs: list[int], indexes: dict[IndexType, bytes]
) -> None:
    content = encode_indexes(segment, 12345, 678, tuple(crcs), indexes)

    header = decode_header(content, "here")
    assert header[:4] == (segment, 12345, 678, tuple(crcs))
    found = {
        kind: verified(content[at.start : at.start + at.length], at, kind, "here")
        for kind, at in header.indexes.items()
    }
    assert found == indexes


@given(st.binary(max_size=300))
def test_no_bytes_are_taken_for_an_indexes_object(content: bytes) -> None:
    with pytest.raises(DataError):
        decode_header(content, "here")


def test_a_newer_format_says_so() -> None:
    content = bytearray(encode_indexes(bytes(16), 1, 1, (0,), {}))
    content[4] = 2
    with pytest.raises(FormatTooNew, match="version 1 or older, found 2"):
        decode_header(bytes(content), "here")
    with pytest.raises(FormatTooNew, match="found 2"):
        weight_of(CustomMetadata(b"\x02\x93\x01\x02\xc0"))


@pytest.mark.parametrize("size", [1, 5 << 20, 2**31])
@pytest.mark.parametrize("prefix", [None, "a", "tiers/of/ours"])
def test_custom_metadata_is_read_back(size: int, prefix: str | None) -> None:
    meant = LedgerCustomMetadata(size, 2**40, prefix)

    assert LedgerCustomMetadata.of(meant.to_custom_metadata(), "here") == meant


@given(st.binary(max_size=40))
def test_no_foreign_custom_metadata_is_taken_for_ours(value: bytes) -> None:
    with suppress(DataError):
        found = LedgerCustomMetadata.of(CustomMetadata(value), "here")
        assert value.startswith(b"\x01")
        assert found.part_size > 0
