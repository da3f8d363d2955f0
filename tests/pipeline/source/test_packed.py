"""What is read all at once is what is read event by event."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.storage.stored_partitions import CLUSTER, TIP
from tierledger.events import log_events as log
from tierledger.events.event_codec import chain, encode_event, genesis
from tierledger.events.log_events import Event
from tierledger.pipeline.log_ranges import LogPlace
from tierledger.pipeline.source import scan
from tierledger.pipeline.source.columns import FILE_SCHEMA, EventColumns, Rows
from tierledger.pipeline.source.packed import UnfitEvents, packed_rows

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
COUNT = st.one_of(st.integers(0, 300), st.integers(0, (1 << 63) - 1))
ID = st.binary(min_size=16, max_size=16)
SOURCE = st.none() | st.tuples(INT32, COUNT)
METADATA = st.none() | st.binary(max_size=300)
EPOCHS = st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=40, unique=True)


@st.composite
def added(draw: st.DrawFn) -> log.SegmentAdded:
    epochs = sorted(draw(EPOCHS))
    flat = tuple(value for epoch in epochs for value in (epoch, draw(COUNT)))
    start, end = sorted((draw(COUNT), draw(COUNT)))
    return log.SegmentAdded(
        *(draw(ID), start, end, flat, draw(INT32), draw(INT64), draw(INT32), draw(INT64)),
        *(draw(METADATA), draw(st.booleans()), draw(SOURCE), None),
    )


UPDATED = st.builds(
    log.SegmentUpdated,
    *(ID, st.integers(1, 3), INT32, INT64, METADATA, COUNT, SOURCE, st.none()),
)
OTHERS = st.one_of(
    st.builds(log.SessionClosed, COUNT, st.text(max_size=9)),
    st.builds(log.SegmentPurged, ID),
    st.builds(log.PartitionDeleteUpdated, st.integers(0, 2), INT32, INT64, SOURCE, st.none()),
    st.builds(log.ImportRecordDropped, st.tuples(INT32, COUNT), st.text(max_size=9), ID),
)
HEADERS = st.tuples(COUNT, INT64, INT32, st.none() | st.binary(max_size=16))
EVENTS: st.SearchStrategy[list[tuple[Any, log.Body]]] = st.lists(
    st.tuples(HEADERS, st.one_of(added(), UPDATED, OTHERS)), min_size=1
)


def stored_from(position: int, bodies: list[tuple[Any, log.Body]]) -> list[bytes]:
    previous, stored = genesis(CLUSTER, TIP.topic_id, TIP.partition), []
    for at, ((session, time_ms, broker, request), body) in enumerate(bodies, position):
        event = Event(at, session, time_ms, broker, request, body)
        stored.append(encode_event(event, previous))
        previous = chain(stored[-1])
    return stored


def part(stored: list[bytes], position: int = 0) -> scan._Part:
    place = LogPlace(0, position, genesis(CLUSTER, TIP.topic_id, TIP.partition), 0)
    return scan._Part(TIP, place, stored, list(map(chain, stored)))


def one_by_one(some: scan._Part) -> Rows:
    columns, _ = scan.verified(some.stored, some.place.next_position, some.place.chain_hash)
    return scan._one_by_one([scan._Verified(some, columns, some.stored)])


def columns_of(rows: Rows) -> pa.RecordBatch:
    return EventColumns(FILE_SCHEMA, CLUSTER).batch(rows)


@given(st.integers(0, 1 << 40), EVENTS)
def test_any_events_give_the_same_columns(
    position: int, bodies: list[tuple[Any, log.Body]]
) -> None:
    some = part(stored_from(position, bodies), position)
    at_once = columns_of(scan._at_once([some]))
    at_once.validate(full=True)
    assert at_once.equals(columns_of(one_by_one(some)))


@given(st.data())
def test_no_changed_byte_is_taken_for_an_event(data: st.DataObject) -> None:
    stored = stored_from(0, data.draw(EVENTS))
    number = data.draw(st.integers(0, len(stored) - 1))
    changed = bytearray(stored[number])
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    stored[number] = bytes(changed)
    with pytest.raises(UnfitEvents):
        packed_rows(stored)


def resealed(change: Callable[[list[Any]], object]) -> bytes:
    """An event of another form, under the right checksum."""
    body = log.SegmentUpdated(bytes(16), 1, 5, 7, None, 0)
    stored = encode_event(Event(0, 1, 7, 5, None, body), bytes(16))
    fields = msgpack.unpackb(stored[4:])
    change(fields)
    packed = msgpack.packb(fields)
    return crc32(packed).to_bytes(4, "big") + packed


ODD: dict[str, Callable[[list[Any]], object]] = {
    "a position that is text": lambda one: one.__setitem__(0, "0"),
    "a number above 2^63": lambda one: one.__setitem__(1, 1 << 63),
    "an unknown type": lambda one: one.__setitem__(2, 200),
    "a negative type": lambda one: one.__setitem__(2, -1),
    "another version": lambda one: one.__setitem__(3, 2),
    "a field too few": lambda one: one[8].pop(),
    "a field too many": lambda one: one[8].append(None),
    "tags": lambda one: one[8].__setitem__(7, [1]),
    "an id that is short": lambda one: one[8].__setitem__(0, bytes(15)),
    "a state that is none": lambda one: one[8].__setitem__(1, None),
    "a place of three": lambda one: one[8].__setitem__(6, [1, 2, 3]),
    "bytes that are text": lambda one: one[8].__setitem__(4, "metadata"),
    "no fields": lambda one: one.__setitem__(8, None),
    "a part too many": lambda one: one.append(1),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_an_event_of_another_form_is_left_to_the_codec(
    change: Callable[[list[Any]], object],
) -> None:
    packed_rows([resealed(lambda _: None)])
    with pytest.raises(UnfitEvents):
        packed_rows([resealed(change)])


@pytest.mark.parametrize("wrong", ["position", "hash"])
def test_what_does_not_follow_is_not_taken(wrong: str) -> None:
    body = log.SegmentPurged(bytes(16))
    stored = stored_from(5, [((1, 7, 5, None), body)] * 3)
    good = part(stored, 5)
    scan._at_once([good])
    place = good.place
    if wrong == "hash":
        place = place._replace(chain_hash=bytes(16))
    else:
        place = place._replace(next_position=6)
    with pytest.raises(UnfitEvents):
        scan._at_once([good._replace(place=place)])
    with pytest.raises(UnfitEvents):
        scan._at_once([good._replace(stored=stored[::-1])])
