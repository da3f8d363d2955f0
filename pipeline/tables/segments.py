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
            *fields, finished_at = unpack_row(row)
            yield (
                *fields,
                None if finished_at == NOT_FINISHED else finished_at,
                position,
            )


SEGMENTS = Table(
    "segments",
    "every segment that the metadata knows, in no order",
    (
        Column("segment_id", STRING, "id, 22 characters", plain=id_texts),
        Column("state", STRING, "Kafka's name of it", plain=state_names),
        Column("start_offset", BIGINT, "first offset"),
        Column("end_offset", BIGINT, "last offset, inclusive"),
        Column(
            "leader_epochs",
            EPOCH_MAP,
            "leader epoch to its first offset in the segment",
            plain=epoch_maps,
        ),
        Column("size_in_bytes", BIGINT, "of the segment's log"),
        Column("max_timestamp_ms", BIGINT, "of its records, ms since 1970"),
        Column("broker_id", INT, "who changed it last"),
        Column("event_timestamp_ms", BIGINT, "when, by that broker's clock"),
        Column("custom_metadata", BINARY, "of the storage plugin", is_nullable=True),
        Column("txn_index_empty", BOOLEAN, "surely no aborted transactions"),
        Column(
            "finished_at_position",
            BIGINT,
            "where the log says that the copy finished; null if it never did",
            is_nullable=True,
        ),
        Column("position", BIGINT, "of the log, up to which this is known"),
    ),
    _Segments,
)
