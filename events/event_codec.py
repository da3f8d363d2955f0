"""Encodes events as bytes: msgpack with version, checksum and a hash chain.

One event is `crc32 (4 bytes, big-endian) | msgpack [position, session, type, version,
log_time_ms, broker_id, request_id, hash of the predecessor, fields]`. The hash is over the
predecessor's stored bytes. So if two replicas agree in an event's hash, their logs are equal up
to there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any, NoReturn
from zlib import crc32

import msgpack

from tierledger.events import log_events
from tierledger.events.errors import CorruptLog, FormatTooNew, InvalidArgument
from tierledger.events.log_events import Event
from tierledger.events.typed_fields import check_items, kinds_of, shown, values_test

Upcaster = Callable[[list[Any]], list[Any]]

HASH_BYTES = 16


EventTypes = Sequence[tuple[int, type[Any], int]]

TYPES: EventTypes = (
    (1, log_events.SessionOpened, 1),
    (2, log_events.SessionClosed, 1),
    (3, log_events.SessionDisputed, 2),
    (4, log_events.SegmentAdded, 1),
    (5, log_events.SegmentUpdated, 1),
    (6, log_events.PartitionDeleteUpdated, 1),
    (7, log_events.ImportRecordDropped, 1),
    (8, log_events.TombstonesDropped, 1),
)
"""Type number, class, and the version that is written today."""

UPCASTERS: dict[tuple[int, int], Upcaster] = {
    (3, 1): lambda fields: [*fields, 0],  # Version 1 did not count disputes in a row.
}
"""(type, version) to a function from that version's fields to the next version's."""

_pack = msgpack.Packer(autoreset=True).pack
_unpack = msgpack.unpackb
_checksum = Struct(">I").pack
_unhashed = blake2b(digest_size=HASH_BYTES)
_new = tuple.__new__  # A named tuple's own constructor takes twice as long.


def genesis(cluster_id: str, topic_id: bytes, partition: int) -> bytes:
    """The hash before a partition's first event, different for each partition."""
    text = _pack(("tierledger", cluster_id, bytes(topic_id), partition))
    return blake2b(text, digest_size=HASH_BYTES).digest()


def chain(stored: bytes) -> bytes:
    """The hash of one stored event, which is stored in its successor."""
    hashed = _unhashed.copy()  # Takes half as long as creating one.
    hashed.update(stored)
    return hashed.digest()


_PLACE = {name: kind for name, kind in kinds_of(Event).items() if name != "body"}
_is_placed = values_test(_PLACE.values())
"""Tests all fields of an event except its body."""


def _test_of_body(kind: type[Any], *, is_strict: bool) -> Callable[[Any], bool]:
    """A test whether a body's fields fit their annotations and each other."""
    width = len(kind._fields)
    if not is_strict:
        return lambda body: len(body) == width
    fits, orderly = values_test(kinds_of(kind).values()), getattr(kind, "is_orderly", None)
    if orderly is None:
        return lambda body: len(body) == width and fits(*body)
    return lambda body: len(body) == width and fits(*body) and orderly(body)


def _refuse(event: Event) -> NoReturn:
    """Report what is wrong with `event`.

    Raises:
        InvalidArgument: Always; the message names the field.
    """
    check_items(_PLACE, event[:-1])
    check_items(kinds_of(type(event.body)), event.body)
    raise InvalidArgument(
        f"expected offsets and leader epochs to ascend, got {shown(event.body)}"
    )


def log_time_of(stored: bytes) -> int:
    """The log time of one stored event, wherever it is in its log.

    Raises:
        CorruptLog: The checksum is wrong, or it is no event.
    """
    packed = stored[4:]
    try:
        if stored[:4] == _checksum(crc32(packed)):
            log_time = _unpack(packed, use_list=False)[4]
            if type(log_time) is int:
                return log_time
    except (ValueError, TypeError, LookupError):
        pass
    raise CorruptLog(f"{len(stored)} bytes are no event")


