"""What a table's rows are made of, and how rows become Arrow batches.

A row is a tuple of plain values, ids as their 16 bytes, states as their numbers; whole columns
of them are turned into text at once, which costs a fifth of doing it row by row.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from tierledger.events.lifecycle import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tierledger.events.partition_state import PartitionState
    from tierledger.pipeline.fold import Watcher

# Arrow's types are not annotated; `Any` stops at these lines.
Array: TypeAlias = Any
ArrowType: TypeAlias = Any
RecordBatch: TypeAlias = Any

Row: TypeAlias = tuple[Any, ...]

ROWS_PER_BATCH = 8_192
"""Rows in an Arrow batch: 1 to 2 MB."""

PADDED_ID = 18
"""Bytes at which an id and its padding are whole groups of base64."""


class Column(NamedTuple):
    """One column: its name, what it holds, and how values become it."""

    name: str
    type: ArrowType
    about: str
    is_nullable: bool = False
    array: Callable[[Sequence[Any], ArrowType], Array] = pa.array


def id_texts(ids: Sequence[bytes | None], _: ArrowType) -> Array:
    """Ids as Kafka writes them: 22 characters of base64."""
    padded = b"\0\0".join([one or bytes(16) for one in ids]) + b"\0\0"
    text = base64.urlsafe_b64encode(padded).decode("ascii")
    width = PADDED_ID * 4 // 3
    return pa.array(
        [
            None if one is None else text[at : at + 22]
            for one, at in zip(ids, range(0, len(text), width), strict=True)
        ],
        pa.string(),
    )


_STATE_NAMES = pa.array([state.name for state in RemoteLogSegmentState])


def state_names(states: Sequence[int | None], _: ArrowType) -> Array:
    """States by their names in Kafka."""
    return _STATE_NAMES.take(pa.array(states, pa.int8()))


def epoch_maps(flat: Sequence[Sequence[int]], type_: ArrowType) -> Array:
    """Maps from leader epoch to offset, of rows' flat lists: epoch, offset, placement."""
    offsets, keys, values = [0], list[int](), list[int]()
    for one in flat:
        keys += one[::3]
        values += one[1::3]
        offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(keys, type_.key_type),
        pa.array(values, type_.item_type),
    )


IDENTITY = (
    Column("cluster", pa.string(), "the Kafka cluster's id"),
    Column("topic", pa.string(), "name; empty if the log does not say"),
    Column("topic_id", pa.string(), "id, 22 characters"),
    Column("partition", pa.int32(), "number"),
)
"""What every table's rows begin with."""


class TableRows(ABC):
    """Makes one partition's rows, while its log is folded and when that is done."""

    @property
    def watch(self) -> Watcher | None:
        """What looks at each event; none if a state is enough, which is folded faster."""
        return None

    def taken(self) -> Sequence[Row]:
        """The rows that became certain since the last call; the caller has them now."""
        return ()

    @abstractmethod
    def rows(self, state: PartitionState) -> Iterable[Row]:
        """The rows of the folded state."""

    def damaged(self, position: int, message: str) -> Iterable[Row]:  # noqa: ARG002 - Most give none.
        """The rows in place of `rows` if the log is damaged at `position`."""
        return ()


class Table(NamedTuple):
    """One of the tables: what it is called, its columns, and what makes its rows."""

    name: str
    about: str
    columns: tuple[Column, ...]
    """Those behind `IDENTITY`."""
    make: Callable[[], TableRows]

    @property
    def schema(self) -> Any:  # noqa: ANN401 - Arrow's.
        return pa.schema(
            [
                pa.field(one.name, one.type, nullable=one.is_nullable)
                for one in (*IDENTITY, *self.columns)
            ]
        )

    def batches(
        self, identity: tuple[str, str, str, int], rows: Iterable[Row]
    ) -> Iterator[RecordBatch]:
        """`rows` of the partition `identity`, as Arrow batches of `schema`."""
        schema = self.schema
        left = iter(rows)
        while some := list(islice(left, ROWS_PER_BATCH)):
            arrays = [
                pa.repeat(pa.scalar(value, one.type), len(some))
                for value, one in zip(identity, IDENTITY, strict=True)
            ]
            arrays += [
                one.array(values, one.type)
                for values, one in zip(zip(*some, strict=True), self.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
