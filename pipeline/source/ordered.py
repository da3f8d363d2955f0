"""Whole ranges of logs as one Arrow table, in an order of choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.column_files.content import ROWS_PER_GROUP, rows_in
from tierledger.pipeline.column_files.index import FilePart
from tierledger.pipeline.column_files.place import Note, warn
from tierledger.pipeline.log_ranges import FileRanges, LogRange, unbroken
from tierledger.pipeline.source.columns import EventColumns
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import in_file_order
from tierledger.pipeline.source.scan import Scanner

SoundPiece: TypeAlias = "FilePart | LogRange"
"""A range whose end is known, in a file or in its log."""


class OrderedRows(NamedTuple):
    """The rows of pieces, without those of logs that turned out damaged."""

    table: Any
    pieces: list[SoundPiece]
    damaged: set[TopicIdPartition]


def range_of(piece: SoundPiece) -> LogRange:
    """The range of a piece."""
    return piece.range if isinstance(piece, FilePart) else piece


def ordered_rows(
    options: SourceOptions,
    cluster: str,
    schema: Any,  # noqa: ANN401 - Arrow has no types.
    pieces: Iterable[SoundPiece],
    note: Note = warn,
) -> OrderedRows:
    """The rows of `pieces`, in their order, with the columns of `schema`.

    Raises:
        StorageUnavailable: The store cannot be reached.
        StoreRefused: The URL does not lead to a store any more.
    """
    damaged = set[TopicIdPartition]()
    wanted = list(pieces)
    while True:
        wanted = [one for one in wanted if range_of(one).topic_id_partition not in damaged]
        in_files = in_file_order([one for one in wanted if isinstance(one, FilePart)])
        ranges = [one for one in wanted if isinstance(one, LogRange)]
        columns = EventColumns(schema, cluster)
        scanner = Scanner(options, cluster, columns, note, ROWS_PER_GROUP)
        rows = pa.Table.from_batches(scanner.batches([*in_files, *ranges]), schema)
        if not scanner.damaged:
            return OrderedRows(_in_order(rows, wanted, in_files, ranges), wanted, damaged)
        damaged |= scanner.damaged


def _in_order(
    rows: Any,  # noqa: ANN401 - As above.
    wanted: Sequence[SoundPiece],
    in_files: Iterable[FileRanges],
    ranges: Iterable[LogRange],
) -> Any:  # noqa: ANN401 - As above.
    places, at = dict[LogRange, int](), 0
    for one in _as_read(in_files, ranges):
        places[one] = at
        at += rows_in(one)
    assert at == rows.num_rows, "a sound range has all its rows"
    slices = list(unbroken((places[one], rows_in(one)) for one in map(range_of, wanted)))
    if len(slices) == 1:
        return rows
    return pa.concat_tables([rows.slice(first, count) for first, count in slices])


def _as_read(in_files: Iterable[FileRanges], ranges: Iterable[LogRange]) -> Iterator[LogRange]:
    for piece in in_files:
        for _, one in piece.parts:
            yield one
    yield from ranges
