"""Plans a read of a store: which logs it covers, and how they are split into tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

from tierledger.events.errors import DataError, InvalidArgument, RemoteResourceNotFound
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.column_files.index import (
    ColumnIndex,
    FilePart,
    FittingRanges,
    WantedLog,
    end_of,
)
from tierledger.pipeline.column_files.locate import column_place
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.log_ranges import (
    NO_PLACE,
    FileRanges,
    LogPlace,
    LogPlanner,
    LogRange,
    Piece,
    corrupt,
    packed,
    place_behind,
)
from tierledger.pipeline.source.columns import FILE_SCHEMA
from tierledger.pipeline.source.options import SourceOptions
from tierledger.storage.catalog import Catalog, Found, chosen_cluster, clusters
from tierledger.storage.connector import load_connector, load_serde
from tierledger.storage.partition.event_log import StoredBatch
from tierledger.storage.partition.reader import PartitionReader, planned_ends

READS_AT_A_TIME = 8
"""Partitions that are planned concurrently."""

LOGS_AT_A_TIME = 200
"""Logs whose ends are read by one request."""

T = TypeVar("T")


class PlannedTask(NamedTuple):
    """The pieces of logs that one task reads."""

    cluster: str
    pieces: tuple[Piece, ...]


@asynccontextmanager
async def opened(options: SourceOptions) -> AsyncIterator[Catalog | None]:
    """The catalog of the chosen cluster, read-only; none if the store is empty.

    Raises:
        InvalidArgument: The store holds several clusters and the options name none.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
        StorageUnavailable: The store cannot be reached.
    """
    connector, serde = load_connector(options.config), load_serde(options.config)
    backend = await connector.backend(read_only=True)
    try:
        known = await clusters(backend)
        if not known:
            yield None
        else:
            cluster = chosen_cluster(known, options.cluster)
            yield Catalog(backend, connector.key_factory(cluster), serde, cluster)
    finally:
        await backend.close()


class PlannedRead(NamedTuple):
    """What a read takes, of column files and of logs."""

    cluster: str
    in_files: list[FileRanges]
    of_logs: list[Piece]
    whole: set[str]
    """Files of which the read takes all rows of the chosen logs that are in its bounds."""
    topic_ids: list[Uuid]
    """Topics of the chosen logs."""


async def plan_batch(options: SourceOptions, note: Note = warn) -> list[PlannedTask]:
    """Tasks that read the events that the store holds now, within the bounds of `options`.

    Raises as `planned_read` does.
    """
    read = await planned_read(options, note)
    if read is None:
        return []
    return packed_tasks(read.cluster, [*read.in_files, *read.of_logs], options)


def packed_tasks(
    cluster: str, pieces: Sequence[Piece], options: SourceOptions
) -> list[PlannedTask]:
    """Tasks that read `pieces`."""
    return [PlannedTask(cluster, one) for one in packed(pieces, options.rows_per_task)]


async def planned_read(options: SourceOptions, note: Note = warn) -> PlannedRead | None:
    """A read of the events that the store holds now, within bounds; None if it is empty.

    What is in column files and fits the logs is read from there; `note` takes what does not.

    Raises as `opened` does, and:
        RemoteResourceNotFound: No partition matches the topic and partition in the options.
    """
    async with opened(options) as catalog:
        if catalog is None:
            return None
        index = column_index(options, catalog)
        logs = await planned_logs(catalog, options, index)
        if not logs and (options.topic is not None or options.partition is not None):
            topic = "any topic" if options.topic is None else f"topic {options.topic!r}"
            number = "any" if options.partition is None else options.partition
            raise RemoteResourceNotFound(
                f"cluster {catalog.cluster_id!r} does not have {topic} with partition {number}"
            )
        index.tell(note)
        wanted = options.bounds.may_hold
        in_files = in_file_order(
            [part for log in logs for part in log.in_files if wanted(part.range)]
        )
        of_logs = [
            piece
            for log in logs
            for piece in log.pieces
            if not isinstance(piece, LogRange) or wanted(piece)
        ]
        topic_ids = sorted({log.topic_id_partition.topic_id for log in logs})
        whole = _whole(index, options, logs)
        return PlannedRead(catalog.cluster_id, in_files, of_logs, whole, topic_ids)


def _whole(index: ColumnIndex, options: SourceOptions, logs: Sequence[LogPieces]) -> set[str]:
    """The files that have nothing of the chosen logs but what these take of them."""
    taken = {part for log in logs for part in log.in_files}
    topic_ids = {log.topic_id_partition.topic_id for log in logs}

    def is_other(tip: TopicIdPartition) -> bool:
        return (options.topic is not None and tip.topic_id not in topic_ids) or (
            options.partition not in {None, tip.partition}
        )

    return {
        name
        for name, parts in index.parts.items()
        if all(part in taken or is_other(part.range.topic_id_partition) for part in parts)
    }


def column_index(options: SourceOptions, catalog: Catalog) -> ColumnIndex:
    """The column files that may be used for a read with these options."""
    has_all = set(options.columns) <= set(FILE_SCHEMA.names)
    place = column_place(options.config) if has_all else None
    return ColumnIndex.if_listed(place, catalog.cluster_id, FILE_SCHEMA)


def in_file_order(parts: Iterable[FilePart]) -> list[FileRanges]:
    """The pieces of files with `parts`: each file is opened once, and logs are in order."""
    files: dict[str, list[tuple[int, LogRange]]] = {}
    for part in parts:
        files.setdefault(part.file, []).append((part.first_row, part.range))
    return [FileRanges(name, tuple(sorted(files[name]))) for name in sorted(files)]


class LogPieces(NamedTuple):
    """What a read takes of one log: ranges in files, and behind them pieces of the log."""

    topic_id_partition: TopicIdPartition
    in_files: list[FilePart]
    pieces: list[Piece]


async def planned_logs(
    catalog: Catalog, options: SourceOptions, index: ColumnIndex
) -> list[LogPieces]:
    """The logs that `options` select, without forgotten ones, up to their present ends."""
    topic_id = None if options.topic is None else _parsed(options.topic)
    found = await _planned_logs(catalog, options, index, topic_id)
    if not found and topic_id is not None:
        # The topic may have a name that looks like an id.
        found = await _planned_logs(catalog, options, index, None)
    return found


async def pieces_until(
    catalog: Catalog, options: SourceOptions, index: ColumnIndex, logs: Sequence[PlannedLog]
) -> list[LogPieces]:
    """The logs of a plan, each up to its planned end."""
    planned: list[LogPieces] = []
    for all_of in few(logs):
        in_files = await _in_files(catalog, index, all_of)
        planned += [
            LogPieces(parts[0].range.topic_id_partition, parts, [])
            for parts in in_files
            if parts
        ]
        some = [one for one, parts in zip(all_of, in_files, strict=True) if not parts]
        if not some:
            continue
        readers = [catalog.reader(_tip_of(one)) for one in some]
        keys = [
            reader.log.key(one.first_batch) for reader, one in zip(readers, some, strict=True)
        ]
        firsts = [
            None if value is None else StoredBatch(one.first_batch, value)
            for one, value in zip(some, await catalog.backend.get_each(keys), strict=True)
        ]
        ends = [one.end_batch for one in some]
        planned += await _pieces_of(catalog, options, index, readers, firsts, ends, None)
    return planned


async def _in_files(
    catalog: Catalog, index: ColumnIndex, logs: Sequence[PlannedLog]
) -> list[list[FilePart]]:
    """For each log its ranges in files if they are all of it; else none.

    Of such a log only the last batch is read. It has the hash of all events before it, so
    nothing else can speak against the files.
    """
    wanted = [
        WantedLog(
            catalog.reader(_tip_of(one)),
            None if one.first_batch else _origin(catalog, _tip_of(one)),
            one.end_batch,
        )
        for one in logs
    ]
    return [
        found.parts
        if found.fits and found.parts and end_of(found.parts[-1]).next_batch == one.end_batch
        else []
        for one, found in zip(logs, await index.fitting(wanted), strict=True)
    ]


def _tip_of(log: PlannedLog) -> TopicIdPartition:
    return TopicIdPartition(log.topic_id, log.partition, "")


def _origin(catalog: Catalog, tip: TopicIdPartition) -> LogPlace:
    return LogPlace(0, 0, genesis(catalog.cluster_id, tip.topic_id, tip.partition), 0)


async def _planned_logs(
    catalog: Catalog, options: SourceOptions, index: ColumnIndex, topic_id: Uuid | None
) -> list[LogPieces]:
    name = None if topic_id is not None else options.topic
    found = [
        one
        async for one in catalog.first_batches(topic_id)
        if options.partition in {None, one[0].partition}
    ]
    planned: list[LogPieces] = []
    for some in few(found):
        readers = [catalog.reader(tip) for tip, _ in some]
        firsts = [first for _, first in some]
        ends = await planned_ends(readers)
        planned += await _pieces_of(catalog, options, index, readers, firsts, ends, name)
    return planned


def few(logs: Sequence[T]) -> Iterator[Sequence[T]]:
    """`logs` in pieces of at most `LOGS_AT_A_TIME`."""
    for at in range(0, len(logs), LOGS_AT_A_TIME):
        yield logs[at : at + LOGS_AT_A_TIME]


async def _pieces_of(
    catalog: Catalog,
    options: SourceOptions,
    index: ColumnIndex,
    readers: Sequence[PartitionReader],
    firsts: Sequence[StoredBatch | None],
    ends: Sequence[int],
    name: str | None,
) -> list[LogPieces]:
    """The pieces of some logs, of each from its first batch to its end."""
    free = asyncio.Semaphore(READS_AT_A_TIME)
    starts = list(map(partial(_start, catalog), readers, firsts))
    each = await index.fitting(list(map(WantedLog, readers, starts, ends)))
    borders = await _borders(readers, starts, ends, each)

    async def one(
        reader: PartitionReader,
        first: StoredBatch | None,
        end: int,
        fitting: FittingRanges,
        border: _Border | None,
    ) -> LogPieces | None:
        found = (reader.topic_id_partition, first)
        async with free:
            return await _planned_log(catalog, options, found, end, fitting.parts, border, name)

    logs = await asyncio.gather(*map(one, readers, firsts, ends, each, borders))
    planned: list[LogPieces] = []
    for log, fitting in zip(logs, each, strict=True):
        if log is not None:
            planned.append(log)
            index.unfit += [] if fitting.fits else [log.topic_id_partition]
    return planned


class _Border(NamedTuple):
    """The places at both ends of a log."""

    start: LogPlace
    end: LogPlace


async def _borders(
    readers: Sequence[PartitionReader],
    starts: Sequence[LogPlace | None],
    ends: Sequence[int],
    fitting: Sequence[FittingRanges],
) -> list[_Border | None]:
    """The ends of the logs that no file has, read at once; None where one is not sound."""
    of_all: list[_Border | None] = [None] * len(readers)
    wanted = [
        (at, start)
        for at, start in enumerate(starts)
        # A log that goes on behind a boundary has a notice of it, too.
        if start is not None and start.next_batch == 0 and ends[at] and not fitting[at].parts
    ]
    keys = [readers[at].log.key(ends[at] - 1) for at, _ in wanted]
    values = await readers[0].backend.get_each(keys) if keys else []
    for (at, start), value in zip(wanted, values, strict=True):
        with suppress(DataError):
            if value is not None:
                end = place_behind(readers[at], StoredBatch(ends[at] - 1, value))
                of_all[at] = _Border(start, end)
    return of_all


def _start(
    catalog: Catalog, reader: PartitionReader, first: StoredBatch | None
) -> LogPlace | None:
    """The place before a log's first event; None if the first batch does not tell."""
    try:
        if first is None:
            return None
        if reader.boundary(first.number, first.value) is not None:
            return place_behind(reader, first)
    except DataError:
        return None
    return _origin(catalog, reader.topic_id_partition) if first.number == 0 else None


