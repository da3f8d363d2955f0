"""Plans what a job reads: ranges of logs, found once, before any task starts.

Rule 1: a range is fixed when it is planned. Later appends are not read, so a job reads up to a
known position and no further.
Rule 2: a range begins with the chain hash of the event before it, so it is verified by itself.
Rule 3: damage affects only its own partition, and is reported by a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tierledger.events.errors import CorruptLog, DataError
from tierledger.events.event_codec import chain, log_time_of
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.partition.event_log import StoredBatch, stored_events
from tierledger.storage.partition.reader import PartitionReader, planned_ends

CORRUPT_NUMBER, BOUNDARY_NUMBER = 0, -1
"""Type numbers of rows that are no events."""

ROWS_PER_TASK = 200_000
"""About half a second of work for one core. A million events make some tasks for two cores."""


class LogPlace(NamedTuple):
    """A verified place between two batches of a log, with all that a reader needs to begin."""

    next_batch: int
    next_position: int
    chain_hash: bytes
    log_time_ms: int
    """Log time of the event before; 0 at the start."""


NO_PLACE = LogPlace(0, 0, b"", 0)


class LogRange(NamedTuple):
    """A range of batches of one log, from the place `start` to `end_batch` (exclusive)."""

    topic_id_partition: TopicIdPartition
    start: LogPlace
    end_batch: int
    end: LogPlace | None
    """The place before `end_batch`; none if the last batch of the range is damaged."""


class Notice(NamedTuple):
    """A row that is no event: it marks damage, or a boundary in place of forgotten events."""

    topic_id_partition: TopicIdPartition
    number: int
    """The type number: `CORRUPT_NUMBER` or `BOUNDARY_NUMBER`."""

    position: int
    log_time_ms: int
    message: str = ""
    stored: bytes | None = None


class FileRanges(NamedTuple):
    """Ranges of logs whose events are columns in a file already."""

    file: str
    parts: tuple[tuple[int, LogRange], ...]
    """Each range, after the number of its first row in the file. If the file cannot be used,
    they are read from their logs."""


Piece: TypeAlias = "LogRange | Notice | FileRanges"


def corrupt(tip: TopicIdPartition, place: LogPlace, error: Exception) -> Notice:
    """The notice that nothing can be read from `place` on, because of `error`."""
    return Notice(tip, CORRUPT_NUMBER, place.next_position, place.log_time_ms, str(error))


def place_behind(reader: PartitionReader, batch: StoredBatch) -> LogPlace:
    """The place behind a batch, or behind a boundary, of the reader's log.

    Raises:
        CorruptLog: It does not verify.
    """
    try:
        return place_behind_events(reader, batch)
    except CorruptLog:
        boundary = reader.boundary(batch.number, batch.value)
        if boundary is None:
            raise
    end = (boundary.next_position, boundary.chain_hash, boundary.head[0])
    return LogPlace(batch.number + 1, *end)


def place_behind_events(reader: PartitionReader, batch: StoredBatch) -> LogPlace:
    """The place behind a batch of events of the reader's log.

    Raises:
        CorruptLog: It does not verify, or is a boundary.
    """
    first, stored = stored_events(reader.serde, batch)
    end = (first + len(stored), chain(stored[-1]), log_time_of(stored[-1]))
    return LogPlace(batch.number + 1, *end)


class LogPlanner:
    """Finds places in one partition's log."""

    def __init__(self, reader: PartitionReader) -> None:
        self._reader = reader
        self._tip = reader.topic_id_partition

    async def start(self) -> tuple[LogPlace, Notice | None]:
        """The place before the log's first event; a boundary notice if events were forgotten.

        Raises:
            CorruptLog: The log begins neither with its first batch nor with a boundary.
            RemoteResourceNotFound: There is no log.
        """
        loaded = await self._reader.start()
        state = loaded.state
        place = LogPlace(
            loaded.next_batch, state.next_position, state.chain_hash, state.log_time_ms
        )
        if loaded.next_batch == 0:
            return place, None
        (batch,) = await self._reader.log.read(loaded.next_batch - 1, 1)
        last = max(state.next_position - 1, 0)
        return place, Notice(
            self._tip, BOUNDARY_NUMBER, last, state.log_time_ms, stored=batch.value
        )

    async def end(self) -> int:
        """The end of the log: the number of the batch that its next append creates."""
        (end,) = await planned_ends([self._reader])
        return end

    async def place(self, next_batch: int) -> LogPlace:
        """The place before batch `next_batch`, which need not exist yet.

        It is derived from the batch before.

        Raises:
            CorruptLog: The batch before does not verify, or is missing.
        """
        if next_batch == 0:
            return (await self.start())[0]
        found = await self._reader.log.read(next_batch - 1, 1)
        if not found:
            raise CorruptLog(f"batch {next_batch - 1} is missing: the log ends before it")
        return place_behind(self._reader, found[0])

    async def ranges(
        self, start: LogPlace, end_batch: int, rows: int, end: LogPlace | None = None
    ) -> list[Piece]:
        """The batches from `start` to before `end_batch`, in ranges of about `rows` events.

        There is no split at a damaged batch: the reader of the longer range will report it.
        `end` is the place before `end_batch`, if it is known.
        """
        if end_batch <= start.next_batch:
            return []
        end = end or await self._place_if_sound(end_batch)
        pieces: list[Piece] = []
        first, batches = start.next_batch, end_batch - start.next_batch
        count = 1 if end is None else -(-(end.next_position - start.next_position) // rows)
        for part in range(1, count):
            number = first + batches * part // count
            if number <= start.next_batch:
                continue
            place = await self._place_if_sound(number)
            if place is not None:
                pieces.append(LogRange(self._tip, start, number, place))
                start = place
        return [*pieces, LogRange(self._tip, start, end_batch, end)]

    async def _place_if_sound(self, next_batch: int) -> LogPlace | None:
        try:
            return await self.place(next_batch)
        except DataError:
            return None


def packed(pieces: Sequence[Piece], rows: int) -> list[tuple[Piece, ...]]:
    """`pieces` in their order, packed into tasks of about `rows` events."""
    tasks: list[tuple[Piece, ...]] = []
    held: list[Piece] = []
    total = 0
    for piece in pieces:
        size = rows_of(piece)
        if held and total + size > rows:
            tasks.append(tuple(held))
            held, total = [], 0
        held.append(piece)
        total += size
    return [*tasks, tuple(held)] if held else tasks


def rows_of(piece: Piece) -> int:
    """An estimate of the rows of `piece`."""
    if isinstance(piece, FileRanges):
        return sum(rows_of(one) for _, one in piece.parts)
    if isinstance(piece, Notice) or piece.end is None:
        return 1
    return piece.end.next_position - piece.start.next_position


def unbroken(parts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """First row and number of rows of each, with those that follow each other as one."""
    begin = end = 0
    for first, count in parts:
        if first != end:
            if end > begin:
                yield begin, end - begin
            begin = first
        end = first + count
    yield begin, end - begin
