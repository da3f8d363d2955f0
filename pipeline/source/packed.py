"""Stored events to columns, all at once: NumPy reads each field of all of them in one step.

Rule: what is read here is what msgpack reads. Events of any other form than the ones below are
`UnfitEvents`, and the caller reads them event by event. So this may be too strict, but never
takes something for an event that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import msgpack
import numpy as np
import pyarrow as pa

from tierledger.events import log_events as log
from tierledger.events.event_codec import HASH_BYTES, TYPES
from tierledger.events.identifiers import UUID_BYTES

Numbers: TypeAlias = Any
"""An array of NumPy."""

Fields: TypeAlias = "list[Any]"
"""The fields of bodies of one type: for each an array of NumPy or Arrow, or a sequence."""

SUM_BYTES = 4
PADDING = 16
"""Bytes behind the last event, so that a word can be read at each of its bytes."""

NIL = 0xC0
_TWO, _NINE = 0x92, 0x99
"""Arrays of two and of nine fields."""


class UnfitEvents(Exception):
    """Events that are damaged, or of a form that is not read at once; left as they were."""


class Lists(NamedTuple):
    """Lists of integers, of one event after another."""

    flat: Numbers
    lengths: Numbers


class PackedRows(NamedTuple):
    """The columns of consecutive events, as `scan.Columns` has them, but for the bodies."""

    positions: Numbers
    sessions: Numbers
    numbers: Numbers
    versions: Numbers
    times: Numbers
    brokers: Numbers
    requests: Any
    before: bytes
    """The hashes of all predecessors, one after another."""
    bodies: dict[int, tuple[Numbers, Fields]]
    """By type number: the rows with such events, and their fields."""


class _Form(NamedTuple):
    """How a field begins, by its first byte."""

    skip: Numbers
    """Bytes before the number in it."""
    shift: Numbers
    """By how many bits the word is too long that begins there."""
    mask: Numbers
    whole: Numbers
    """Bytes of all that; 0 if this is no such field."""


def _form(kinds: Iterable[tuple[Iterable[int], int, int, bool]]) -> _Form:
    """`kinds` are first bytes, bytes before the number and of it, and whether it has a sign."""
    skip, shift, mask, whole = (np.zeros(256, np.int64) for _ in range(4))
    for firsts, before, size, is_signed in kinds:
        for first in firsts:
            skip[first], shift[first] = before, 64 - 8 * size
            mask[first] = -1 if is_signed or size == 8 else (1 << 8 * size) - 1
            whole[first] = before + size
    return _Form(skip, shift, mask, whole)


_UINT64 = 0xCF
_INTEGERS = _form(
    [
        ((*range(0x80), *range(0xE0, 0x100)), 0, 1, True),
        *(((0xCC + power,), 1, 1 << power, False) for power in range(4)),
        *(((0xD0 + power,), 1, 1 << power, True) for power in range(4)),
    ]
)
_LENGTHS = _form(((0xC4 + power,), 1, 1 << power, False) for power in range(3))
"""Lengths of bytes."""

_COUNTS = np.full(256, -1)
_COUNTS[0x90:0xA0] = np.arange(16)
"""Lengths of short arrays, by their first byte."""

_ARRAY_16 = 0xDC


class _Cursor:
    """Reads one field after another, of many events at a time."""

    def __init__(self, data: bytes, at: Numbers) -> None:
        """`data` goes on for `PADDING` bytes behind what may be read; `at` are the places."""
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._words = np.ndarray((len(data) - 7,), ">i8", data, strides=(1,))
        self.at = at

    def of(self, some: Numbers) -> _Cursor:
        """A cursor for some of the events, where this one is."""
        return _Cursor(self._data, self.at[some])

    def firsts(self) -> Numbers:
        """The first bytes of the fields."""
        return self._bytes[self.at]

    def integers(self) -> Numbers:
        firsts = self._one_or_all(self.firsts())
        values = self._numbers(_INTEGERS, firsts)
        if ((firsts == _UINT64) & (values < 0)).any():
            raise UnfitEvents("an integer above 2^63")
        self.at = self.at + _INTEGERS.whole[firsts]
        return values

    def _one_or_all(self, firsts: Numbers) -> Numbers:
        """The first byte of all fields if they have the same, as mostly; else each."""
        is_one = len(firsts) > 0 and (firsts == firsts[0]).all()
        return firsts[0] if is_one else firsts

    def _numbers(self, form: _Form, firsts: Numbers) -> Numbers:
        """The numbers of fields with these first bytes, or with that one."""
        _require(form.whole[firsts] > 0)
        words = self._words[self.at + form.skip[firsts]].astype(np.int64)
        return (words >> form.shift[firsts]) & form.mask[firsts]

    def constant(self, first: int) -> None:
        """A field of one byte, which all events have."""
        _require(self.firsts() == first)
        self.at = self.at + 1

    def choice(self, first: int, second: int) -> Numbers:
        """Whether it is the first of two fields of one byte."""
        firsts = self.firsts()
        is_first = firsts == first
        _require(is_first | (firsts == second))
        self.at = self.at + 1
        return is_first

    def identifiers(self, size: int) -> Numbers:
        """Bytes of that length, as rows of a matrix."""
        _require((self.firsts() == 0xC4) & (self._bytes[self.at + 1] == size))
        found = self._matrix(self.at + 2, size)
        self.at = self.at + 2 + size
        return found

    def bytes_or_none(self) -> Any:  # noqa: ANN401 - Arrow has no types.
        """Bytes of any length, null for none, as an Arrow array."""
        firsts = self.firsts()
        there = firsts != NIL
        if not there.any():
            self.at = self.at + 1
            return pa.nulls(len(firsts), pa.binary())
        lengths, begins = np.zeros(len(firsts), np.int64), self.at + 1
        some = self.of(there)
        of_some = some._one_or_all(firsts[there])
        lengths[there] = some._numbers(_LENGTHS, of_some)
        begins[there] = some.at + _LENGTHS.whole[of_some]
        self.at = begins + lengths
        _require(self.at <= len(self._data) - PADDING)
        sizes = lengths[there]
        if sizes[0] == 0 or (sizes != sizes[0]).any():
            return _cut(self._data, begins, self.at, there)
        borders = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=borders[1:])
        data = self._matrix(begins[there], int(sizes[0]))
        nulls = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
        buffers = [nulls, pa.py_buffer(borders), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)

    def _matrix(self, begins: Numbers, size: int) -> Numbers:
        """Bytes of that length from these places on, as rows."""
        shape = (len(self._data) - size + 1,)
        whole = np.ndarray(shape, f"V{size}", self._data, strides=(1,))[begins]
        return whole.view(np.uint8).reshape(-1, size)

    def lists(self) -> Lists:
        """Lists of integers."""
        firsts = self.firsts()
        lengths, is_long = _COUNTS[firsts], firsts == _ARRAY_16
        self.at = self.at + 1
        if is_long.any():
            lengths[is_long] = (
                self._bytes[self.at[is_long]].astype(np.int64) << 8
            ) | self._bytes[self.at[is_long] + 1]
            self.at[is_long] += 2
        _require(lengths >= 0)
        flat = np.empty(lengths.sum(), np.int64)
        begins = np.cumsum(lengths) - lengths
        for number in range(lengths.max(initial=0)):
            some = np.flatnonzero(lengths > number)
            cursor = self.of(some)
            flat[begins[some] + number] = cursor.integers()
            self.at[some] = cursor.at
        return Lists(flat, lengths)

    def pairs_or_none(self) -> tuple[Any, Any]:
        """Two integers, or null for both, as Arrow arrays."""
        firsts = self.firsts()
        there = firsts != NIL
        self.at = self.at + 1
        found = np.zeros((2, len(firsts)), np.int64)
        if there.any():
            _require(firsts[there] == _TWO)
            some = self.of(there)
            found[:, there] = some.integers(), some.integers()
            self.at[there] = some.at
        first, second = (pa.array(one, mask=~there) for one in found)
        return first, second


def _require(is_fit: Numbers) -> None:
    if not np.all(is_fit):
        raise UnfitEvents("a field of another form")


def _cut(data: bytes, begins: Numbers, ends: Numbers, there: Numbers) -> Any:  # noqa: ANN401 - Arrow.
    """Pieces of `data` that follow each other, null where they are not there."""
    borders = np.stack([begins, ends], axis=1).ravel().astype(np.int32)
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(data)]
    # Every other piece is what is between them.
    pieces = pa.Array.from_buffers(pa.binary(), len(borders) - 1, buffers)
    return pieces.take(pa.array(np.arange(0, len(borders), 2), mask=~there))


def _added(cursor: _Cursor) -> Fields:
    segment_ids = cursor.identifiers(UUID_BYTES)
    start_offsets, end_offsets, epochs = cursor.integers(), cursor.integers(), cursor.lists()
    _require((epochs.lengths % 2 == 0) & (epochs.lengths > 0))
    numbers = [cursor.integers() for _ in ("size", "max_timestamp_ms", "broker_id", "time")]
    custom_metadata, are_empty = cursor.bytes_or_none(), cursor.choice(0xC3, 0xC2)
    source = cursor.pairs_or_none()
    cursor.constant(NIL)  # Tags have no column.
    return [
        *(segment_ids, start_offsets, end_offsets, epochs, *numbers),
        *(custom_metadata, are_empty, source, None),
    ]


def _updated(cursor: _Cursor) -> Fields:
    segment_ids = cursor.identifiers(UUID_BYTES)
    numbers = [cursor.integers() for _ in ("state", "broker_id", "time")]
    custom_metadata, dropped_bytes = cursor.bytes_or_none(), cursor.integers()
    source = cursor.pairs_or_none()
    cursor.constant(NIL)
    return [segment_ids, *numbers, custom_metadata, dropped_bytes, source, None]


_Body: TypeAlias = "tuple[int, Callable[[_Cursor], Fields]]"

_NUMBERS = {kind: number for number, kind, _ in TYPES}

_BODIES: dict[int, _Body] = {
    _NUMBERS[log.SegmentAdded]: (0x9C, _added),
    _NUMBERS[log.SegmentUpdated]: (0x98, _updated),
}
"""Bodies that nearly all events have: their first byte, and what reads the rest."""

_VERSIONS = np.full(256, -1)
_VERSIONS[[number for number, _, _ in TYPES]] = [version for _, _, version in TYPES]


def packed_rows(stored: Sequence[bytes]) -> PackedRows:
    """The columns of stored events, whose checksums are right.

    Raises:
        UnfitEvents: An event is damaged, or has a form that is not read here.
    """
    data = b"".join([*stored, bytes(PADDING)])
    lengths = np.fromiter(map(len, stored), np.int64, len(stored))
    ends = np.cumsum(lengths)
    begins = ends - lengths
    try:
        _check_sums(stored, data, begins)
        return _read(data, begins + SUM_BYTES, ends)
    except (IndexError, ValueError, pa.ArrowException) as error:
        raise UnfitEvents(str(error)) from error


def _check_sums(stored: Sequence[bytes], data: bytes, begins: Numbers) -> None:
    # A body is freed at once, so that the next one is made in the same place.
    bodies = map(itemgetter(slice(SUM_BYTES, None)), stored)
    sums = np.fromiter(map(crc32, bodies), np.uint32, len(stored))
    _require(np.ndarray((len(data) - 3,), ">u4", data, strides=(1,))[begins] == sums)


def _read(data: bytes, begins: Numbers, ends: Numbers) -> PackedRows:
    cursor = _Cursor(data, begins)
    cursor.constant(_NINE)
    positions, sessions, numbers, versions, times, brokers = (
        cursor.integers() for _ in range(6)
    )
    _require((numbers >= 0) & (numbers < len(_VERSIONS)))
    _require(_VERSIONS[numbers] == versions)
    requests, before = cursor.bytes_or_none(), cursor.identifiers(HASH_BYTES).tobytes()
    bodies = dict[int, tuple[Numbers, Fields]]()
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        bodies[number] = rows, _fields(number, data, cursor.of(rows), ends[rows])
    return PackedRows(
        positions, sessions, numbers, versions, times, brokers, requests, before, bodies
    )


def _fields(number: int, data: bytes, cursor: _Cursor, ends: Numbers) -> Fields:
    if number in _BODIES:
        first, read = _BODIES[number]
        cursor.constant(first)
        fields = read(cursor)
        _require(cursor.at == ends)
        return fields
    packed = (data[at:end] for at, end in zip(cursor.at.tolist(), ends.tolist(), strict=True))
    return list(zip(*[msgpack.unpackb(one, use_list=False) for one in packed], strict=True))
