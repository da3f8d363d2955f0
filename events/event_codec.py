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
from typing import Any, NamedTuple
from zlib import crc32

import msgpack
from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder

from tierledger.events import log_events
from tierledger.events.errors import CorruptLog, FormatTooNew, InvalidArgument
from tierledger.events.log_events import Event, Tags
from tierledger.events.typed_fields import (
    Count,
    Int32,
    Int64,
    RequestId,
    check_items,
    checked,
    kinds_of,
    shown,
)

Upcaster = Callable[[list[Any]], list[Any]]

HASH_BYTES = 16

NOT_ASCENDING = "expected offsets and leader epochs to ascend"


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
    (9, log_events.SegmentKept, 1),
    (10, log_events.SegmentPurgeStarted, 1),
    (11, log_events.SegmentPurged, 1),
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


def chained(stored: Iterable[bytes]) -> list[bytes]:
    """The hashes of several stored events."""
    hashes: list[bytes] = []
    note, fresh = hashes.append, _unhashed.copy
    for data in stored:
        hashed = fresh()
        hashed.update(data)
        note(hashed.digest())
    return hashes


_TAGS: Any = int | bytes | None
for _ in range(6):  # The tags of a leader epoch are six deep.
    _TAGS = tuple[_TAGS, ...] | int | bytes | None
"""`log_events.Tags`, in which msgspec would make lists, not tuples, of `Any`."""


def _reader(kind: type[Any], *, is_strict: bool) -> Callable[[Raw], Any]:
    """Reads the body `kind`, whose fields have to fit their annotations and each other.

    It raises what msgspec or msgpack do, or `InvalidArgument`.
    """
    kinds = tuple(_TAGS if of == Tags else of for of in kinds_of(kind).values())
    # Of fixed length, while fields of a named tuple may be left out if they have a default.
    fields_of = Decoder(tuple[kinds]).decode if is_strict else _plain  # type: ignore[valid-type]
    is_orderly = getattr(kind, "is_orderly", bool) if is_strict else bool

    def read(packed: Raw) -> Any:  # noqa: ANN401 - Of that kind.
        body = _new(kind, fields_of(packed))
        if len(body) != len(kinds):
            raise InvalidArgument(f"expected {len(kinds)} fields, got {len(body)}")
        if not is_orderly(body):
            raise InvalidArgument(f"{NOT_ASCENDING}, got {shown(body)}")
        return body

    return read


def _reader_of_whole(kind: type[Any]) -> Callable[[bytes], Any]:
    """Reads a stored event with a body `kind`: the header and what `_reader` reads, at once.

    It takes half the time, but the body is a mere tuple, and its order is not checked.
    """
    header = tuple(kinds_of(_Stored).values())[:-1]
    kinds = tuple(_TAGS if of == Tags else of for of in kinds_of(kind).values())
    return Decoder(tuple[(*header, tuple[kinds])]).decode  # type: ignore[valid-type]


def _plain(packed: Raw) -> tuple[Any, ...]:
    """The fields of a body, whatever they are."""
    fields = _unpack(packed, use_list=False)
    if type(fields) is not tuple:
        raise InvalidArgument(f"expected fields, found {shown(fields)}")
    return fields


class _Stored(NamedTuple):
    """One stored event; its type and version say how to read `fields`."""

    position: Count
    session: Count
    number: int
    version: int
    log_time_ms: Int64
    broker_id: Int32
    request_id: RequestId | None
    before: bytes
    fields: Raw


_read = Decoder(_Stored).decode


def _check(event: Event) -> None:
    """Refuse an event of which a field does not fit.

    Raises:
        InvalidArgument: The message names the field.
    """
    for name, value in zip(Event._fields[:-1], event[:-1], strict=True):
        checked(kinds_of(Event)[name], value, name)
    check_items(type(event.body), event.body)


def log_time_of(stored: bytes) -> int:
    """The log time of one stored event, wherever it is in its log.

    Raises:
        CorruptLog: The checksum is wrong, or it is no event.
    """
    packed = stored[4:]
    try:
        if stored[:4] == _checksum(crc32(packed)):
            return _read(packed).log_time_ms
    except (MsgspecError, RecursionError):
        pass
    raise CorruptLog(f"{len(stored)} bytes are no event")


