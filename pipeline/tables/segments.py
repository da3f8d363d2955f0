"""`segments`: every segment that the metadata knows, one row each."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from tierledger.events.partition.answers import Snapshot, list_all
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import NOT_FINISHED, unpack_row
from tierledger.pipeline.table_columns import (
    BIGINT,
    BINARY,
    BOOLEAN,
    EPOCH_MAP,
    INT,
    STRING,
    Column,
    Row,
    Table,
    TableRows,
    epoch_maps,
    id_texts,
    state_names,
)


class _Segments(TableRows):
    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        position = state.next_position - 1
        for row in list_all(Snapshot(state)):
            yield (*fields_of(row), position)


def fields_of(row: bytes) -> Row:
    """The values of `OF_A_SEGMENT`."""
    *fields, finished_at = unpack_row(row)
    return (*fields, None if finished_at == NOT_FINISHED else finished_at)


OF_A_SEGMENT = (
    Column("segment_id", STRING, "id of the segment, 22 characters", plain=id_texts),
    Column("state", STRING, "state of the segment, by its name in Kafka", plain=state_names),
    Column("start_offset", BIGINT, "first offset of the segment"),
    Column("end_offset", BIGINT, "last offset of the segment, inclusive"),
    Column(
        "leader_epochs",
        EPOCH_MAP,
        "map from each leader epoch to its first offset in the segment",
        plain=epoch_maps,
    ),
    Column("size_in_bytes", BIGINT, "bytes of the segment's log"),
    Column(
        "max_timestamp_ms",
        BIGINT,
        "largest timestamp of the segment's records, ms since 1970",
    ),
    Column("broker_id", INT, "id of the broker that last changed the segment"),
    Column(
        "event_timestamp_ms",
        BIGINT,
        "time of that change by the broker's clock, ms since 1970",
    ),
    Column(
        "custom_metadata", BINARY, "custom metadata of the storage plugin", is_nullable=True
    ),
    Column(
        "txn_index_empty",
        BOOLEAN,
        "true if the segment certainly has no aborted transactions",
    ),
    Column(
        "finished_at_position",
        BIGINT,
        "position of the last event that says that the copy is finished, a repeat "
        "included; null if it never finished",
        is_nullable=True,
    ),
)
"""Columns of what the metadata knows of one segment."""

SEGMENTS = Table(
    "segments",
    "every segment that the metadata knows, in no order",
    (
        *OF_A_SEGMENT,
        Column("position", BIGINT, "last position of the log that this row takes into account"),
    ),
    _Segments,
)
