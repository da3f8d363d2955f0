"""Reads ranges of logs: stored bytes to Arrow columns, verified, without event objects.

Rule: every event is verified as a leader verifies it, by checksum, position and chain hash. The
fast path checks a batch as a whole. The codec decides on batches that it rejects, and names the
fault. So the fast path may be too strict, but never accepts a damaged event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import msgpack
import numpy as np
import pyarrow as pa

from tierledger.events.errors import CorruptLog, DataError
from tierledger.events.event_codec import TYPES, chained, decode_events, log_time_of
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.column_files.content import OpenFile, rows_in
from tierledger.pipeline.column_files.index import AGAIN
from tierledger.pipeline.column_files.locate import column_place
from tierledger.pipeline.column_files.place import ColumnPlace, Note, UnusableFile, warn
from tierledger.pipeline.log_ranges import (
    CORRUPT_NUMBER,
    NO_PLACE,
    FileRanges,
    LogPlace,
    LogRange,
    Notice,
    Piece,
    corrupt,
    unbroken,
)
from tierledger.pipeline.source.columns import FILE_SCHEMA, EventColumns, Rows, Run
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.packed import UnfitEvents, packed_rows
from tierledger.pipeline.worker import page_loop, without_cycles
from tierledger.storage.catalog import Catalog
from tierledger.storage.connector import load_connector, load_serde
from tierledger.storage.partition.event_log import BATCHES_PER_READ, StoredBatch, stored_events
from tierledger.storage.partition.reader import PartitionReader

ROWS_PER_ARROW_BATCH = 16_384
BYTES_PER_ARROW_BATCH = 16 * 1024 * 1024
"""Stored bytes per Arrow batch: with large events a batch has fewer rows."""

T = TypeVar("T")

_NEWEST = {(number, version) for number, _, version in TYPES}

Columns: TypeAlias = "tuple[Any, ...]"
"""Nine columns of a batch's events: positions, sessions, type numbers, versions, log times,
brokers, requests, predecessors' hashes, and fields."""


def verified(stored: Sequence[bytes], position: int, previous: bytes) -> tuple[Columns, bytes]:
    """The columns of consecutive events, and the hash of the last.

    Raises:
        CorruptLog: A checksum, a position or a chain hash is wrong.
        FormatTooNew: An event has a type or version that this program does not know.
    """
    hashes = chained(stored)
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
    """The columns and the last hash, event by event: as `verified`, slowly.

    Events of old versions are upgraded, and an error names what is wrong and where.
    """
    events, last = decode_events(stored, position, previous)
    rows = []
    for data, event in zip(stored, events, strict=True):
        header = msgpack.unpackb(data[4:], use_list=False)[:8]
        rows.append((*header, tuple(event.body)))
    return tuple(zip(*rows, strict=True)), last


class _Part(NamedTuple):
    """Rows that are collected: a batch of a log whose place is known, or a notice."""

    topic_id_partition: TopicIdPartition
    place: LogPlace
    """The place before the batch."""
    stored: Sequence[bytes]
    hashes: Sequence[bytes]
    """The hash of each event."""
    notice: Notice | None = None

    @property
    def rows(self) -> int:
        return 1 if self.notice is not None else len(self.stored)


