"""What a column file holds: the rows of the table `events`, and of which ranges they are.

A file is Parquet, with rows by topic, partition and position. Its footer has each range: the
places in the log before its first event and behind its last, with the chain's hash at both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.column_files.place import ColumnPlace, UnusableFile
from tierledger.pipeline.log_ranges import LogPlace, LogRange

FORMAT = 1
"""Changes whenever the same events would give other rows in columns of the same types."""

_KEY = b"tierledger.columns"

ROWS_PER_GROUP = 65_536
"""Rows of a file that are read together."""

GROWING = (
    *("position", "log_time_ms", "start_offset", "end_offset"),
    *("max_timestamp_ms", "event_timestamp_ms", "source_offset"),
)
"""Numbers that mostly grow within a log. Files have their differences, which are small."""

_EPOCH, _OFFSET = (f"leader_epochs.key_value.{name}" for name in ("key", "value"))

ORDERED = ("topic", "topic_id", "partition", "session", *GROWING)
"""Columns in which groups of rows differ. Files have the least and greatest values of these."""

FOOTER_GUESS = 64 * 1024
_MAGIC = 8
"""Bytes at the end of a Parquet file: the footer's length, and `PAR1`."""


class FileContent(NamedTuple):
    """What a file has of one cluster's logs."""

    cluster: str
    ranges: tuple[LogRange, ...]
    """In the order of their rows; each has its end."""
    bytes: int
    """The size of the file."""


def rows_in(one: LogRange) -> int:
    """How many events a range has whose end is known."""
    assert one.end is not None, "only such ranges are in files"
    return one.end.next_position - one.start.next_position


def encoded(table: Any, cluster: str, ranges: Sequence[LogRange]) -> bytes:  # noqa: ANN401 - Arrow has no types.
    """A file with the rows of `table`, which are those of `ranges`, in their order."""
    described = {
        "format": FORMAT,
        "cluster": cluster,
        "ranges": [_plain(one) for one in joined(ranges)],
    }
    metadata = {_KEY: json.dumps(described, separators=(",", ":")).encode()}
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - Slow, and many have no files.

    sink = pa.BufferOutputStream()
    others = [name for name in table.schema.names if name not in GROWING]
    writer = ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        use_dictionary=[*others, _EPOCH],
        column_encoding=dict.fromkeys([*GROWING, _OFFSET], "DELTA_BINARY_PACKED"),
        write_statistics=list(ORDERED),
        # Without Arrow's a file has the same types however its texts were held here.
        store_schema=False,
    )
    with writer:
        writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        writer.add_key_value_metadata(metadata)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def joined(ranges: Sequence[LogRange]) -> list[LogRange]:
    """`ranges`, with those that follow each other as one."""
    found: list[LogRange] = []
    for one in ranges:
        last = found[-1] if found else None
        if (
            last is not None
            and last.topic_id_partition == one.topic_id_partition
            and last.end == one.start
        ):
            found[-1] = last._replace(end_batch=one.end_batch, end=one.end)
        else:
            found.append(one)
    return found


def content_of(place: ColumnPlace, name: str, schema: Any) -> FileContent:  # noqa: ANN401 - As above.
    """What the footer of a file says, whose digest is not checked here.

    Raises:
        UnusableFile: It cannot be read, is cut or foreign, or has another form than ours.
    """
    from pyarrow.parquet import read_metadata  # noqa: PLC0415 - As above.

    end, size = place.end_of(name, FOOTER_GUESS)
    needed = int.from_bytes(end[-_MAGIC:-4], "little") + _MAGIC if len(end) >= _MAGIC else 0
    if len(end) < needed <= size:
        end, _ = place.end_of(name, needed)
    try:
        footer = read_metadata(pa.BufferReader(end))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnusableFile(name, f"is no column file: {error}") from error
    return _content(footer, name, schema, size)


