"""Kafka's index formats: offset, time and transaction index of one segment.

All are big-endian entries without a header. An index from a remote tier must be parsed, which
checks it against its segment. An index that was parsed before may be rebuilt from its bytes.
"""

from __future__ import annotations

import operator
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from struct import Struct
from typing import Final, NamedTuple

from tierledger.events.errors import CorruptRemoteData
from tierledger.events.metadata import RemoteLogSegmentMetadata

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
TRANSACTION_ENTRY: Final = Struct(">hqqqq")
TRANSACTION_INDEX_VERSION: Final = 0
TIMES_WITHOUT_OFFSETS_MAX: Final = 1
"""Most entries that a time index can have if the offset index has none.

Kafka adds a time entry only with an offset entry, and one more when it closes the segment.
"""
NO_TIMESTAMP: Final = -1
"""The timestamp of a lookup before a time index's first entry."""


class SegmentBounds(NamedTuple):
    """The bounds within which the indexes of a segment may point."""

    segment: str
    """The segment's name in errors."""
    start_offset: int
    end_offset: int
    """Inclusive."""
    size_in_bytes: int
    """Size of the log; not positive if it is not known."""

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata) -> SegmentBounds:
        return cls(
            str(metadata.remote_log_segment_id),
            metadata.start_offset,
            metadata.end_offset,
            metadata.segment_size_in_bytes,
        )


class OffsetPosition(NamedTuple):
    """An offset and where in the log file its batch starts."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A time and the offset up to which no record is later."""

    timestamp_ms: int
    offset: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction that ended in the segment; it may have begun in an earlier one."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker that ended it."""
    last_stable_offset: int
    """The log's last stable offset right after the transaction's end."""


class OffsetIndex:
    """Finds the position from which to read for an offset."""

    __slots__ = ("_base_offset", "_offsets", "_positions")

    def __init__(self, base_offset: int, data: bytes) -> None:
        """Take `data`, which was checked before."""
        self._base_offset = base_offset
        # Columns take as much memory as the bytes, and are searched ten times faster.
        words = array("i", data)
        self._offsets = _swapped(words[::2])
        self._positions = _swapped(words[1::2])

    @property
    def data(self) -> bytes:
        """The index in Kafka's format."""
        words = array("i", bytes(OFFSET_ENTRY.size * len(self)))
        words[::2] = self._offsets
        words[1::2] = self._positions
        return _swapped(words).tobytes()

    @classmethod
    def parse(cls, data: bytes, bounds: SegmentBounds) -> OffsetIndex:
        """The index in `data`.

        Raises:
            CorruptRemoteData: `data` is no offset index, or not this segment's.
        """
        about = _Checked("offset index", bounds)
        about.check_size(data, OFFSET_ENTRY)
        index = cls(bounds.start_offset, data)
        offsets, positions = index._offsets, index._positions
        about.check_ascending("relative offset", offsets, strictly=True)
        about.check_ascending("position", positions, strictly=True)
        about.check_relative_offsets(offsets)
        if positions:
            about.check_range("position", positions[0], 0, None)
        if positions and bounds.size_in_bytes > 0:
            about.check_range("position", positions[-1], 0, bounds.size_in_bytes - 1)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    def lookup(self, offset: int) -> OffsetPosition:
        """The entry with the largest offset that is not above `offset`; else the beginning.

        No batch that holds `offset` or more starts before that position.
        """
        at = bisect_right(self._offsets, offset - self._base_offset) - 1
        if at < 0:
            return OffsetPosition(self._base_offset, 0)
        return OffsetPosition(self._base_offset + self._offsets[at], self._positions[at])

    def entries(self) -> Iterator[OffsetPosition]:
        for relative, position in zip(self._offsets, self._positions, strict=True):
            yield OffsetPosition(self._base_offset + relative, position)


