"""Reads ranges of logs: stored bytes to Arrow columns, verified, without event objects.

Rule: every event is verified as a leader verifies it, by checksum, position and chain hash. The
fast path checks a batch as a whole. The codec decides on batches that it rejects, and names the
fault. So the fast path may be too strict, but never accepts a damaged event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import msgpack
import pyarrow as pa

from tierledger.events.errors import CorruptLog, DataError
from tierledger.events.event_codec import HASH_BYTES, TYPES, decode_events
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.column_files.content import OpenFile, rows_in
from tierledger.pipeline.column_files.index import AGAIN, Note, warn
from tierledger.pipeline.column_files.place import UnusableFile, column_place
from tierledger.pipeline.log_ranges import (
    CORRUPT_NUMBER,
    FileRanges,
    LogPlace,
    LogRange,
    Notice,
    Piece,
    corrupt,
)
from tierledger.pipeline.source.columns import FILE_SCHEMA, EventColumns, Rows, Run
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.worker import page_loop, without_cycles
from tierledger.storage.catalog import Catalog
from tierledger.storage.connector import load_connector, load_serde
from tierledger.storage.partition.event_log import BATCHES_PER_READ, StoredBatch, stored_events
from tierledger.storage.partition.reader import PartitionReader

ROWS_PER_ARROW_BATCH = 16_384
BYTES_PER_ARROW_BATCH = 16 * 1024 * 1024
"""Stored bytes of events per Arrow batch: with large events a batch has fewer rows."""

_NEWEST = {(number, version) for number, _, version in TYPES}
_unhashed = blake2b(digest_size=HASH_BYTES)

Columns: TypeAlias = "tuple[Any, ...]"
"""Nine columns of a batch's events: positions, sessions, type numbers, versions, log times,
brokers, requests, predecessors' hashes, and fields."""


def verified(stored: Sequence[bytes], position: int, previous: bytes) -> tuple[Columns, bytes]:
    """The columns of consecutive events, and the hash of the last.

    Raises:
        CorruptLog: A checksum, a position or a chain hash is wrong.
        FormatTooNew: An event has a type or version that this program does not know.
    """
    hashes: list[bytes] = []
    note, fresh = hashes.append, _unhashed.copy
    for data in stored:
        hashed = fresh()
        hashed.update(data)
        note(hashed.digest())
    columns = _unpacked(stored)
    if (
        columns is not None
        and columns[0] == tuple(range(position, position + len(stored)))
        and columns[7][0] == previous
        and list(columns[7][1:]) == hashes[:-1]
        and _are_newest(columns)
    ):
        return columns, hashes[-1]
    return _by_the_codec(stored, position, previous)


def _unpacked(stored: Sequence[bytes]) -> Columns | None:
    """The events' columns, unpacked by one call; none if a checksum or the form is wrong."""
    bodies = [data[4:] for data in stored]
    count = len(stored)
    sums = Struct(f">{count}I").pack(*map(crc32, bodies))
    if sums != b"".join([data[:4] for data in stored]):
        return None
    whole = b"\xdd" + count.to_bytes(4, "big") + b"".join(bodies)
    try:
        columns = tuple(zip(*msgpack.unpackb(whole, use_list=False), strict=True))
    except (ValueError, TypeError):
        return None
    return columns if len(columns) == 9 and len(columns[0]) == count else None


def _are_newest(columns: Columns) -> bool:
    try:
        return _NEWEST.issuperset(zip(columns[2], columns[3], strict=True))
    except TypeError:  # A type or version is unhashable, so it is no number.
        return False


def _by_the_codec(
    stored: Sequence[bytes], position: int, previous: bytes
) -> tuple[Columns, bytes]:
    """The same event by event: old versions are upgraded, and errors name the fault."""
    events, last = decode_events(stored, position, previous)
    rows = []
    for data, event in zip(stored, events, strict=True):
        header = msgpack.unpackb(data[4:], use_list=False)[:8]
        rows.append((*header, tuple(event.body)))
    return tuple(zip(*rows, strict=True)), last