class EventCodec:
    """Turns the events of one kind of log into bytes and back."""

    def __init__(
        self,
        types: EventTypes,
        upcasters: Mapping[tuple[int, int], Upcaster] | None = None,
        *,
        is_strict: bool = True,
    ) -> None:
        """`types`: number, class, and written version of each type of event.

        `upcasters` map (type, version) to a function from that version's fields to the next's.
        If not `is_strict`, only the number of a body's fields is checked, for readers that skip
        a wrong item themselves.
        """
        tests = {kind: _test_of_body(kind, is_strict=is_strict) for _, kind, _ in types}
        self._by_number = {
            number: (kind, version, tests[kind]) for number, kind, version in types
        }
        self._by_class = {
            kind: (number, version, tests[kind]) for number, kind, version in types
        }
        self._upcasters = dict(upcasters or {})

    def encode(self, event: Event, previous: bytes) -> bytes:
        """The stored bytes of `event`, which follows the event whose hash is `previous`.

        Raises:
            InvalidArgument: A field does not fit, so `decode` would refuse the bytes.
        """
        number, version, fits = self._by_class[type(event.body)]
        at, session, log_time, broker, request, body = event
        if not (fits(body) and _is_placed(at, session, log_time, broker, request)):
            _refuse(event)
        packed: bytes = _pack(
            (at, session, number, version, log_time, broker, request, previous, body)
        )
        return _checksum(crc32(packed)) + packed

    def decode(
        self, stored: Iterable[bytes], position: int, previous: bytes
    ) -> tuple[list[Event], bytes]:
        """The events of one batch, and the hash of the last of them.

        Args:
            stored: Stored events, consecutive.
            position: The position that the first must have.
            previous: The hash of the event before the first.

        Raises:
            CorruptLog: A checksum, a position or a hash is wrong, or a field does not fit its
                annotation.
            FormatTooNew: An event has a type or version that this program does not know.
        """
        events: list[Event] = []
        known, note, fresh = self._by_number, events.append, _unhashed.copy
        is_placed = _is_placed
        try:
            for data in stored:
                packed = data[4:]
                if data[:4] != _checksum(crc32(packed)):
                    raise CorruptLog(f"the checksum of {len(data)} bytes is wrong")
                at, session, number, version, log_time, broker, request, before, fields = (
                    _unpack(packed, use_list=False)
                )
                if type(at) is not int or at != position:
                    raise CorruptLog(f"the event has position {shown(at)}")
                if before != previous:
                    raise CorruptLog("the predecessor's hash does not match")
                if number not in known:
                    raise FormatTooNew(f"event type {number} is unknown here")
                kind, current, fits = known[number]
                if type(fields) is not tuple:
                    raise CorruptLog(f"expected fields, found {shown(fields)}")
                if version != current:
                    fields = self._upcast(number, version, current, fields)
                body = _new(kind, fields)
                event = _new(Event, (at, session, log_time, broker, request, body))
                if not (fits(body) and is_placed(at, session, log_time, broker, request)):
                    _refuse(event)
                note(event)
                hashed = fresh()  # As in `chain`.
                hashed.update(data)
                previous = hashed.digest()
                position += 1
        except (CorruptLog, FormatTooNew) as error:
            raise type(error)(f"position {position}: {error}") from None
        except (ValueError, TypeError, LookupError) as error:
            # The checksum is right, but no event was encoded so.
            raise CorruptLog(f"position {position}: not an event ({error})") from error
        return events, previous

    def _upcast(
        self, number: int, version: int, current: int, fields: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        if version > current:
            raise FormatTooNew(
                f"event type {number} in version {version}, this program reads up to {current}"
            )
        risen = list(fields)
        for step in range(version, current):
            upcaster = self._upcasters.get((number, step))
            if upcaster is None:
                raise CorruptLog(f"type {number} has no version {step}")
            risen = upcaster(risen)
        return tuple(risen)


PARTITION_CODEC = EventCodec(TYPES, UPCASTERS)
"""Reads and writes the logs of partitions."""

encode_event = PARTITION_CODEC.encode
decode_events = PARTITION_CODEC.decode
