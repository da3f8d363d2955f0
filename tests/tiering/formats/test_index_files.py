from itertools import pairwise
from struct import Struct

import pytest

from tests.models.tiering.tier_trace import TieredSegment, consumed, ends, segments, segments_of
from tierledger.events.errors import CorruptRemoteData
from tierledger.tiering.formats.index_files import (
    NO_TIMESTAMP,
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    AbortedTransaction,
    OffsetIndex,
    OffsetPosition,
    SegmentBounds,
    TimeIndex,
    TimestampOffset,
    TransactionIndex,
)
from tierledger.tiering.formats.index_type import IndexType

BOUNDS = SegmentBounds("a segment", start_offset=100, end_offset=199, size_in_bytes=5000)
BATCH = Struct(">qi")
"""How a batch in a log starts: base offset, and length of what follows these two."""


def named(segment: TieredSegment) -> str:
    tip = segment.metadata.topic_id_partition
    return f"{tip.topic}-{tip.partition}@{segment.metadata.start_offset}"


every_segment = pytest.mark.parametrize("segment", segments(), ids=named)


def batches(log: bytes) -> list[tuple[int, int, int]]:
    """(first offset, last offset, position) of each batch, read by Kafka's v2 layout."""
    found, position = [], 0
    while position < len(log):
        base, length = BATCH.unpack_from(log, position)
        delta = int.from_bytes(log[position + 23 : position + 27], "big")
        found.append((base, base + delta, position))
        position += BATCH.size + length
    return found


def offset_index(segment: TieredSegment) -> OffsetIndex:
    data = segment.indexes[IndexType.OFFSET]
    return OffsetIndex.parse(data, SegmentBounds.of(segment.metadata))


def time_index(segment: TieredSegment) -> TimeIndex:
    data = segment.indexes[IndexType.TIMESTAMP]
    return TimeIndex.parse(data, SegmentBounds.of(segment.metadata))


def position_of(found: list[tuple[int, int, int]], offset: int) -> int:
    return next(at for first, last, at in found if first <= offset <= last)


def packed(entry: Struct, *rows: tuple[int, ...]) -> bytes:
    return b"".join(entry.pack(*row) for row in rows)


@every_segment
def test_kafkas_offset_index_leads_to_or_before_every_offset(segment: TieredSegment) -> None:
    index, log = offset_index(segment), batches(segment.log)
    starts = {at for _, _, at in log}

    for offset in range(segment.metadata.start_offset, segment.metadata.end_offset + 1):
        found = index.lookup(offset)

        assert found.position in starts
        assert found.position <= position_of(log, offset)
        # And no further back than the entry before: the interval is about 1 KiB here.
        later = [one for one in index.entries() if one.offset <= offset]
        assert found == (later[-1] if later else (segment.metadata.start_offset, 0))


@every_segment
def test_kafkas_time_index_never_leads_past_a_times_record(segment: TieredSegment) -> None:
    metadata, log = segment.metadata, batches(segment.log)
    tip = metadata.topic_id_partition
    records = [
        one
        for one in consumed("read_uncommitted")[tip.topic, tip.partition]
        if metadata.start_offset <= one["offset"] <= metadata.end_offset
    ]
    offsets, times = offset_index(segment), time_index(segment)

    for timestamp in {one["timestamp_ms"] + step for one in records for step in (-1, 0, 1)}:
        first = next((one for one in records if one["timestamp_ms"] >= timestamp), None)
        found = offsets.lookup(times.lookup(timestamp).offset)

        if first is not None:
            assert found.position <= position_of(log, first["offset"])


@every_segment
def test_every_entry_of_kafkas_indexes_is_read(segment: TieredSegment) -> None:
    offsets, times = offset_index(segment), time_index(segment)

    assert (
        packed(
            OFFSET_ENTRY,
            *((o - segment.metadata.start_offset, p) for o, p in offsets.entries()),
        )
        == (segment.indexes[IndexType.OFFSET])
    )
    assert len(list(times.entries())) == len(times)
    assert len(offsets) * OFFSET_ENTRY.size == len(segment.indexes[IndexType.OFFSET])


def test_aborted_transactions_of_all_segments_explain_what_committed_reads_lack() -> None:
    for partition in (0, 1):
        everything = consumed("read_uncommitted")["payments-tx", partition]
        committed = {
            one["offset"] for one in consumed("read_committed")["payments-tx", partition]
        }
        tiered_to = ends()["payments-tx", partition]["latest_tiered_offset"]
        aborted = [
            one
            for segment in segments_of("payments-tx", partition)
            for one in TransactionIndex.parse(
                segment.indexes.get(IndexType.TRANSACTION, b""),
                SegmentBounds.of(segment.metadata),
            ).entries()
        ]

        missing = [
            one["offset"]
            for one in everything
            if one["offset"] <= tiered_to and one["offset"] not in committed
        ]
        assert missing
        assert all(
            any(one.first_offset <= offset <= one.last_offset for one in aborted)
            for offset in missing
            if offset <= max(one.last_offset for one in aborted)
        )
        assert all(a.last_offset < b.last_offset for a, b in pairwise(aborted))