async def _planned_log(
    catalog: Catalog,
    options: SourceOptions,
    found: Found,
    end: int,
    in_files: list[FilePart],
    border: _Border | None,
    name: str | None,
) -> LogPieces | None:
    """The pieces of a log; None if it is forgotten, or `name` is another topic's."""
    tip, first = found
    if in_files:
        tip = in_files[0].range.topic_id_partition
    else:
        entry = await catalog.entry(tip, first)
        if entry.is_forgotten:
            return None
        tip = entry.topic_id_partition
    if name not in {None, tip.topic}:
        return None
    planner = LogPlanner(catalog.reader(tip))
    if border is not None:
        ranges = await planner.ranges(border.start, end, options.rows_per_range, border.end)
        return LogPieces(tip, [], ranges)
    if not in_files:
        return LogPieces(tip, [], await whole_log(planner, tip, options, end))
    pieces = await planner.ranges(end_of(in_files[-1]), end, options.rows_per_range)
    if in_files[0].range.start.next_batch:
        _, notice = await planner.start()
        pieces = [*([] if notice is None else [notice]), *pieces]
    return LogPieces(tip, in_files, pieces)


async def whole_log(
    planner: LogPlanner, tip: TopicIdPartition, options: SourceOptions, end: int
) -> list[Piece]:
    """Pieces of a log from its start to batch `end` (exclusive).

    If the start is damaged, the only piece is a `corrupt` notice.
    """
    try:
        start, notice = await planner.start()
    except DataError as error:
        return [corrupt(tip, NO_PLACE, error)]
    ranges = await planner.ranges(start, end, options.rows_per_range)
    return ranges if notice is None else [notice, *ranges]


async def partitions(catalog: Catalog, options: SourceOptions) -> list[TopicIdPartition]:
    """The partitions that `options` select, without forgotten ones."""
    topic_id = None if options.topic is None else _parsed(options.topic)
    found = await _partitions(catalog, options, topic_id)
    if not found and topic_id is not None:
        # The topic may have a name that looks like an id.
        found = await _partitions(catalog, options, None)
    return found


async def _partitions(
    catalog: Catalog, options: SourceOptions, topic_id: Uuid | None
) -> list[TopicIdPartition]:
    return [
        entry.topic_id_partition
        async for entry in catalog.partitions(topic_id)
        if not entry.is_forgotten
        and (topic_id or options.topic in {None, entry.topic_id_partition.topic})
        and options.partition in {None, entry.topic_id_partition.partition}
    ]


def _parsed(text: str) -> Uuid | None:
    try:
        return Uuid.parse(text)
    except InvalidArgument:
        return None
