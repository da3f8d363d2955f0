"""Records as foreign producers write them: each that can be decoded is."""

import gzip
import struct
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiering.raw_batches import NOW_MS, fields, raw_batch, sized, varint
from tierledger.events.errors import CorruptRemoteData, RejectedError
from tierledger.tiering.formats.record_batches import BatchSplitter, RecordBatch
from tierledger.tiering.formats.records import LOG_APPEND_TIME, Decoded, Record, decoded

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CONTENT = [fields(at, b"key-%d" % at, b"value" * 40) for at in range(5)]


def taken(data: bytes) -> RecordBatch:
    splitter = BatchSplitter("segment-1", 0, len(data))
    (batch,) = splitter.feed(data)
    splitter.finish()
    return batch


def found_in(data: bytes) -> Decoded:
    return decoded(taken(data), "segment-1")


def offsets(found: Decoded) -> list[int]:
    return [one.offset for one in found.records]


def lost(found: Decoded) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in found.lost]


def test_a_headers_name_that_is_no_utf8_comes_out_replaced_and_as_it_is() -> None:
    odd = fields(0, headers=[(b"caf\xe9", b"x"), (b"caf\xc3\xa9", None), (b"", b"")])
    found = found_in(raw_batch(2, [odd, fields(1)]))

    first, second = found.whole()
    assert first.headers == [("caf�", b"x"), ("café", None), ("", b"")]
    assert first.header_names == [b"caf\xe9", b"caf\xc3\xa9", b""]
    assert (second.offset, second.header_names) == (3, None)


def in_xerial_blocks(versions: bytes) -> Callable[[bytes], bytes]:
    def compress(content: bytes) -> bytes:
        halves = [content[:100], content[100:]]
        blocks = [bytes(cramjam.snappy.compress_raw(one)) for one in halves]
        framed = b"".join(struct.pack(">i", len(one)) + one for one in blocks)
        return b"\x82SNAPPY\0" + versions + framed

    return compress


def twice(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Two streams, one behind the other."""
    return lambda content: compress(content[:100]) + compress(content[100:])


def zstd(content: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(content))


def zstd_of_unknown_size(content: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(content[:100])
    compressor.compress(content[100:])
    return bytes(compressor.finish())


def lz4(content: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(content)
    return bytes(compressor.finish())


def with_an_old_checksum(content: bytes) -> bytes:
    """lz4 whose header's checksum is another, as clients before Kafka 0.10 wrote it."""
    data = bytearray(lz4(content))
    data[6] ^= 0x5A
    return bytes(data)


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (SNAPPY, in_xerial_blocks(struct.pack(">ii", 1, 1))),
        (SNAPPY, in_xerial_blocks(struct.pack("<ii", 1, 1))),
        (SNAPPY, in_xerial_blocks(bytes(8))),
        (SNAPPY, in_xerial_blocks(b"\xff" * 8)),
        (SNAPPY, twice(in_xerial_blocks(struct.pack(">ii", 1, 1)))),
        (SNAPPY, lambda content: bytes(cramjam.snappy.compress_raw(content))),
        (GZIP, twice(gzip.compress)),
        (GZIP, lambda content: gzip.compress(content) + b"behind it"),
        (ZSTD, zstd_of_unknown_size),
        (ZSTD, twice(zstd)),
        (ZSTD, lambda content: struct.pack("<II", 0x184D2A50, 3) + b"off" + zstd(content)),
        (LZ4, lz4),
        (LZ4, twice(lz4)),
        (LZ4, with_an_old_checksum),
    ],
)
def test_streams_are_read_as_kafkas_clients_read_them(
    codec: int, compress: Callable[[bytes], bytes]
) -> None:
    found = found_in(raw_batch(7, CONTENT, codec=codec, compress=compress)).whole()

    assert [(one.offset, one.key) for one in found] == [
        (7 + at, b"key-%d" % at) for at in range(5)
    ]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("content", [b"", b"\xff" * 20, b"\x82SNAPPY\0" + b"\1" * 12])
def test_what_is_not_compressed_costs_its_batch_and_no_exception(
    codec: int, content: bytes
) -> None:
    batch = raw_batch(2, CONTENT, codec=codec, compress=lambda _: content)

    found = found_in(batch)

    assert found.records == []
    assert lost(found) == [(2, 6)]
    assert isinstance(found.lost[0].error, CorruptRemoteData)


