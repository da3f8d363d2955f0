"""`epochs`: the leaders' answers about each leader epoch, as ranges of offsets.

The ranges are found by `answers.lookup` at every offset where its answer can change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.partition.answers import (
    Snapshot,
    highest_offset_for_epoch,
    list_epoch,
    lookup,
    remote_log_size,
)
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.epoch_tables import OFFSET_BIAS
from tierledger.events.tables.segment_rows import (
    END,
    START,
    end_in_epoch,
    id_of_row,
    unpack_row,
)
from tierledger.pipeline.table_columns import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    Column,
    Row,
    Table,
    TableRows,
    id_texts,
)

EPOCH, LOOKUP, LIST = "epoch", "lookup", "list"
"""Kinds of rows: about the epoch itself, a range of `lookup`, or an entry of `list`."""


class ServedRange(NamedTuple):
    """Offsets of a leader epoch that one segment serves, both inclusive."""

    first: int
    last: int
    segment_id: bytes
    is_recovered: bool
    """Whether Kafka's own manager answers "none" there."""


def served_ranges(view: PartitionState | Snapshot, epoch: int) -> Iterator[ServedRange]:
    """The ranges for which `lookup` finds a segment in `epoch`, ascending."""
    since, serves, is_recovered = 0, None, False
    for offset in _edges(view, epoch):
        row = lookup(view, epoch, offset)
        found = None if row is None else id_of_row(row)
        recovered = found is not None and not _kafka_serves(view, epoch, offset, found)
        if (found, recovered) == (serves, is_recovered):
            continue
        if serves is not None:
            yield ServedRange(since, offset - 1, serves, is_recovered)
        since, serves, is_recovered = offset, found, recovered
    assert serves is None, "no segment serves what lies behind its end"


def _kafka_serves(
    view: PartitionState | Snapshot, epoch: int, offset: int, segment_id: bytes
) -> bool:
    # Kafka answers with the segment at the floor of the offset, and with no other.
    entry = view.epochs[epoch].referenced.floor(offset)
    return entry is not None and entry[1] == segment_id


def _edges(view: PartitionState | Snapshot, epoch: int) -> list[int]:
    """Every offset at which a segment of the epoch begins, or that follows a segment's end."""
    tables = view.epochs[epoch]
    edges: set[int] = set()
    for start, segment_id in tables.referenced.items():
        row = view.rows.get(segment_id)
        edges.add(start)
        if row is not None:
            edges.add(end_in_epoch(unpack_row(row), epoch) + 1)
    for key, end in tables.hidden.items():
        edges.add(int.from_bytes(key[:8], "big") - OFFSET_BIAS)
        edges.add(end + 1)
    return sorted(edges)


class _Epochs(TableRows):
    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        for epoch in sorted(state.epochs):
            yield from _epoch_rows(state, epoch)


def _epoch_rows(state: PartitionState, epoch: int) -> Iterator[Row]:
    lost = state.epochs[epoch].lost
    highest = highest_offset_for_epoch(state, epoch)
    size = remote_log_size(state, epoch)
    yield epoch, EPOCH, None, None, None, None, highest, size, None
    for at, (first, last, segment_id, is_recovered) in enumerate(served_ranges(state, epoch)):
        yield epoch, LOOKUP, at, segment_id, first, last, None, None, is_recovered
    rows = (row for row in list_epoch(Snapshot(state, epoch), epoch) if row is not None)
    for at, row in enumerate(rows):
        fields, segment_id = unpack_row(row), id_of_row(row)
        is_lost = segment_id in lost
        yield epoch, LIST, at, segment_id, fields[START], fields[END], None, None, is_lost


EPOCHS = Table(
    "epochs",
    "what the leaders answer about each leader epoch",
    (
        Column("leader_epoch", INT, "Kafka's leader epoch"),
        Column("answer", STRING, f"what the row answers: `{EPOCH}`, `{LOOKUP}`, `{LIST}`"),
        Column(
            "ordinal",
            BIGINT,
            "number of the row among the epoch's rows with this `answer`, from 0",
            True,
        ),
        Column("segment_id", STRING, "id of the segment, 22 characters", True, id_texts),
        Column("start_offset", BIGINT, "first offset of the range or segment", True),
        Column("end_offset", BIGINT, "last offset of the range or segment, inclusive", True),
        Column(
            "highest_offset",
            BIGINT,
            "highest offset of the epoch in any segment whose copy ever finished; null if "
            "none did",
            True,
        ),
        Column(
            "size_in_bytes",
            BIGINT,
            "bytes of all segments in the epoch's list; a segment of several epochs counts "
            "in each",
            True,
        ),
        Column(
            "is_recovered",
            BOOLEAN,
            "true if Kafka's own manager would not answer with this segment",
            True,
        ),
    ),
    _Epochs,
)