class TimeIndex:
    """Finds the offset from which to search for a timestamp."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int, data: bytes) -> None:
        """Take `data`, which was checked before."""
        self._base_offset = base_offset
        words = array("i", data)
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[::2] = words[::3]
        halves[1::2] = words[1::3]
        self._timestamps = _swapped(array("q", halves.tobytes()))
        self._offsets = _swapped(words[2::3])

    @property
    def data(self) -> bytes:
        """The index in Kafka's format."""
        halves = array("i", _swapped(self._timestamps[:]).tobytes())
        words = array("i", bytes(TIME_ENTRY.size * len(self)))
        words[::3] = halves[::2]
        words[1::3] = halves[1::2]
        words[2::3] = _swapped(self._offsets[:])
        return words.tobytes()

    @classmethod
    def parse(cls, data: bytes, bounds: SegmentBounds) -> TimeIndex:
        """The index in `data`.

        Raises:
            CorruptRemoteData: `data` is no time index, or not this segment's.
        """
        about = _Checked("time index", bounds)
        about.check_size(data, TIME_ENTRY)
        index = cls(bounds.start_offset, data)
        timestamps, offsets = index._timestamps, index._offsets
        # Kafka never writes a timestamp twice, but a repeated one does no harm.
        about.check_ascending("timestamp", timestamps, strictly=False)
        about.check_ascending("relative offset", offsets, strictly=False)
        about.check_relative_offsets(offsets)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The entry with the largest time that is not above `timestamp_ms`; else the beginning.

        No record before that offset is later than that entry's time.
        """
        at = bisect_right(self._timestamps, timestamp_ms) - 1
        if at < 0:
            return TimestampOffset(NO_TIMESTAMP, self._base_offset)
        return TimestampOffset(self._timestamps[at], self._base_offset + self._offsets[at])

    def entries(self) -> Iterator[TimestampOffset]:
        """All entries, ascending."""
        for timestamp_ms, relative in zip(self._timestamps, self._offsets, strict=True):
            yield TimestampOffset(timestamp_ms, self._base_offset + relative)


class TransactionIndex:
    """The aborted transactions that ended in a segment; empty if none did."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        """Wrap `data`, which was checked before."""
        self.data = data

    @classmethod
    def parse(cls, data: bytes, bounds: SegmentBounds) -> TransactionIndex:
        """The index in `data`.

        Raises:
            CorruptRemoteData: `data` is no transaction index, or not this segment's.
        """
        about = _Checked("transaction index", bounds)
        about.check_size(data, TRANSACTION_ENTRY)
        lasts = []
        for version, _, first, last, _ in TRANSACTION_ENTRY.iter_unpack(data):
            about.check_range("version", version, 0, TRANSACTION_INDEX_VERSION)
            about.check_range("first offset", first, 0, last)
            about.check_range("last offset", last, bounds.start_offset, bounds.end_offset)
            lasts.append(last)
        about.check_ascending("last offset", lasts, strictly=True)
        return cls(data)

    def __len__(self) -> int:
        return len(self.data) // TRANSACTION_ENTRY.size

    def entries(self) -> Iterator[AbortedTransaction]:
        """All aborted transactions, ordered by the offset at which they ended."""
        for _, *fields in TRANSACTION_ENTRY.iter_unpack(self.data):
            yield AbortedTransaction(*fields)

    def collect_aborted_transactions(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The transactions with offsets from `fetch_offset` to below `upper_bound_offset`.

        Also returns whether these are all. If not, transactions that ended in later segments
        may have such offsets, too.
        """
        found = []
        for one in self.entries():
            if one.last_offset >= fetch_offset and one.first_offset < upper_bound_offset:
                found.append(one)
            if one.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False


def _swapped(numbers: array[int]) -> array[int]:
    """`numbers` itself, converted between big-endian and this machine's byte order."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


class _Checked(NamedTuple):
    """Checks of one index, with errors that name it."""

    name: str
    bounds: SegmentBounds

    def check_size(self, data: bytes, entry: Struct) -> None:
        if len(data) % entry.size:
            raise self._corrupt(f"a multiple of {entry.size} bytes", f"{len(data)} bytes")

    def check_range(self, what: str, value: int, low: int, high: int | None) -> None:
        if value < low or (high is not None and value > high):
            wanted = f"{low} or more" if high is None else f"{low} to {high}"
            raise self._corrupt(f"{what}s of {wanted}", str(value))

    def check_relative_offsets(self, offsets: Sequence[int]) -> None:
        if offsets:
            last = self.bounds.end_offset - self.bounds.start_offset
            self.check_range("relative offset", offsets[0], 0, None)
            self.check_range("relative offset", offsets[-1], 0, last)

    def check_ascending(self, what: str, values: Sequence[int], *, strictly: bool) -> None:
        compare = operator.lt if strictly else operator.le
        if all(map(compare, values, islice(values, 1, None))):
            return
        pairs = enumerate(pairwise(values))
        at, (before, after) = next(one for one in pairs if not compare(*one[1]))
        raise self._corrupt(f"ascending {what}s", f"{after} after {before} in entry {at + 1}")

    def _corrupt(self, expected: str, got: str) -> CorruptRemoteData:
        return CorruptRemoteData(
            f"{self.name} of {self.bounds.segment}: expected {expected}, got {got}"
        )