class _Collected:
    """What is collected for the next Arrow batch."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.count = self.bytes = 0

    def add(self, part: _Part, size: int = 0) -> None:
        self.parts.append(part)
        self.count += part.rows
        self.bytes += size

    @property
    def is_full(self) -> bool:
        return self.count >= ROWS_PER_ARROW_BATCH or self.bytes >= BYTES_PER_ARROW_BATCH


class _Verified(NamedTuple):
    """A part, read event by event."""

    part: _Part
    columns: Columns
    stored: Sequence[bytes | None]


def _at_once(parts: Sequence[_Part]) -> Rows:
    """The rows of batches, verified and read all at once.

    Raises:
        UnfitEvents: An event is damaged, or is not read at once.
    """
    stored = list(chain.from_iterable(part.stored for part in parts))
    found = packed_rows(stored)
    follows = (
        (part.place.chain_hash, *part.hashes[:-1]) if part.notice is None else ()
        for part in parts
    )
    expected = np.concatenate(
        [np.arange(part.rows) + part.place.next_position for part in parts]
    )
    if (
        any(part.notice is not None for part in parts)
        or found.before != b"".join(chain.from_iterable(follows))
        or not np.array_equal(found.positions, expected)
    ):
        raise UnfitEvents("what does not follow what is before it")
    return Rows(
        _runs(parts),
        found.positions,
        found.sessions,
        found.numbers,
        found.versions,
        found.times,
        found.brokers,
        found.requests,
        found.bodies,
        stored,
    )


def _one_by_one(found: Sequence[_Verified]) -> Rows:
    """The rows of parts that were read event by event."""
    positions, sessions, numbers, versions, times, brokers, requests, _, fields = (
        list(chain.from_iterable(of))
        for of in zip(*(one.columns for one in found), strict=True)
    )
    stored = list(chain.from_iterable(one.stored for one in found))
    runs = _runs([one.part for one in found])
    return Rows(
        runs, positions, sessions, numbers, versions, times, brokers, requests, fields, stored
    )


def _part_of(notice: Notice) -> _Part:
    return _Part(notice.topic_id_partition, NO_PLACE, (), (), notice)


def _noted(notice: Notice) -> _Verified:
    fields = (notice.message,) if notice.number == CORRUPT_NUMBER else ()
    header = (notice.position, None, notice.number, None, notice.log_time_ms, None, None)
    columns = tuple((value,) for value in (*header, None, fields))
    return _Verified(_part_of(notice), columns, [notice.stored])


def _runs(parts: Sequence[_Part]) -> list[Run]:
    return _joined([Run(part.topic_id_partition, part.rows) for part in parts])


def _joined(runs: list[Run]) -> list[Run]:
    """`runs`, with adjacent runs of the same partition merged."""
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].topic_id_partition == run.topic_id_partition:
            joined[-1] = run._replace(rows=joined[-1].rows + run.rows)
        else:
            joined.append(run)
    return joined


def planned_file(
    place: ColumnPlace | None, cluster: str, piece: FileRanges, coded: Sequence[str] = ()
) -> OpenFile:
    """The file of `piece`, which has what it had when the read was planned.

    `coded` are the columns that are wanted so, as of `OpenFile`.

    Raises:
        UnusableFile: It is gone or damaged, or its footer was.
    """
    if place is None:
        raise UnusableFile(piece.file, "is gone")
    opened = OpenFile(place, piece.file, FILE_SCHEMA, coded)
    row, has = 0, set[tuple[int, LogRange]]()
    for one in opened.content.ranges:
        has.add((row, one))
        row += rows_in(one)
    if opened.content.cluster != cluster or not has.issuperset(piece.parts):
        raise UnusableFile(piece.file, "does not have what its footer said")
    return opened


def scanned(
    options: SourceOptions,
    cluster: str,
    schema: Any,  # noqa: ANN401 - Arrow has no types.
    pieces: Sequence[Piece],
    note: Note = warn,
) -> Iterator[pa.RecordBatch]:
    """The rows of `pieces` within the bounds of `options`, with the columns of `schema`.

    `note` takes why a column file is not used. Raises as `Scanner.batches`.
    """
    bounds = options.bounds
    more = [name for name in bounds.columns if name not in schema.names]
    wider = pa.schema([*schema, *(FILE_SCHEMA.field(name) for name in more)])
    scanner = Scanner(options, cluster, EventColumns(wider, cluster), note)
    for batch in scanner.batches(pieces):
        yield bounds.of(batch).select(schema.names)


class _Logs:
    """The logs of a store, which is opened once one is read: files alone do not need it."""

    def __init__(
        self, options: SourceOptions, cluster: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._loop = loop
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            connector = load_connector(self._options.config)
            backend = self.run(connector.backend(read_only=True))
            keys, serde = connector.key_factory(self._cluster), load_serde(self._options.config)
            self._catalog = Catalog(backend, keys, serde, self._cluster)
        return self._catalog

    def reader(self, topic_id_partition: TopicIdPartition) -> PartitionReader:
        return self.catalog.reader(topic_id_partition)

    def run(self, reading: Coroutine[None, None, T]) -> T:
        return self._loop.run_until_complete(reading)

    def close(self) -> None:
        if self._catalog is not None:
            self.run(self._catalog.backend.close())


class Scanner:
    """Reads the pieces of a task; one task at a time."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: str,
        columns: EventColumns,
        note: Note = warn,
        rows_of_file: int = ROWS_PER_ARROW_BATCH,
    ) -> None:
        """Make batches with `columns`.

        `note` takes why a column file is not used, and a batch has at most `rows_of_file` rows
        of one.
        """
        self.damaged: set[TopicIdPartition] = set()
        """Logs of which `batches` has found damage so far."""
        self._note = note
        self._rows_of_file = rows_of_file
        self._options = options
        self._cluster = cluster
        self._columns = columns
        self._collected = _Collected()
        self._failed: set[TopicIdPartition] = set()
        self._ahead: dict[LogRange, list[StoredBatch]] = {}
        """Batches of short ranges that were read together with those of others."""

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """The rows of `pieces`, in order.

        Raises:
            StorageUnavailable: The store cannot be reached. A retried task starts over.
            StoreRefused: The URL does not lead to a store any more.
        """
        with page_loop() as loop, without_cycles():
            logs = _Logs(self._options, self._cluster, loop)
            try:
                for at, piece in enumerate(pieces):
                    if isinstance(piece, FileRanges):
                        yield from self._flushed()
                        yield from self._file_ranges(logs, piece)
                    elif isinstance(piece, Notice):
                        self._add_notice(piece)
                    else:
                        if piece not in self._ahead:
                            self._read_ahead(logs, pieces, at)
                        yield from self._range(logs, piece)
                yield from self._flushed()
            finally:
                logs.close()

    def _read_ahead(self, logs: _Logs, pieces: Sequence[Piece], first: int) -> None:
        """Read `pieces` from `first` on by one request, as long as they are short ranges."""
        some, keys = list[LogRange](), list[str]()
        for piece in (pieces[at] for at in range(first, len(pieces))):
            if not isinstance(piece, LogRange):
                break
            numbers = range(piece.start.next_batch, piece.end_batch)
            if len(keys) + len(numbers) > BATCHES_PER_READ:
                break
            log = logs.reader(piece.topic_id_partition).log
            keys += map(log.key, numbers)
            some.append(piece)
        if len(some) < 2:
            return
        values = logs.run(logs.catalog.backend.get_each(keys))
        at = 0
        for piece in some:
            numbers = range(piece.start.next_batch, piece.end_batch)
            found = values[at : at + len(numbers)]
            at += len(numbers)
            self._ahead[piece] = [
                StoredBatch(number, value)
                for number, value in zip(numbers, found, strict=True)
                if value is not None
            ]

    def _range(self, logs: _Logs, piece: LogRange) -> Iterator[pa.RecordBatch]:
        tip, place = piece.topic_id_partition, piece.start
        reader = logs.reader(tip)
        while place.next_batch < piece.end_batch and tip not in self._failed:
            left = piece.end_batch - place.next_batch
            found = self._ahead.pop(piece, ())
            try:
                # If one of those is missing, the log itself tells what is wrong.
                if len(found) < left:
                    read = reader.log.read(place.next_batch, min(BATCHES_PER_READ, left))
                    found = logs.run(read)
                if not found:
                    raise CorruptLog(f"batch {place.next_batch} is missing: the log ends there")
            except CorruptLog as error:
                self._add_notice(self._corrupt(tip, place, error))
                return
            for batch in found:
                try:
                    part, place = self._part(reader, batch, place)
                except DataError as error:
                    self._add_notice(self._corrupt(tip, place, error))
                    return
                self._collected.add(part, len(batch.value))
                if self._collected.is_full:
                    yield from self._flushed()
                    if tip in self._failed:
                        return

    def _file_ranges(self, logs: _Logs, piece: FileRanges) -> Iterator[pa.RecordBatch]:
        schema = self._columns.schema
        coded = [one.name for one in schema if pa.types.is_dictionary(one.type)]
        try:
            place = column_place(self._options.config)
            opened = planned_file(place, self._cluster, piece, coded)
        except UnusableFile as error:
            self._note(f"a column file is not used: {error}; {AGAIN}")
            for _, one in piece.parts:
                yield from self._range(logs, one)
            return
        parts = list(unbroken((at, rows_in(one)) for at, one in piece.parts))
        for rows in opened.rows(parts, schema.names, self._options.bounds.may_hold_rows):
            yield from rows.cast(schema).to_batches(max_chunksize=self._rows_of_file)

    def _part(
        self, reader: PartitionReader, batch: StoredBatch, place: LogPlace
    ) -> tuple[_Part, LogPlace]:
        """A batch, not verified yet, and the place behind it if it is what it should be."""
        first, stored = stored_events(reader.serde, batch)
        if first != place.next_position:
            raise CorruptLog(
                f"batch {batch.number}: expected events from position {place.next_position}, "
                f"got {first}"
            )
        hashes = chained(stored)
        end = LogPlace(
            batch.number + 1, first + len(stored), hashes[-1], log_time_of(stored[-1])
        )
        return _Part(reader.topic_id_partition, place, stored, hashes), end

    def _corrupt(self, tip: TopicIdPartition, place: LogPlace, error: Exception) -> Notice:
        self.damaged.add(tip)
        return corrupt(tip, place, error)

    def _add_notice(self, notice: Notice) -> None:
        self._collected.add(_part_of(notice))

    def _flushed(self) -> Iterator[pa.RecordBatch]:
        """The collected rows as one Arrow batch; several if a log batch is corrupt."""
        parts = self._collected.parts
        self._collected = _Collected()
        if not parts:
            return
        try:
            yield self._columns.batch(_at_once(parts))
        except (UnfitEvents, CorruptLog):
            yield from self._unfit(parts)

    def _unfit(self, parts: Sequence[_Part]) -> Iterator[pa.RecordBatch]:
        """Batches of parts that are not read at once: of an old version, or corrupt."""
        found = list(self._verified(parts))
        try:
            yield self._columns.batch(_one_by_one(found))
        except CorruptLog:
            yield from self._each(found)

    def _verified(self, parts: Sequence[_Part]) -> Iterator[_Verified]:
        """The parts before what is corrupt in each log, and notices of that."""
        ended = set[TopicIdPartition]()
        for part in parts:
            tip = part.topic_id_partition
            if part.notice is not None:
                yield _noted(part.notice)
            elif tip not in ended:
                position, previous = part.place.next_position, part.place.chain_hash
                try:
                    columns, _ = verified(part.stored, position, previous)
                    yield _Verified(part, columns, part.stored)
                except DataError as error:
                    ended.add(tip)
                    yield _noted(self._corrupt(tip, part.place, error))
        self._failed |= ended

    def _each(self, found: Sequence[_Verified]) -> Iterator[pa.RecordBatch]:
        """One Arrow batch per part.

        A log batch with invalid fields becomes a `corrupt` row, and ends the rows of its log.
        """
        ended = set[TopicIdPartition]()
        for one in found:
            tip, rows = one.part.topic_id_partition, _one_by_one([one])
            if tip in ended:
                continue
            try:
                yield self._columns.batch(rows)
            except CorruptLog as error:
                ended.add(tip)
                self.damaged.add(tip)
                position, time_ms = rows.positions[0], rows.times[0]
                notice = Notice(tip, CORRUPT_NUMBER, position, time_ms, str(error))
                yield self._columns.batch(_one_by_one([_noted(notice)]))
        self._failed |= ended
