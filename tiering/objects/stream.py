"""Long reads in pieces: the next piece is fetched while one is used."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.objects.request_counts import Operation

if TYPE_CHECKING:
    from tierledger.tiering.objects.store import ObjectStore

PIECE_BYTES: Final = 8 * 1024 * 1024
"""Bytes per request of a long read."""

PIECES_AHEAD: Final = 1
"""Pieces in flight beside the one in use: with 8 MiB each, 16 MiB per reader."""


class Piece(NamedTuple):
    """Bytes of one object, from `start` to before `end`."""

    name: str
    start: int
    end: int
    size: int
    """Size of the whole object."""


def pieces(name: str, start: int, end: int, size: int) -> Iterator[Piece]:
    """The bytes of `name` from `start` to before `end`, cut at multiples of `PIECE_BYTES`."""
    while start < end:
        until = min(end, start - start % PIECE_BYTES + PIECE_BYTES)
        yield Piece(name, start, until, size)
        start = until


async def read_ahead(
    store: ObjectStore, wanted: Iterator[Piece]
) -> AsyncGenerator[tuple[Piece, bytes], None]:
    """Each piece with its bytes, in order. Raises as `ObjectStore.get_range` does."""
    coming: deque[tuple[Piece, asyncio.Task[bytes]]] = deque()
    try:
        for piece in wanted:
            read = store.get_range(Operation.FETCH_LOG, *piece)
            coming.append((piece, asyncio.ensure_future(read)))
            if len(coming) > PIECES_AHEAD:
                yield await _first(coming)
        while coming:
            yield await _first(coming)
    finally:
        for _, task in coming:
            task.cancel()
        await asyncio.gather(*(task for _, task in coming), return_exceptions=True)


async def _first(coming: deque[tuple[Piece, asyncio.Task[bytes]]]) -> tuple[Piece, bytes]:
    """Wait for the first piece. Until then it stays in `coming`, where it can be cancelled."""
    piece, task = coming[0]
    data = await task
    coming.popleft()
    return piece, data


def checked_range(
    metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None
) -> tuple[int, int]:
    """The range of a read of a segment: start and end (exclusive), in bytes.

    Raises:
        InvalidArgument: The positions are not within the segment.
    """
    size = metadata.segment_size_in_bytes
    if size == start_position == 0:  # Compaction removed all records before the copy.
        return 0, 0
    last = size - 1 if end_position is None else min(end_position, size - 1)
    if not 0 <= start_position < size:
        raise InvalidArgument(
            f"{metadata.remote_log_segment_id}: expected a position from 0 to before {size}, "
            f"got {start_position}"
        )
    if last < start_position:
        raise InvalidArgument(
            f"{metadata.remote_log_segment_id}: expected an end at or behind {start_position}, "
            f"got {end_position}"
        )
    return start_position, last + 1
