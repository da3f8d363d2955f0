"""Writes a store's column files: what no file has yet, and what small files have, anew.

Rule 1: a file is written with a new name, and files that it replaces are removed afterwards. So
readers, and other writers, find a whole set at any time.
Rule 2: files that have less than what comes behind them are written again together with it. So
there are few, and an event is written again only a few times however often it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tierledger.events.errors import DataError
from tierledger.events.event_codec import log_time_of
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.column_files.content import encoded, rows_in
from tierledger.pipeline.column_files.index import ColumnIndex, FilePart
from tierledger.pipeline.column_files.place import ColumnPlace, number_of
from tierledger.pipeline.log_ranges import CORRUPT_NUMBER, FileRanges, LogRange, Notice
from tierledger.pipeline.source.columns import FILE_SCHEMA, coded_schema
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.ordered import SoundPiece, ordered_rows, range_of
from tierledger.pipeline.source.plan import LogPieces, few, opened, planned_logs
from tierledger.pipeline.worker import without_cycles
from tierledger.storage.partition.event_log import StoredBatch, stored_events

ROWS_PER_FILE = 200_000
"""About how many rows a file has, as one task of Spark reads one file."""


_HELD = coded_schema(FILE_SCHEMA.names, ("cluster", "topic", "topic_id", "type", "state"))
"""Rows in memory: texts of which there are few are numbers of values, as they are in files."""


class WrittenColumns(NamedTuple):
    """What a run has done."""

    rows: int
    """Rows that no file had before."""
    files: int
    """Files that were written."""
    bytes: int
    removed: int
    """Files that were removed, as others have their rows or no log has them."""
    damaged: tuple[TopicIdPartition, ...]
    """Logs that do not verify to their end; no file has rows of the damaged part."""


class _FoundColumns(NamedTuple):
    cluster: str
    held: ColumnIndex
    logs: list[tuple[list[FilePart], list[LogRange]]]
    """Of each log: what files have, and what only the log has."""
    damaged: set[TopicIdPartition]
    """Logs whose end is damaged, or all of them."""


def write_columns(
    options: SourceOptions, place: ColumnPlace, *, whole: bool = True
) -> WrittenColumns:
    """Write what the store's logs have now into column files at `place`.

    `whole`: look at all bytes of the files that are there, and make anew what is damaged.

    Raises:
        InvalidArgument: The store holds several clusters and the options name none.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
        StorageUnavailable: The store cannot be reached.
        OSError: A file in a folder cannot be written. The files before it are whole, and of
            use; so they are if a bucket fails, which is `StorageUnavailable`.
    """
    with without_cycles():
        plan = asyncio.run(_planned(options, place, whole=whole))
    return (
        WrittenColumns(0, 0, 0, 0, ())
        if plan is None
        else _FilesWriter(options, place, plan).run()
    )


async def _planned(
    options: SourceOptions, place: ColumnPlace, *, whole: bool = True
) -> _FoundColumns | None:
    async with opened(options) as catalog:
        if catalog is None:
            return None
        index = ColumnIndex.of(place, catalog.cluster_id, FILE_SCHEMA, whole=whole)
        by_file = replace(options, rows_per_task=ROWS_PER_FILE)
        logs = await planned_logs(catalog, by_file, index)
        sound = [(log.in_files, _sound(log)) for log in logs]
        damaged = {
            log.topic_id_partition
            for log in logs
            if any(
                one.number == CORRUPT_NUMBER if isinstance(one, Notice) else one.end is None
                for one in log.pieces
                if not isinstance(one, FileRanges)
            )
        }
        return _FoundColumns(catalog.cluster_id, index, sound, damaged)


def _sound(log: LogPieces) -> list[LogRange]:
    """The ranges of a log whose end can be read."""
    return [one for one in log.pieces if isinstance(one, LogRange) and one.end is not None]


class _FilesWriter:
    def __init__(self, options: SourceOptions, place: ColumnPlace, plan: _FoundColumns) -> None:
        self._options = options
        self._place = place
        self._plan = plan
        self._used = {part for parts, _ in plan.logs for part in parts}
        self._damaged = set(plan.damaged)
        self._files = self._bytes = 0

    def run(self) -> WrittenColumns:
        plan, parts = self._plan, self._plan.held.parts
        new = sum(rows_in(one) for _, ranges in plan.logs for one in ranges)
        again = self._small(new)
        number = max((number_of(one) for one in self._place.names()), default=0)
        pieces = list[SoundPiece]()
        for held, ranges in plan.logs:
            pieces += [part for part in held if part.file in again]
            pieces += ranges
        for some in _packed(pieces):
            number += 1
            self._write(number, some)
        # What is used of other files keeps its place in the order of files.
        for name in sorted(parts.keys() - again):
            kept = [part for part in parts[name] if part in self._used]
            if kept and len(kept) < len(parts[name]):
                self._write(number_of(name), kept)
                again.add(name)
            elif not kept:
                again.add(name)
        return self._done(again)

    def _small(self, rows: int) -> set[str]:
        """The newest files, as long as one has no more rows than come behind it."""
        found = set[str]()
        for name in sorted(self._plan.held.parts, reverse=True):
            size = sum(rows_in(one.range) for one in self._plan.held.parts[name])
            if not rows or size > min(rows, ROWS_PER_FILE // 2):
                break
            found.add(name)
            rows += size
        return found

    def _write(self, number: int, pieces: Sequence[SoundPiece]) -> None:
        """Write the rows of `pieces` into one file, without logs that turn out damaged."""
        cluster = self._plan.cluster
        sound = [one for one in pieces if range_of(one).topic_id_partition not in self._damaged]
        rows = ordered_rows(self._options, cluster, _HELD, sound)
        self._damaged |= rows.damaged
        if not rows.pieces:
            return
        data = encoded(rows.table, cluster, [range_of(one) for one in rows.pieces])
        self._place.write(number, data)
        self._files += 1
        self._bytes += len(data)

    def _done(self, again: set[str]) -> WrittenColumns:
        unusable = {one.name for one in self._plan.held.unusable}
        for name in again | unusable:
            self._place.remove(name)
        new = sum(
            rows_in(one)
            for _, ranges in self._plan.logs
            for one in ranges
            if one.topic_id_partition not in self._damaged
        )
        damaged = sorted(self._damaged, key=lambda tip: (str(tip.topic_id), tip.partition))
        return WrittenColumns(
            new, self._files, self._bytes, len(again | unusable), tuple(damaged)
        )


def _packed(
    pieces: Iterable[SoundPiece],
) -> Iterator[list[SoundPiece]]:
    some, rows = list[SoundPiece](), 0
    for one in pieces:
        size = rows_in(range_of(one))
        if some and rows + size > ROWS_PER_FILE:
            yield some
            some, rows = [], 0
        some.append(one)
        rows += size
    if some:
        yield some


class ListedFile(NamedTuple):
    """A column file of the cluster."""

    file: str
    rows: int
    used: int
    """Rows that a read takes from it."""
    logs: int
    bytes: int


class ListedColumns(NamedTuple):
    """All column files, and what they lack."""

    files: list[ListedFile]
    behind: int
    """Events that only the logs have."""
    behind_since_ms: int | None
    """The log time of the first of them; None if there are none."""
    held: ColumnIndex


async def listed(
    options: SourceOptions, place: ColumnPlace, *, whole: bool = True
) -> ListedColumns:
    """The files at `place`; `whole` and errors are those of `write_columns`."""
    plan = await _planned(options, place, whole=whole)
    if plan is None:
        return ListedColumns([], 0, None, ColumnIndex())
    used: dict[str, int] = {}
    for parts, _ in plan.logs:
        for part in parts:
            used[part.file] = used.get(part.file, 0) + rows_in(part.range)
    sizes = plan.held.bytes
    files = [
        ListedFile(
            name,
            sum(rows_in(part.range) for part in parts),
            used.get(name, 0),
            len({part.range.topic_id_partition for part in parts}),
            sizes[name],
        )
        for name, parts in sorted(plan.held.parts.items())
    ]
    behind = sum(rows_in(one) for _, ranges in plan.logs for one in ranges)
    since = await _first_time(options, [ranges[0] for _, ranges in plan.logs if ranges])
    return ListedColumns(files, behind, since, plan.held)


async def _first_time(options: SourceOptions, begins: Sequence[LogRange]) -> int | None:
    """The oldest log time of the events with which these ranges begin."""
    times = list[int]()
    async with opened(options) as catalog:
        if catalog is None:
            return None
        for some in few(begins):
            readers = [catalog.reader(one.topic_id_partition) for one in some]
            numbers = [one.start.next_batch for one in some]
            keys = [one.log.key(at) for one, at in zip(readers, numbers, strict=True)]
            for at, value in zip(numbers, await catalog.backend.get_each(keys), strict=True):
                # What is not there, or is no batch, is told by the others who read it.
                with suppress(DataError):
                    if value is not None:
                        _, stored = stored_events(catalog.serde, StoredBatch(at, value))
                        times.append(log_time_of(stored[0]))
    return min(times, default=None)


async def dropped(options: SourceOptions, place: ColumnPlace) -> int:
    """Remove the files of the cluster, and those that are of no use; how many there were.

    Raises as `write_columns`.
    """
    async with opened(options) as catalog:
        cluster = "" if catalog is None else catalog.cluster_id
    index = ColumnIndex.of(place, cluster, FILE_SCHEMA)
    gone = [*index.parts, *(one.name for one in index.unusable)]
    for name in gone:
        place.remove(name)
    place.remove_unfinished()
    return len(gone)