class _Content(NamedTuple):
    """One batch of a log, verified."""

    columns: Columns
    stored: Sequence[bytes]
    end: LogPlace


class _Collected:
    """Rows collected for the next Arrow batch, in one list per column."""

    def __init__(self, *, keeps_stored: bool) -> None:
        self._keeps_stored = keeps_stored
        self.runs: list[Run] = []
        self._columns: tuple[list[Any], ...] = tuple([] for _ in range(9))
        self._stored: list[bytes | None] = []
        self.bytes = 0

    @property
    def count(self) -> int:
        return len(self._columns[0])

    def add(self, run: Run, columns: Columns, stored: Sequence[bytes | None]) -> None:
        """Add the events of one log batch."""
        self.runs.append(run)
        self.bytes += sum(map(len, filter(None, stored)))
        for held, more in zip(self._columns, columns, strict=True):
            held.extend(more)
        if self._keeps_stored:
            self._stored.extend(stored)

    def rows(self) -> Rows:
        positions, sessions, numbers, versions, times, brokers, requests, _, fields = (
            self._columns
        )
        return Rows(
            _joined(self.runs),
            positions,
            sessions,
            numbers,
            versions,
            times,
            brokers,
            requests,
            fields,
            self._stored,
        )

    def each_batch(self) -> Iterator[_Collected]:
        """The same rows, split by log batch."""
        at = 0
        for run in self.runs:
            part = slice(at, at + run.rows)
            one = _Collected(keeps_stored=self._keeps_stored)
            one.add(run, tuple(held[part] for held in self._columns), self._stored[part])
            yield one
            at += run.rows


def _joined(runs: list[Run]) -> list[Run]:
    """`runs`, with adjacent runs of the same partition merged."""
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].topic_id_partition == run.topic_id_partition:
            joined[-1] = run._replace(rows=joined[-1].rows + run.rows)
        else:
            joined.append(run)
    return joined


def _slices(piece: FileRanges) -> Iterator[tuple[int, int]]:
    """First row and number of rows of each unbroken part of what is wanted from a file."""
    begin = end = 0
    for first, one in piece.parts:
        if first != end:
            if end > begin:
                yield begin, end - begin
            begin = first
        end = first + rows_in(one)
    yield begin, end - begin