def test_a_lookup_finds_the_largest_entry_not_above_what_is_asked() -> None:
    index = OffsetIndex.parse(packed(OFFSET_ENTRY, (5, 400), (9, 900)), BOUNDS)

    assert index.lookup(0) == OffsetPosition(100, 0)
    assert index.lookup(104) == OffsetPosition(100, 0)
    assert index.lookup(105) == OffsetPosition(105, 400)
    assert index.lookup(108) == OffsetPosition(105, 400)
    assert index.lookup(109) == OffsetPosition(109, 900)
    assert index.lookup(10_000) == OffsetPosition(109, 900)


def test_an_empty_index_answers_with_the_beginning() -> None:
    assert OffsetIndex.parse(b"", BOUNDS).lookup(150) == OffsetPosition(100, 0)
    assert TimeIndex.parse(b"", BOUNDS).lookup(7) == TimestampOffset(NO_TIMESTAMP, 100)
    assert list(TransactionIndex.parse(b"", BOUNDS).entries()) == []


def test_a_time_before_the_first_entry_leads_to_the_beginning() -> None:
    index = TimeIndex.parse(packed(TIME_ENTRY, (1000, 3), (2000, 8)), BOUNDS)

    assert index.lookup(999) == TimestampOffset(NO_TIMESTAMP, 100)
    assert index.lookup(1000) == TimestampOffset(1000, 103)
    assert index.lookup(1999) == TimestampOffset(1000, 103)
    assert index.lookup(2**62) == TimestampOffset(2000, 108)


def test_the_search_for_aborted_transactions_ends_where_later_ones_cannot_matter() -> None:
    rows = [(0, 1, 110, 120, 115), (0, 2, 115, 130, 131), (0, 3, 140, 150, 151)]
    index = TransactionIndex.parse(packed(TRANSACTION_ENTRY, *rows), BOUNDS)
    first, second, third = (AbortedTransaction(*row[1:]) for row in rows)

    assert index.collect_aborted_transactions(100, 131) == ([first, second], True)
    assert index.collect_aborted_transactions(121, 131) == ([second], True)
    assert index.collect_aborted_transactions(100, 112) == ([first], True)
    assert index.collect_aborted_transactions(100, 152) == ([first, second, third], False)
    assert index.collect_aborted_transactions(100, 151) == ([first, second, third], True)
    assert index.collect_aborted_transactions(130, 140) == ([second], True)


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (OffsetIndex, b"\0" * 13, "expected a multiple of 8 bytes, got 13 bytes"),
        (OffsetIndex, [(5, 400), (5, 900)], "relative offsets, got 5 after 5 in entry 1"),
        (OffsetIndex, [(5, 400), (6, 400)], "positions, got 400 after 400 in entry 1"),
        (OffsetIndex, [(-1, 400)], "relative offsets of 0 or more, got -1"),
        (OffsetIndex, [(5, -4)], "positions of 0 or more, got -4"),
        (OffsetIndex, [(100, 400)], "relative offsets of 0 to 99, got 100"),
        (OffsetIndex, [(99, 5000)], "positions of 0 to 4999, got 5000"),
        (OffsetIndex, b"\0" * 80, "relative offsets, got 0 after 0"),
        (TimeIndex, b"\0" * 13, "expected a multiple of 12 bytes, got 13 bytes"),
        (TimeIndex, [(2, 1), (1, 2)], "timestamps, got 1 after 2 in entry 1"),
        (TimeIndex, [(1, 2), (2, 1)], "relative offsets, got 1 after 2 in entry 1"),
        (TimeIndex, [(1, -2)], "relative offsets of 0 or more, got -2"),
        (TimeIndex, [(1, 100)], "relative offsets of 0 to 99, got 100"),
        (TransactionIndex, b"\0" * 35, "expected a multiple of 34 bytes, got 35 bytes"),
        (TransactionIndex, [(1, 1, 110, 120, 115)], "versions of 0 to 0, got 1"),
        (TransactionIndex, [(0, 1, 90, 99, 115)], "last offsets of 100 to 199, got 99"),
        (TransactionIndex, [(0, 1, 90, 200, 115)], "last offsets of 100 to 199, got 200"),
        (TransactionIndex, [(0, 1, 130, 120, 115)], "first offsets of 0 to 120, got 130"),
        (
            TransactionIndex,
            [(0, 1, 110, 120, 115), (0, 2, 110, 120, 115)],
            "last offsets, got 120 after 120 in entry 1",
        ),
    ],
)
def test_a_damaged_index_is_refused_with_what_was_found(
    kind: type[OffsetIndex | TimeIndex | TransactionIndex],
    data: bytes | list[tuple[int, ...]],
    message: str,
) -> None:
    name, entry = FORMATS[kind]

    with pytest.raises(CorruptRemoteData, match=f"{name} index of a segment: ") as caught:
        kind.parse(data if isinstance(data, bytes) else packed(entry, *data), BOUNDS)

    assert message in str(caught.value)


FORMATS = {
    OffsetIndex: ("offset", OFFSET_ENTRY),
    TimeIndex: ("time", TIME_ENTRY),
    TransactionIndex: ("transaction", TRANSACTION_ENTRY),
}


def test_positions_are_not_bounded_by_a_size_that_is_not_known() -> None:
    data = packed(OFFSET_ENTRY, (99, 5000))

    assert len(OffsetIndex.parse(data, BOUNDS._replace(size_in_bytes=-1))) == 1
