"""Rows as bytes, and snapshots of all of them."""

from hashlib import blake2b

import pytest

from tierledger.events.tables.segment_rows import (
    NOT_FINISHED,
    SHARD_ROWS,
    UNREFERENCED,
    SegmentRows,
    end_in_epoch,
    id_of_row,
    pack_row,
    unpack_row,
)

A, B = b"\x01" * 16, b"\x02" * 16
NEXT_TO_A = b"\x01" * 15 + b"\xff"


def fields(segment_id: bytes = A, epochs: dict[int, int] | None = None) -> list[object]:
    flat = []
    for epoch, start in (epochs or {0: 100}).items():
        flat += [epoch, start, UNREFERENCED]
    return [segment_id, 0, 100, 199, flat, 5_000, -1, 3, 77, b"bucket", False, NOT_FINISHED]


def test_a_row_is_read_as_it_was_written() -> None:
    row = pack_row(fields())

    assert unpack_row(row) == fields()
    assert id_of_row(row) == A


def test_equal_fields_give_equal_bytes() -> None:
    assert pack_row(fields()) == pack_row(unpack_row(pack_row(fields())))


def test_a_row_of_one_epoch_stays_small() -> None:
    assert len(pack_row(fields())) < 64


@pytest.mark.parametrize(
    ("epochs", "epoch", "end"),
    [
        ({0: 100}, 0, 199),
        ({0: 100, 1: 150}, 0, 149),
        ({0: 100, 1: 150}, 1, 199),
        ({2: 100, 5: 120, 9: 180}, 5, 179),
        ({0: 100, 1: 100}, 0, 99),
        ({0: 100, 1: 300}, 0, 299),
    ],
)
def test_an_epoch_ends_before_the_next_or_with_its_segment(
    epochs: dict[int, int], epoch: int, end: int
) -> None:
    assert end_in_epoch(fields(epochs=epochs), epoch) == end


def test_rows_are_put_replaced_and_dropped() -> None:
    rows = SegmentRows()

    rows.put(A, b"first")
    rows.put(A, b"second")
    rows.put(B, b"other")
    rows.drop(B)
    rows.drop(B)

    assert (rows.get(A), rows.get(B), len(rows)) == (b"second", None, 1)
    assert list(rows) == [b"second"]


def test_a_snapshot_and_its_origin_go_their_own_ways() -> None:
    rows = SegmentRows()
    rows.put(A, b"a")
    rows.put(B, b"b")

    snapshot = rows.snapshot()
    rows.put(A, b"changed")
    rows.drop(B)
    snapshot.put(NEXT_TO_A, b"only in the snapshot")

    assert (sorted(rows), len(rows)) == ([b"changed"], 1)
    assert sorted(snapshot) == [b"a", b"b", b"only in the snapshot"]
    assert len(snapshot) == 3


def test_a_snapshot_of_a_snapshot_stays_as_it_is() -> None:
    rows = SegmentRows()
    rows.put(A, b"1")
    first = rows.snapshot()
    rows.put(A, b"2")
    second = rows.snapshot()
    rows.put(A, b"3")

    assert [one.get(A) for one in (first, second, rows)] == [b"1", b"2", b"3"]


def many_ids(count: int) -> list[bytes]:
    return [
        blake2b(number.to_bytes(4, "big"), digest_size=16).digest() for number in range(count)
    ]


def test_no_change_behind_a_snapshot_copies_more_than_a_shard() -> None:
    rows = SegmentRows()
    ids = many_ids(300 * SHARD_ROWS)
    for segment_id in ids:
        rows.put(segment_id, segment_id)

    pieces = sizes(rows)

    assert max(pieces) <= SHARD_ROWS
    assert sum(pieces) == len(rows) == len(ids)
    assert sorted(rows) == sorted(ids)
    assert [rows.get(segment_id) for segment_id in ids[:9]] == ids[:9]


def sizes(rows: SegmentRows) -> list[int]:
    """Of all dictionaries."""
    found = []
    for shard in rows._shards.values():
        found += [len(shard)] if isinstance(shard, dict) else sizes(shard)
    return found


def test_ids_that_differ_in_nothing_but_their_last_byte_are_kept_apart() -> None:
    rows = SegmentRows()
    ids = [bytes(14) + number.to_bytes(2, "big") for number in range(2 * SHARD_ROWS)]
    for segment_id in ids:
        rows.put(segment_id, segment_id)
    snapshot = rows.snapshot()
    for segment_id in ids[::2]:
        rows.drop(segment_id)

    assert sorted(rows) == ids[1::2]
    assert (len(rows), len(snapshot), sorted(snapshot)) == (SHARD_ROWS, len(ids), ids)


def test_rows_that_are_not_there_cost_nothing() -> None:
    assert sizes(SegmentRows()) == []