class Scanner:
    """Reads the pieces of a task; one task at a time."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: str,
        columns: EventColumns,
        note: Note = warn,
    ) -> None:
        """`note` takes why a column file is not used."""
        self._note = note
        self._options = options
        self._cluster = cluster
        self._columns = columns
        self._collected = _Collected(keeps_stored=columns.needs_stored)
        self._failed: set[TopicIdPartition] = set()

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """The rows of `pieces`, in order.

        Raises:
            StorageUnavailable: The store cannot be reached. A retried task starts over.
            StoreRefused: The URL does not lead to a store any more.
        """
        with page_loop() as loop, without_cycles():
            connector = load_connector(self._options.config)
            backend = loop.run_until_complete(connector.backend(read_only=True))
            try:
                catalog = Catalog(
                    backend,
                    connector.key_factory(self._cluster),
                    load_serde(self._options.config),
                    self._cluster,
                )
                for piece in pieces:
                    if isinstance(piece, FileRanges):
                        while self._collected.count:
                            yield from self._flushed()
                        yield from self._file_ranges(loop, catalog, piece)
                    elif isinstance(piece, Notice):
                        self._add_notice(piece)
                    else:
                        reader = catalog.reader(piece.topic_id_partition)
                        yield from self._range(loop, reader, piece)
                while self._collected.count:  # A flush may add a `corrupt` notice.
                    yield from self._flushed()
            finally:
                loop.run_until_complete(backend.close())

    def _range(
        self, loop: asyncio.AbstractEventLoop, reader: PartitionReader, piece: LogRange
    ) -> Iterator[pa.RecordBatch]:
        tip, place = piece.topic_id_partition, piece.start
        while place.next_batch < piece.end_batch and tip not in self._failed:
            left = piece.end_batch - place.next_batch
            try:
                read = reader.log.read(place.next_batch, min(BATCHES_PER_READ, left))
                found = loop.run_until_complete(read)
                if not found:
                    raise CorruptLog(f"batch {place.next_batch} is missing: the log ends there")
            except CorruptLog as error:
                self._add_notice(corrupt(tip, place, error))
                return
            for batch in found:
                try:
                    content = self._content(reader, batch, place)
                except DataError as error:
                    self._add_notice(corrupt(tip, place, error))
                    return
                run = Run(tip, len(content.stored))
                self._collected.add(run, content.columns, content.stored)
                place = content.end
                if self._is_full():
                    yield from self._flushed()
                    if tip in self._failed:
                        return

    def _file_ranges(
        self, loop: asyncio.AbstractEventLoop, catalog: Catalog, piece: FileRanges
    ) -> Iterator[pa.RecordBatch]:
        try:
            opened = self._opened(piece)
        except UnusableFile as error:
            self._note(f"a column file is not used: {error}; {AGAIN}")
            for _, one in piece.parts:
                reader = catalog.reader(one.topic_id_partition)
                yield from self._range(loop, reader, one)
            return
        schema = self._columns.schema
        for first, count in _slices(piece):
            rows = opened.rows(first, count, schema.names).cast(schema)
            yield from rows.to_batches(max_chunksize=ROWS_PER_ARROW_BATCH)

    def _opened(self, piece: FileRanges) -> OpenFile:
        """The file of `piece`, which has what it had when the read was planned.

        Raises:
            UnusableFile: It is gone or damaged, or its footer was.
        """
        place = column_place(self._options.config)
        if place is None:
            raise UnusableFile(piece.file, "is gone")
        opened = OpenFile(place, piece.file, FILE_SCHEMA)
        row, has = 0, set[tuple[int, LogRange]]()
        for one in opened.content.ranges:
            has.add((row, one))
            row += rows_in(one)
        if opened.content.cluster != self._cluster or not has.issuperset(piece.parts):
            raise UnusableFile(piece.file, "does not have what its footer said")
        return opened

    def _content(
        self, reader: PartitionReader, batch: StoredBatch, place: LogPlace
    ) -> _Content:
        first, stored = stored_events(reader.serde, batch)
        if first != place.next_position:
            raise CorruptLog(
                f"batch {batch.number}: expected events from position {place.next_position}, "
                f"got {first}"
            )
        columns, chain_hash = verified(stored, first, place.chain_hash)
        end = LogPlace(batch.number + 1, first + len(stored), chain_hash, columns[4][-1])
        return _Content(columns, stored, end)

    def _add_notice(self, notice: Notice) -> None:
        fields = (notice.message,) if notice.number == CORRUPT_NUMBER else ()
        header = (notice.position, None, notice.number, None, notice.log_time_ms, None, None)
        columns = tuple((value,) for value in (*header, None, fields))
        self._collected.add(Run(notice.topic_id_partition, 1), columns, [notice.stored])

    def _is_full(self) -> bool:
        collected = self._collected
        return (
            collected.count >= ROWS_PER_ARROW_BATCH or collected.bytes >= BYTES_PER_ARROW_BATCH
        )

    def _flushed(self) -> Iterator[pa.RecordBatch]:
        """The collected rows as one Arrow batch; several if a log batch is corrupt."""
        collected = self._collected
        self._collected = _Collected(keeps_stored=self._columns.needs_stored)
        if not collected.count:
            return
        try:
            yield self._columns.batch(collected.rows())
        except CorruptLog:
            yield from self._one_by_one(collected)

    def _one_by_one(self, collected: _Collected) -> Iterator[pa.RecordBatch]:
        """One Arrow batch per log batch.

        A log batch with invalid fields becomes a `corrupt` row, and ends the rows of its log.
        """
        for one in collected.each_batch():
            rows = one.rows()
            tip = rows.runs[0].topic_id_partition
            if tip in self._failed:
                continue
            try:
                yield self._columns.batch(rows)
            except CorruptLog as error:
                self._failed.add(tip)
                notice = Notice(
                    tip, CORRUPT_NUMBER, rows.positions[0], rows.times[0], str(error)
                )
                self._add_notice(notice)
