"""Stored events: what a release wrote is read for ever, and no damage goes unnoticed."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.storage.flipped_bits import flipped
from tierledger.events import log_events as log
from tierledger.events.errors import CorruptLog, FormatTooNew
from tierledger.events.event_codec import (
    HASH_BYTES,
    TYPES,
    EventCodec,
    chain,
    decode_events,
    encode_event,
    genesis,
    linked,
)

GOLDEN_FILES = {
    version: json.loads((Path(__file__).parents[1] / "golden" / f"{version}.json").read_text())
    for version in ("events-v1", "events-v2", "events-v3", "events-v4")
}
"""Each made once, when its format was new; a change here breaks every stored log."""

GOLDEN = GOLDEN_FILES["events-v4"]

ID = bytes(range(100, 116))
TOPIC_ID = bytes(range(16))
START = genesis("golden-cluster", TOPIC_ID, 7)

Read = Callable[[list[bytes], int, bytes], object]
BOTH = pytest.mark.parametrize("read", [decode_events, linked])
"""What does not read bodies verifies as much of the log."""

BODIES: tuple[log.Body, ...] = (
    log.SessionOpened(1, 3, 2, 5, 11, None, "orders", None),
    log.SessionOpened(2, 4, 1, 1, 12, 9, "orders", "recorded"),
    log.SessionDisputed(4, 9, 3, None, 300),
    log.SegmentAdded(
        ID, 0, 99, (0, 0, 5, 40), 1_000_000, 1_690_000_000_000, 3, 17, None, False
    ),
    log.SegmentAdded(
        ID,
        0,
        2**63 - 1,
        (2**31 - 1, 0),
        -1,
        -1,
        -1,
        -(2**63),
        b"",
        True,
        (49, 2**40),
        ((1, b"t"),),
    ),
    log.SegmentUpdated(ID, 1, 3, 18, b"bucket-a"),
    log.SegmentUpdated(ID, 2, 3, 19, None, 1_048_577, (0, 1), None),
    log.PartitionDeleteUpdated(0, 3, 20),
    log.PartitionDeleteUpdated(2, -1, 21, (3, 4), None),
    log.ImportRecordDropped((3, 5), "illegal transition", ID),
    log.ImportRecordDropped((3, 6), "record without a partition", None),
    log.TombstonesDropped(4, 2),
    log.SessionClosed(2, "arrêt demandé"),
    log.SegmentKept(ID, 1_700_000_604_800, 1, 3, 22, "it is under the hold week"),
    log.SegmentPurgeStarted(ID, 1_700_000_664_800),
    log.SegmentPurged(ID),
)


def events() -> list[log.Event]:
    """One of each type and shape, with and without a request id, at rising times."""
    return [
        log.Event(at, 2, 1_700_000_000_000 + at, 3, None if at % 2 else b"request", body)
        for at, body in enumerate(BODIES)
    ]


def encoded(of: list[log.Event], previous: bytes = START) -> list[bytes]:
    stored = []
    for event in of:
        stored.append(encode_event(event, previous))
        previous = chain(stored[-1])
    return stored


def checked(content: object) -> bytes:
    """Bytes with a right checksum, whatever they say."""
    packed: bytes = msgpack.packb(content)
    return zlib.crc32(packed).to_bytes(4, "big") + packed


def frame(number: object = 2, version: object = 1, fields: object = (1, "x")) -> list[object]:
    return [0, 2, number, version, 5, 3, None, START, fields]


def test_every_type_is_in_the_golden_file() -> None:
    assert {type(body) for body in BODIES} == {kind for _, kind, _ in TYPES}
    assert [one["type"] for one in GOLDEN["events"]] == [type(one).__name__ for one in BODIES]


def test_todays_encoder_writes_the_golden_bytes() -> None:
    stored = encoded(events())

    assert GOLDEN["genesis"] == START.hex()
    assert [one["stored"] for one in GOLDEN["events"]] == [data.hex() for data in stored]
    assert [one["hash"] for one in GOLDEN["events"]] == [chain(data).hex() for data in stored]


def test_todays_decoder_reads_the_golden_bytes() -> None:
    assert decoded(GOLDEN) == events()


def test_events_of_earlier_versions_are_read_as_what_they_meant() -> None:
    without_purges = events()[:-2]
    without_kept = without_purges[:-1]

    assert decoded(GOLDEN_FILES["events-v3"]) == without_purges
    assert decoded(GOLDEN_FILES["events-v2"]) == without_kept
    assert decoded(GOLDEN_FILES["events-v1"]) == [
        event._replace(body=event.body._replace(in_a_row=0))
        if isinstance(event.body, log.SessionDisputed)
        else event
        for event in without_kept
    ]


def decoded(golden: dict[str, Any]) -> list[log.Event]:
    stored = [bytes.fromhex(one["stored"]) for one in golden["events"]]
    read, last = decode_events(stored, 0, bytes.fromhex(golden["genesis"]))
    assert linked(stored, 0, bytes.fromhex(golden["genesis"])) == last
    assert last.hex() == golden["events"][-1]["hash"]
    return read


def test_no_two_partitions_share_a_genesis() -> None:
    others = [genesis("other", TOPIC_ID, 7), genesis("golden-cluster", ID, 7)]
    others += [genesis("golden-cluster", TOPIC_ID, 8), START]

    assert len(set(others)) == 4
    assert {len(one) for one in others} == {HASH_BYTES}


@pytest.mark.parametrize("at", range(len(BODIES)), ids=lambda at: type(BODIES[at]).__name__)
@BOTH
def test_every_single_bit_that_flips_is_noticed(at: int, read: Read) -> None:
    event = events()[at]._replace(position=0)
    (stored,) = encoded([event])

    for bit in range(8 * len(stored)):
        damaged = flipped(stored, bit // 8, 1 << bit % 8)
        with pytest.raises(CorruptLog):
            read([damaged], 0, START)


@BOTH
def test_an_event_that_was_cut_off_is_noticed_at_any_length(read: Read) -> None:
    (stored,) = encoded(events()[:1])

    for length in range(len(stored)):
        with pytest.raises(CorruptLog):
            read([stored[:length]], 0, START)


@pytest.mark.parametrize(
    "change",
    [
        lambda one: [one[1], one[0], one[2]],
        lambda one: [one[0], one[2]],
        lambda one: [one[0], one[0], one[1]],
        lambda one: one[1:],
    ],
    ids=["swapped", "left out", "doubled", "beheaded"],
)
@BOTH
def test_events_are_read_in_their_order_or_not_at_all(
    change: Callable[[list[bytes]], list[bytes]], read: Read
) -> None:
    stored = encoded(events()[:3])

    with pytest.raises(CorruptLog):
        read(change(stored), 0, START)


@BOTH
def test_an_event_of_another_log_is_not_read_here(read: Read) -> None:
    foreign = encoded(events()[:1], genesis("golden-cluster", TOPIC_ID, 8))

    with pytest.raises(CorruptLog, match="predecessor"):
        read(foreign, 0, START)


@BOTH
def test_an_event_that_says_it_stands_elsewhere_is_not_read(read: Read) -> None:
    moved = encode_event(events()[0]._replace(position=1), START)

    with pytest.raises(CorruptLog, match="has position 1"):
        read([moved], 0, START)


@BOTH
def test_a_rewritten_event_breaks_the_chain_at_its_successor(read: Read) -> None:
    stored = encoded(events()[:3])
    forged = encode_event(events()[1]._replace(broker_id=9), chain(stored[0]))

    with pytest.raises(CorruptLog, match="position 2"):
        read([stored[0], forged, stored[2]], 0, START)


@pytest.mark.parametrize(
    "content",
    [
        frame(fields=(1,)),
        frame(fields=(1, "x", 3)),
        frame(fields=()),
        frame(fields=None),
        frame(fields=b"ab"),
        frame(fields="ab"),
        frame(fields=7),
        frame(fields={"number": 1, "reason": "x"}),
        frame(number={}),
        frame(version="one"),
        frame(version=0),
        frame(version=None),
        frame()[:-1],
        [*frame(), None],
        None,
        7,
        [],
        {},
    ],
    ids=str,
)
def test_garbage_under_a_right_checksum_is_a_corrupt_log(content: object) -> None:
    with pytest.raises(CorruptLog, match="position 0"):
        decode_events([checked(content)], 0, START)


@given(st.binary(max_size=64))
def test_any_bytes_under_a_right_checksum_are_a_corrupt_log(packed: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_events([zlib.crc32(packed).to_bytes(4, "big") + packed], 0, START)


@pytest.mark.parametrize(("number", "version"), [(99, 1), (2, 2), (0, 1)])
def test_a_newer_programs_event_is_not_called_corrupt(number: int, version: int) -> None:
    with pytest.raises(FormatTooNew):
        decode_events([checked(frame(number, version))], 0, START)


# Upcasting, with a version of `SessionClosed` that is made up here.


class SessionClosedLater(NamedTuple):
    number: int
    reason: str
    by: str
    seconds: int


def to_2(fields: list[Any]) -> list[Any]:
    return [*fields, "nobody"]


def to_3(fields: list[Any]) -> list[Any]:
    return [*fields, 60]


LATER = EventCodec([(2, SessionClosedLater, 3)], {(2, 1): to_2, (2, 2): to_3})


def test_an_old_event_is_read_as_todays() -> None:
    closed = log.Event(0, 2, 5, 3, None, log.SessionClosed(2, "shutdown"))

    (event,), last = LATER.decode([encode_event(closed, START)], 0, START)

    body: object = event.body
    assert body == SessionClosedLater(2, "shutdown", "nobody", 60)
    assert event[:-1] == closed[:-1]
    assert last == chain(encode_event(closed, START)), "the hash is over the bytes as stored"


def test_each_version_is_lifted_by_the_steps_that_it_lacks() -> None:
    stored = [
        checked(frame(2, 2, (2, "shutdown", "somebody"))),
        checked(frame(2, 3, (2, "shutdown", "somebody", 1))),
    ]

    bodies: list[object] = [LATER.decode([data], 0, START)[0][0].body for data in stored]

    assert bodies == [
        SessionClosedLater(2, "shutdown", "somebody", 60),
        SessionClosedLater(2, "shutdown", "somebody", 1),
    ]


def test_an_old_event_with_too_few_fields_is_corrupt_whatever_its_upcaster_thinks() -> None:
    def picky(fields: list[Any]) -> list[Any]:
        return [fields[0], fields[1], "nobody", 60]

    codec = EventCodec([(2, SessionClosedLater, 2)], {(2, 1): picky})

    with pytest.raises(CorruptLog):
        codec.decode([checked(frame(2, 1, (1,)))], 0, START)


def test_a_version_that_nothing_lifts_is_corrupt() -> None:
    codec = EventCodec([(2, SessionClosedLater, 3)], {(2, 2): to_3})

    with pytest.raises(CorruptLog, match="version 1"):
        codec.decode([checked(frame(2, 1))], 0, START)


def test_a_codec_writes_its_own_version() -> None:
    event = log.Event(0, 2, 5, 3, None, SessionClosedLater(1, "x", "me", 2))  # type: ignore[arg-type]

    stored = LATER.encode(event, START)

    assert LATER.decode([stored], 0, START)[0] == [event]
    with pytest.raises(FormatTooNew):
        decode_events([stored], 0, START)
