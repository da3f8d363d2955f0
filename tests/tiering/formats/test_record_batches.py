"""Record batches: cut out of pieces, verified, decoded."""

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiering import tier_trace
from tests.models.tiering.written_log import encoded
from tierledger.events.errors import CorruptRemoteData, RejectedError
from tierledger.tiering.formats.record_batches import BatchSplitter, RecordBatch
from tierledger.tiering.formats.records import CREATE_TIME, LOG_APPEND_TIME, decoded

RECORDS = [(10, b"a", b"x" * 40), (30, None, b"y"), (20, b"c", None)]


def split(log: bytes, piece_bytes: int = 1 << 20) -> list[RecordBatch]:
    splitter = BatchSplitter("segment-1", 0, len(log))
    found = [
        batch
        for at in range(0, len(log), piece_bytes)
        for batch in splitter.feed(log[at : at + piece_bytes])
    ]
    splitter.finish()
    return found


@pytest.mark.parametrize(
    "segment", tier_trace.segments(), ids=lambda one: str(one.metadata.remote_log_segment_id.id)
)
def test_a_brokers_log_is_its_batches_however_cut(segment: tier_trace.TieredSegment) -> None:
    found = split(segment.log)

    assert b"".join(one.data for one in found) == segment.log
    assert found[0].base_offset == segment.metadata.start_offset
    assert found[-1].last_offset == segment.metadata.end_offset
    assert max(one.max_timestamp_ms for one in found) == segment.metadata.max_timestamp_ms
    assert split(segment.log, 1000) == found


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.integers(1, 300))
def test_pieces_of_any_size_give_the_same_batches(counts: list[int], piece_bytes: int) -> None:
    offset, parts = 0, []
    for count in counts:
        parts.append(encoded(offset, 2, RECORDS[:count]))
        offset += count

    assert [one.data for one in split(b"".join(parts), piece_bytes)] == parts


def test_a_header_says_what_the_batch_is() -> None:
    data = encoded(100, 7, RECORDS, deltas=(0, 4, 9), producer=5)

    (batch,) = split(data)

    assert batch == RecordBatch(data, 100, 109, 7, 0x10, 30, 5, 3)
    assert batch.is_transactional
    assert not batch.is_control


@pytest.mark.parametrize("codec", range(5))
def test_records_come_out_of_every_codec_with_gaps_tombstones_and_headers(codec: int) -> None:
    (batch,) = split(encoded(100, 7, RECORDS, deltas=(0, 4, 9), codec=codec))

    assert batch.compression == codec
    assert decoded(batch, "segment-1").whole() == [
        (100, 10, CREATE_TIME, 7, b"a", b"x" * 40, [("at", b"100")], None),
        (104, 30, CREATE_TIME, 7, None, b"y", [("at", b"104")], None),
        (109, 20, CREATE_TIME, 7, b"c", None, [("at", b"109")], None),
    ]


def test_a_time_of_append_is_that_of_all_records() -> None:
    (batch,) = split(encoded(0, 0, RECORDS, append_time_ms=77))

    assert {(one.timestamp_ms, one.timestamp_type) for one in decoded(batch, "s").records} == {
        (77, LOG_APPEND_TIME)
    }


@pytest.mark.parametrize("at", range(21, 100, 7))
def test_a_flipped_bit_is_told_with_segment_position_and_offset(at: int) -> None:
    whole = encoded(0, 0, RECORDS)
    log = bytearray(whole + encoded(3, 0, RECORDS))
    log[len(whole) + at] ^= 4

    with pytest.raises(CorruptRemoteData, match=f"segment-1 at {len(whole)}.*offset 3"):
        split(bytes(log))


@pytest.mark.parametrize("length", [-1, 0, 8, 1 << 30])
def test_an_absurd_length_is_refused_before_anything_is_gathered(length: int) -> None:
    log = bytearray(encoded(0, 0, RECORDS))
    struct.pack_into(">i", log, 8, length)
    splitter = BatchSplitter("segment-1", 0, len(log))

    with pytest.raises(CorruptRemoteData, match="segment-1 at 0: expected a batch of"):
        list(splitter.feed(bytes(log[:20])))


@pytest.mark.parametrize("missing", [1, 50, 130, len(encoded(3, 0, RECORDS))])
def test_a_log_that_ends_early_is_not_the_end(missing: int) -> None:
    log = encoded(0, 0, RECORDS) + encoded(3, 0, RECORDS)
    splitter = BatchSplitter("segment-1", 0, len(log))

    assert len(list(splitter.feed(log[:-missing]))) == 1

    with pytest.raises(CorruptRemoteData, match=f"{len(log)} bytes, it ends after"):
        splitter.finish()


@pytest.mark.parametrize(
    ("magic", "error", "message"),
    [
        (0, RejectedError, "format 0"),
        (1, RejectedError, "format 1"),
        (3, CorruptRemoteData, "3"),
    ],
)
def test_other_formats_are_refused(magic: int, error: type[Exception], message: str) -> None:
    log = bytearray(encoded(0, 0, RECORDS))
    log[16] = magic
    log[17] ^= 1  # Where another format has no such checksum.

    with pytest.raises(error, match=message):
        split(bytes(log))


def test_an_unknown_codec_is_refused_by_number() -> None:
    with pytest.raises(RejectedError, match="got number 6"):
        decoded(checked_again(encoded(0, 0, RECORDS), 22, 6), "segment-1").whole()


def test_records_that_cannot_be_decoded_are_told_with_their_offset() -> None:
    with pytest.raises(CorruptRemoteData, match=r"segment-1.*offset 12.*zstd"):
        decoded(checked_again(encoded(12, 0, RECORDS), 22, 4), "segment-1").whole()


def test_a_count_that_does_not_fit_is_told() -> None:
    found = decoded(checked_again(encoded(12, 0, RECORDS), 60, 2), "segment-1")

    assert [one.offset for one in found.records] == [12, 13]
    (lost,) = found.lost
    assert (lost.first, lost.last) == (14, 14)
    assert "expected 2 records" in str(lost.error)


def checked_again(data: bytes, at: int, value: int) -> RecordBatch:
    """The batch with one byte changed and a checksum that fits."""
    changed = bytearray(data)
    changed[at] = value
    struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    (batch,) = split(bytes(changed))
    return batch
