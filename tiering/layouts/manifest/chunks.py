"""The chunks of a log that the plugin compressed or encrypted, and where each is stored.

A chunk has a fixed number of the log's bytes; only the last one may have fewer. Each was
compressed and encrypted alone, so any part of the log can be read by the chunks that hold it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import accumulate
from struct import Struct
from typing import Any, Final, NamedTuple

from tierledger.tiering.formats.compression import ZSTD, decompressed
from tierledger.tiering.objects.stream import PIECE_BYTES, Piece

_INT32: Final = Struct(">i")
_FIXED, _VARIABLE = "fixed", "variable"


class Chunk(NamedTuple):
    """A chunk: which bytes of the log it has, and where they are in the object."""

    first: int
    last: int
    """Exclusive."""
    start: int
    end: int
    """Exclusive."""


class ChunkIndex:
    """Where each chunk of one log is stored."""

    def __init__(self, listed: Mapping[str, Any]) -> None:
        """Take a manifest's `chunkIndex`.

        Raises:
            ValueError, TypeError, KeyError: It is no chunk index.
        """
        self._chunk_bytes = number(listed["originalChunkSize"])
        self._log_size = number(listed["originalFileSize"])
        self._count = -(-self._log_size // self._chunk_bytes)
        if listed["type"] == _FIXED:
            size = number(listed["transformedChunkSize"])
            last = number(listed["finalTransformedChunkSize"])
            # Not materialised: a damaged index may claim billions of chunks.
            self._starts: range | list[int] = range(0, size * self._count, size)
            self.object_size = size * max(self._count - 1, 0) + (last if self._count else 0)
        elif listed["type"] == _VARIABLE:
            sizes = _sizes(base64.b64decode(listed["transformedChunks"], validate=True))
            if len(sizes) != self._count or any(one < 0 for one in sizes):
                raise ValueError(sizes[:8])
            *self._starts, self.object_size = accumulate(sizes, initial=0)
        else:
            raise ValueError(listed["type"])

    def pieces(self, name: str, start: int, end: int) -> Iterator[tuple[Piece, list[Chunk]]]:
        """The object's pieces with the log's bytes from `start` to before `end`, in order.

        A piece has whole chunks, about `PIECE_BYTES` of them.
        """
        held: list[Chunk] = []
        for at in range(start // self._chunk_bytes, -(-end // self._chunk_bytes)):
            chunk = self._chunk(at)
            if held and chunk.end - held[0].start > PIECE_BYTES:
                yield self._piece(name, held), held
                held = []
            held.append(chunk)
        if held:
            yield self._piece(name, held), held

    def _chunk(self, at: int) -> Chunk:
        first = at * self._chunk_bytes
        end = self._starts[at + 1] if at + 1 < self._count else self.object_size
        last = min(first + self._chunk_bytes, self._log_size)
        return Chunk(first, last, self._starts[at], end)

    def _piece(self, name: str, chunks: list[Chunk]) -> Piece:
        return Piece(name, chunks[0].start, chunks[-1].end, self.object_size)


def number(value: object) -> int:
    """`value`, which must be a number of bytes in a manifest."""
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _sizes(packed: bytes) -> list[int]:
    """The sizes of chunks: differences to the smallest, in as few bytes as needed each."""
    try:
        data = decompressed(ZSTD, packed)
    except Exception as error:  # The codec's library raises many.
        raise ValueError(packed[:80]) from error
    (count,) = _INT32.unpack_from(data)
    if count <= 1:
        sizes = [one for (one,) in _INT32.iter_unpack(data[_INT32.size :])]
        if len(sizes) != count:
            raise ValueError(count)
        return sizes
    (base,) = _INT32.unpack_from(data, _INT32.size)
    width, at = data[2 * _INT32.size], 2 * _INT32.size + 1
    end = at + width * (count - 1)
    if not 1 <= width <= _INT32.size or len(data) != end + _INT32.size:
        raise ValueError(count)
    above = (int.from_bytes(data[one : one + width], "big") for one in range(at, end, width))
    # The last chunk may be far smaller, and is not packed.
    return [*(base + one for one in above), *_INT32.unpack_from(data, end)]
