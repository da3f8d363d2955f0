"""The parts of a log in tierledger's own layout: names, sizes, and checksums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tierledger.events.errors import CorruptRemoteData
from tierledger.tiering.layouts.ledger.format import SegmentHeader, extend_crc32c
from tierledger.tiering.objects.stream import Piece, pieces

if TYPE_CHECKING:
    from tierledger.tiering.objects.store import ObjectStore


def part_sizes(place: str, log_size: int, part_size: int) -> Iterator[tuple[str, int]]:
    """Name and size of each part, in order."""
    for number, start in enumerate(range(0, log_size, part_size)):
        yield f"{place}/log.{number:05}", min(part_size, log_size - start)


def log_pieces(
    place: str, log_size: int, part_size: int, start: int, end: int
) -> Iterator[Piece]:
    """The pieces of objects with the log's bytes from `start` to before `end`, in order."""
    for number in range(start // part_size, -(-end // part_size)):
        base = number * part_size
        name = f"{place}/log.{number:05}"
        size = min(part_size, log_size - base)
        yield from pieces(name, max(start - base, 0), min(end - base, size), size)


def has_whole_part(log_size: int, part_size: int, start: int, end: int) -> bool:
    """Whether a part lies between `start` and `end`, from its beginning to its end."""
    first = -(-start // part_size) * part_size
    return first < min(first + part_size, log_size) <= end


class PartCheck:
    """Verifies the checksums of the parts that are read as a whole."""

    def __init__(self, header: SegmentHeader, store: ObjectStore, place: str) -> None:
        self._header = header
        self._store = store
        self._numbers = {
            name: number
            for number, (name, _) in enumerate(
                part_sizes(place, header.log_size, header.part_size)
            )
        }
        self._crc: int | None = None

    def pass_on(self, piece: Piece, data: bytes) -> None:
        """Take the next piece; at the end of a part that was read whole, verify the part.

        Raises:
            CorruptRemoteData: The part's checksum is wrong.
        """
        if piece.start == 0:
            self._crc = 0
        if self._crc is None:
            return
        self._crc = extend_crc32c(self._crc, data)
        number = self._numbers[piece.name]
        part_end = min(
            self._header.part_size, self._header.log_size - number * self._header.part_size
        )
        if piece.end == part_end:
            expected, found, self._crc = self._header.part_crcs[number], self._crc, None
            if expected != found:
                raise CorruptRemoteData(
                    f"{self._store.name_of(piece.name)}: expected crc32c {expected:08x}, "
                    f"found {found:08x}"
                )
