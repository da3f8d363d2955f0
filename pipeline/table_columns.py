"""Columns, rows and chunks of tables, for either engine.

Folded rows are tuples with ids as 16 bytes and states as numbers. Users get plain values, with
ids and states as text. Whole columns are converted at once, which costs a fifth of converting
row by row.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from typing_extensions import override

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import Event
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.fold import Watcher

# Columns hold whatever their types say; `Any` stops at these lines.
Row: TypeAlias = tuple[Any, ...]
PlainRow: TypeAlias = dict[str, Any]
Values: TypeAlias = "Sequence[Any]"

ROWS_PER_CHUNK = 8_192
"""Rows per chunk: 1 to 2 MB."""

STRING, INT, BIGINT, BOOLEAN, BINARY = "string", "int", "bigint", "boolean", "binary"
EPOCH_MAP = "map<int,bigint>"
STRINGS = "array<string>"
MONEY_DIGITS, MONEY_SCALE = 38, 12
MONEY = f"decimal({MONEY_DIGITS},{MONEY_SCALE})"
OBJECTS = "array<struct<role:string,least:bigint,step:bigint,most:bigint,is_required:boolean>>"
"""Types of columns in Spark's notation; `tables.arrow` has their Arrow types."""

PADDED_ID = 18
"""Bytes of an id with padding, so that it fills whole groups of base64."""


def _as_they_are(values: Values) -> Values:
    return values


class Column(NamedTuple):
    """One column: name, type, description, and conversion of folded values to plain ones."""

    name: str
    type: str
    about: str
    is_nullable: bool = False
    plain: Callable[[Values], Values] = _as_they_are


def id_texts(ids: Sequence[bytes | None]) -> list[str | None]:
    """Ids in Kafka's text form: 22 characters of base64."""
    if not ids:
        return []
    padded = b"\0\0".join([one or bytes(16) for one in ids]) + b"\0\0"
    text = base64.urlsafe_b64encode(padded).decode("ascii")
    width = PADDED_ID * 4 // 3
    return [
        None if one is None else text[at : at + 22]
        for one, at in zip(ids, range(0, len(text), width), strict=True)
    ]


_STATE_NAMES = [state.name for state in RemoteLogSegmentState]


def state_names(states: Sequence[int | None]) -> list[str | None]:
    """States by their names in Kafka."""
    return [None if one is None else _STATE_NAMES[one] for one in states]


def epoch_maps(flat: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """Maps from leader epoch to offset, made from flat lists of epoch, offset, placement."""
    return [dict(zip(one[::3], one[1::3], strict=True)) for one in flat]


IDENTITY = (
    Column("cluster", STRING, "id of the Kafka cluster"),
    Column("topic", STRING, "name of the topic; empty if the log does not have it"),
    Column("topic_id", STRING, "id of the topic, 22 characters"),
    Column("partition", INT, "number of the partition"),
)
"""First columns of a table; their values are the same in all rows of a chunk."""

Identity: TypeAlias = tuple[str, str | None, str | None, int | None]
"""Values of the columns in `IDENTITY`."""


class TableRows(ABC):
    """Makes the rows of one partition, during the fold of its log and after it."""

    @property
    def watch(self) -> Watcher | None:
        """A callback for each event; none if the final state is enough, which folds faster."""
        return None

    def taken(self) -> Sequence[Row]:
        """The rows that became final since the last call; each is returned only once."""
        return ()

    @abstractmethod
    def rows(self, state: PartitionState) -> Iterable[Row]:
        """The rows of the folded state."""

    def damaged(self, position: int, message: str) -> Iterable[Row]:  # noqa: ARG002 - Most give none.
        """The rows in place of `rows` if the log is damaged at `position`."""
        return ()


class WatchingRows(TableRows):
    """Makes rows from events, and from the final state."""

    def __init__(self) -> None:
        self._certain: list[Row] = []

    @property
    @override
    def watch(self) -> Watcher:
        return self._watch

    @override
    def taken(self) -> Sequence[Row]:
        certain, self._certain = self._certain, []
        return certain

    @abstractmethod
    def _watch(self, state: PartitionState, event: Event) -> None:
        """Look at an event before it is applied; add final rows to `_certain`."""


class RowChunk(NamedTuple):
    """Some rows of one partition, column by column, in plain values."""

    table: Table
    identity: Identity
    columns: list[Values]
    """Values of the table's own columns, without the identity."""

    @property
    def row_count(self) -> int:
        return len(self.columns[0])

    def rows(self) -> Iterator[PlainRow]:
        """Each row, by column name."""
        shared = {
            one.name: value
            for one, value in zip(self.table.identity, self.identity, strict=True)
        }
        names = [one.name for one in self.table.columns]
        for values in zip(*self.columns, strict=True):
            yield shared | dict(zip(names, values, strict=True))


class Table(NamedTuple):
    """A table: name, description, columns, and the factory of what makes its rows."""

    name: str
    about: str
    columns: tuple[Column, ...]
    """The columns after the identity."""
    make: Callable[[], TableRows]
    identity: tuple[Column, ...] = IDENTITY
    """The first columns."""

    def chunks(self, identity: Identity, rows: Iterable[Row]) -> Iterator[RowChunk]:
        """Chunks of plain values, made from folded `rows` of the partition `identity`."""
        left = iter(rows)
        while some := list(islice(left, ROWS_PER_CHUNK)):
            columns = zip(self.columns, zip(*some, strict=True), strict=True)
            yield RowChunk(self, identity, [one.plain(values) for one, values in columns])
