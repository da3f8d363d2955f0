"""Long reads in pieces, the next of which is on its way while one is used."""

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
"""What one request of a long read fetches."""

PIECES_AHEAD: Final = 1
"""Pieces on their way beside the one in use: with 8 MiB each, 16 MiB per reader."""


class Piece(NamedTuple):
    """Bytes of one object, from `start` to before `end`."""

    name: str
    start: int
    end: int
    size: int
    """Of the whole object."""


def pieces(name: str, start: int, end: int, size: int) -> Iterator[Piece]:
    """The bytes of `name` from `start` to before `end`, cut at multiples of `PIECE_BYTES`."""
    while start < end:
        until = min(end, start - start % PIECE_BYTES + PIECE_BYTES)
        yield Piece(name, start, until, size)
        start = until


async def read_ahead(
    store: ObjectStore, wanted: Iterator[Piece]
) -> AsyncGenerator[tuple[Piece, bytes], None]:
    """Each piece with its bytes, in order. Errors as of `ObjectStore.get_range`."""
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
    """The first piece, when it is here; stays in `coming` until then, to be cancelled."""
    piece, task = coming[0]
    data = await task
    coming.popleft()
    return piece, data


def checked_range(
    metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None
) -> tuple[int, int]:
    """From where to before where a segment is read.

    Raises:
        InvalidArgument: That is no part of the segment.
    """
    size = metadata.segment_size_in_bytes
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