def _content(footer: Any, name: str, schema: Any, size: int) -> FileContent:  # noqa: ANN401 - As above.
    found = footer.schema.to_arrow_schema()
    described = (found.metadata or {}).get(_KEY)
    if described is None:
        raise UnusableFile(name, "is no column file of tierledger")
    try:
        read = json.loads(described)
        if read["format"] != FORMAT or not found.equals(schema):
            raise UnusableFile(name, "has the columns of another version of tierledger")
        content = FileContent(read["cluster"], tuple(map(_parsed, read["ranges"])), size)
    except (ValueError, TypeError, LookupError, InvalidArgument) as error:
        raise UnusableFile(name, f"does not say what it has: {error!r}") from error
    if sum(map(rows_in, content.ranges)) != footer.num_rows:
        raise UnusableFile(name, "does not have the rows that it says it has")
    return content


class OpenFile:
    """A file whose bytes are verified, and in memory: nothing that happens to it matters."""

    def __init__(
        self,
        place: ColumnPlace,
        name: str,
        schema: Any,  # noqa: ANN401 - As above.
        coded: Sequence[str] = (),
    ) -> None:
        """Read it.

        Args:
            place: Where it is.
            name: Its name.
            schema: What it should have.
            coded: Columns that are wanted as the file has them: as numbers of values. Others
                are made of whole values, which takes several times as long.

        Raises:
            UnusableFile: As `ColumnPlace.read` and `content_of`.
        """
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - As above.

        self.data = data = place.read(name)
        try:
            self._file = ParquetFile(pa.BufferReader(data), read_dictionary=list(coded))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnusableFile(name, f"is no column file: {error}") from error
        self.content = _content(self._file.metadata, name, schema, len(data))

    def rows(
        self,
        parts: Sequence[tuple[int, int]],
        columns: Sequence[str],
        may_hold: Callable[[Mapping[str, tuple[int, int]]], bool],
    ) -> Iterator[Any]:
        """Some of its rows, with those columns, as Arrow tables.

        Args:
            parts: First row and number of rows of each part, in order. What is read together
                is read once, however many parts are in it.
            columns: Names of columns.
            may_hold: Whether there is anything wanted in rows of whose columns of integers the
                lowest and highest are these.
        """
        metadata, at = self._file.metadata, 0
        for group in range(metadata.num_row_groups):
            size = metadata.row_group(group).num_rows
            inside = [
                (max(first - at, 0), min(first + count - at, size))
                for first, count in parts
                if first < at + size and first + count > at
            ]
            if inside and may_hold(_ends_of(metadata.row_group(group))):
                table = self._file.read_row_group(
                    group, columns=list(columns), use_threads=False
                ).select(list(columns))
                slices = [table.slice(begin, end - begin) for begin, end in inside]
                yield slices[0] if len(slices) == 1 else pa.concat_tables(slices)
            at += size


def _ends_of(group: Any) -> dict[str, tuple[int, int]]:  # noqa: ANN401 - As above.
    """The lowest and highest value of each column of integers without a null."""
    columns = (group.column(at) for at in range(group.num_columns))
    return {
        one.path_in_schema: (one.statistics.min, one.statistics.max)
        for one in columns
        if one.physical_type == "INT64"
        and one.statistics is not None
        and one.statistics.has_min_max
        and not one.statistics.null_count
    }


def _plain(one: LogRange) -> list[Any]:
    tip, end = one.topic_id_partition, one.end
    assert end is not None
    return [tip.topic, str(tip.topic_id), tip.partition, *_numbers(one.start), *_numbers(end)]


def _numbers(place: LogPlace) -> tuple[int, int, str, int]:
    return place.next_batch, place.next_position, place.chain_hash.hex(), place.log_time_ms


def _parsed(fields: list[Any]) -> LogRange:
    topic, topic_id, partition, *numbers = fields
    tip = TopicIdPartition(Uuid.parse(topic_id), partition, topic)
    start, end = _place(numbers[:4]), _place(numbers[4:])
    if not (start.next_batch < end.next_batch and start.next_position < end.next_position):
        raise ValueError(f"an empty range of {tip}")
    return LogRange(tip, start, end.next_batch, end)


def _place(fields: Sequence[Any]) -> LogPlace:
    batch, position, chain_hash, log_time_ms = fields
    return LogPlace(int(batch), int(position), bytes.fromhex(chain_hash), int(log_time_ms))
