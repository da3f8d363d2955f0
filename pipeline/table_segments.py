"""`segments`: every segment that the metadata knows, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from typing_extensions import override

from tierledger.events.answers import Snapshot, list_all
from tierledger.events.segment_rows import NOT_FINISHED, unpack_row
from tierledger.pipeline.table_columns import (
    Column,
    Row,
    Table,
    TableRows,
    epoch_maps,
    id_texts,
    state_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierledger.events.partition_state import PartitionState


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
        Column("segment_id", pa.string(), "id, 22 characters", array=id_texts),
        Column("state", pa.string(), "Kafka's name of it", array=state_names),
        Column("start_offset", pa.int64(), "first offset"),
        Column("end_offset", pa.int64(), "last offset, inclusive"),
        Column(
            "leader_epochs",
            pa.map_(pa.int32(), pa.int64()),
            "leader epoch to its first offset in the segment",
            array=epoch_maps,
        ),
        Column("size_in_bytes", pa.int64(), "of the segment's log"),
        Column("max_timestamp_ms", pa.int64(), "of its records, ms since 1970"),
        Column("broker_id", pa.int32(), "who changed it last"),
        Column("event_timestamp_ms", pa.int64(), "when, by that broker's clock"),
        Column("custom_metadata", pa.binary(), "of the storage plugin", is_nullable=True),
        Column("txn_index_empty", pa.bool_(), "surely no aborted transactions"),
        Column(
            "finished_at_position",
            pa.int64(),
            "where the log says that the copy finished; null if it never did",
            is_nullable=True,
        ),
        Column("position", pa.int64(), "of the log, up to which this is known"),
    ),
    _Segments,
)