def test_a_codec_that_nobody_knows_costs_its_batch() -> None:
    found = found_in(raw_batch(2, CONTENT, codec=7))

    assert lost(found) == [(2, 6)]
    assert isinstance(found.lost[0].error, RejectedError)


@pytest.mark.parametrize(
    "bad",
    [
        fields(2) + b"more",
        fields(2)[:-1],
        fields(2)[:-1] + varint(-1),
        fields(2)[:-1] + varint(1 << 31),
        fields(2)[:-1] + varint(1) + varint(-1) + sized(b"x"),
        fields(2)[:-1] + b"\xff" * 11,
        b"\0" + varint(0) + varint(2) + varint(1 << 40) + b"key",
    ],
)
def test_a_record_that_is_none_costs_only_itself(bad: bytes) -> None:
    found = found_in(raw_batch(10, [fields(0), fields(1), bad, fields(3), fields(4)]))

    assert offsets(found) == [10, 11, 13, 14]
    assert lost(found) == [(12, 12)]
    assert "segment-1" in str(found.lost[0].error)
    assert "offset 12 to 12" in str(found.lost[0].error)


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0" + b"\xff" * 10])
def test_a_record_of_unknown_offset_costs_what_lies_between_its_neighbours(bad: bytes) -> None:
    found = found_in(raw_batch(10, [fields(0), bad, fields(4), fields(5)], last_delta=6))

    assert offsets(found) == [10, 14, 15]
    assert lost(found) == [(11, 13)]


def test_behind_a_length_that_cannot_be_the_rest_of_the_batch_is_lost() -> None:
    batch = raw_batch(10, CONTENT, compress=lambda content: content[:-3])

    assert offsets(found_in(batch)) == [10, 11, 12, 13]
    assert lost(found_in(batch)) == [(14, 14)]


def test_records_of_every_legal_oddity_are_whole() -> None:
    odd = [
        fields(0, None, None, [(b"a", None), (b"a", b"")], time=-1 - NOW_MS),
        fields(1, b"", b"", time=-(2**63) + 1, attributes=0xFF),
        b"\0" + varint(3) + varint(2) + varint(-7) + varint(-9) + varint(0),
    ]
    bits = 0x7FC0  # All that have no meaning yet, and the one for a delete horizon.
    found = found_in(raw_batch(10, odd, attributes=bits)).whole()

    assert [(one.offset, one.key, one.value) for one in found] == [
        (10, None, None),
        (11, b"", b""),
        (12, None, None),
    ]
    assert [one.timestamp_ms for one in found] == [
        -1,
        NOW_MS - 2**63 + 1,
        NOW_MS + 3,
    ]
    assert found[0].headers == [("a", None), ("a", b"")]


def test_a_slowly_parsed_record_has_the_batches_time_of_append() -> None:
    odd = fields(0, headers=[(b"\xff", b"")], time=4)
    (one,) = found_in(raw_batch(10, [odd], attributes=0x08, max_time=99)).whole()

    assert (one.timestamp_ms, one.timestamp_type) == (99, LOG_APPEND_TIME)


def test_a_batch_that_compaction_has_emptied_has_no_records() -> None:
    batch = taken(raw_batch(10, [], last_delta=4))

    assert (batch.base_offset, batch.last_offset) == (10, 14)
    assert decoded(batch, "s") == ([], [])


def test_parts_are_records_and_what_is_lost_in_order() -> None:
    bad = fields(2)[:-1]
    records = [fields(0), bad[:1], fields(2), bad, fields(5)]
    found = found_in(raw_batch(10, records, last_delta=5))

    parts = [
        ([one.offset for one in some], gone and (gone.first, gone.last))
        for some, gone in found.between(11, 15).parts()
    ]

    assert parts == [([], (11, 11)), ([12], (13, 14)), ([], None)]


@given(st.lists(st.binary(max_size=12), max_size=6), st.integers(0, 4), st.integers(0, 4))
def test_no_bytes_whatever_raise(records: list[bytes], codec: int, count: int) -> None:
    found = found_in(raw_batch(3, records, codec=codec, count=count, last_delta=9))

    assert all(isinstance(one, Record) for one in found.records)
    assert all(3 <= one.first <= one.last <= 12 for one in found.lost)