def linked(stored: Iterable[bytes], position: int, previous: bytes) -> bytes:
    """The hash of the last of `stored`, consecutive events of whatever log and release.

    They are verified as by `EventCodec.decode`, but for their bodies.

    Raises:
        CorruptLog: A checksum, a position or a hash is wrong.
    """
    for data in stored:
        packed = data[4:]
        try:
            event = _read(packed)
        except (MsgspecError, RecursionError) as error:
            raise CorruptLog(f"position {position}: not an event ({error})") from error
        if data[:4] != _checksum(crc32(packed)):
            raise CorruptLog(f"position {position}: the checksum of {len(data)} bytes is wrong")
        if event.position != position:
            raise CorruptLog(f"position {position}: the event has position {event.position}")
        if event.before != previous:
            raise CorruptLog(f"position {position}: the predecessor's hash does not match")
        previous = chain(data)
        position += 1
    return previous


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
        self._by_number = {
            number: (kind, version, _reader(kind, is_strict=is_strict))
            for number, kind, version in types
        }
        self._numbers = {kind: number for number, kind, _ in types}
        self._whole = {kind: _reader_of_whole(kind) for _, kind, _ in types if is_strict}
        self._upcasters = dict(upcasters or {})
        self._is_strict = is_strict

    def encode(self, event: Event, previous: bytes) -> bytes:
        """The stored bytes of `event`, which follows the event whose hash is `previous`.

        Raises:
            InvalidArgument: A field does not fit, so `decode` would refuse the bytes.
        """
        at, session, log_time, broker, request, body = event
        kind = type(body)
        number = self._numbers[kind]
        _, version, read = self._by_number[number]
        try:
            packed: bytes = _pack(
                (at, session, number, version, log_time, broker, request, previous, body)
            )
            if not self._is_strict:
                read(_read(packed).fields)
            else:
                self._whole[kind](packed)
                if type(body) is log_events.SegmentAdded and not body.is_orderly():
                    raise InvalidArgument(NOT_ASCENDING)
        except (MsgspecError, TypeError, ValueError, OverflowError) as error:
            if not self._is_strict:
                raise
            _check(event)
            raise InvalidArgument(f"cannot be stored: {shown(event)} ({error})") from error
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
        packed = b""
        known, note, fresh = self._by_number, events.append, _unhashed.copy
        try:
            for data in stored:
                packed = data[4:]
                if data[:4] != _checksum(crc32(packed)):
                    raise CorruptLog(f"the checksum of {len(data)} bytes is wrong")
                at, session, number, version, log_time, broker, request, before, fields = _read(
                    packed
                )
                if at != position:
                    raise CorruptLog(f"the event has position {at}")
                if before != previous:
                    raise CorruptLog("the predecessor's hash does not match")
                if number not in known:
                    raise FormatTooNew(f"event type {number} is unknown here")
                _, current, read = known[number]
                if version != current:
                    fields = Raw(self._upcast(number, version, current, fields))
                note(_new(Event, (at, session, log_time, broker, request, read(fields))))
                hashed = fresh()  # As in `chain`.
                hashed.update(data)
                previous = hashed.digest()
                position += 1
        except (CorruptLog, FormatTooNew) as error:
            raise type(error)(f"position {position}: {error}") from None
        except (MsgspecError, RecursionError, ValueError, TypeError, LookupError) as error:
            # The checksum is right, but no event was encoded so.
            misfit = self._misfit(packed) or error
            raise CorruptLog(f"position {position}: not an event ({misfit})") from error
        return events, previous

    def _misfit(self, packed: bytes) -> Exception | None:
        """The error that names what does not fit in an event, if that is one of its fields."""
        try:
            at, session, number, _, log_time, broker, request, _, fields = _unpack(
                packed, use_list=False
            )
            kind = self._by_number[number][0]
            if len(fields) != len(kinds_of(kind)):
                return InvalidArgument(
                    f"expected {len(kinds_of(kind))} fields, got {len(fields)}"
                )
            body = kind(*fields)
            _check(Event(at, session, log_time, broker, request, body))
        except (ValueError, TypeError, LookupError) as error:
            return error
        return None

    def _upcast(self, number: int, version: int, current: int, fields: Raw) -> bytes:
        """The fields of an earlier version as those of today's, packed like them."""
        if version > current:
            raise FormatTooNew(
                f"event type {number} in version {version}, this program reads up to {current}"
            )
        risen = list(_unpack(fields, use_list=False))
        for step in range(version, current):
            upcaster = self._upcasters.get((number, step))
            if upcaster is None:
                raise CorruptLog(f"type {number} has no version {step}")
            risen = upcaster(risen)
        packed: bytes = _pack(risen)
        return packed


PARTITION_CODEC = EventCodec(TYPES, UPCASTERS)
"""Reads and writes the logs of partitions."""

encode_event = PARTITION_CODEC.encode
decode_events = PARTITION_CODEC.decode
