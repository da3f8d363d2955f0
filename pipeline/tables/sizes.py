"""`sizes`: segments and bytes by partition, leader epoch and state, and of the lineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from typing_extensions import override

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.answers import Snapshot, list_epoch
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import END, SIZE, STATE, unpack_row
from tierledger.pipeline.table_columns import (
    BIGINT,
    INT,
    STRING,
    Column,
    Row,
    Table,
    TableRows,
    state_names,
)
from tierledger.pipeline.tables.lineage import epochs_of, lineage_of

KEPT_STATES = tuple(RemoteLogSegmentState)[:3]
"""The states of segments that the metadata keeps."""

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class _Sizes(TableRows):
    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        held = _held_by_epoch(state)
        whole = [sum(numbers) for numbers in zip((0, 0), *held.values(), strict=True)]
        counts, sizes = state.count_by_state, state.bytes_by_state
        yield from _rows(None, counts, sizes, whole)
        for epoch in sorted(state.epochs):
            counts, sizes = [0] * len(KEPT_STATES), [0] * len(KEPT_STATES)
            for row in list_epoch(Snapshot(state, epoch), epoch):
                if row is not None:
                    fields = unpack_row(row)
                    counts[fields[STATE]] += 1
                    sizes[fields[STATE]] += fields[SIZE]
            yield from _rows(epoch, counts, sizes, held[epoch])


def _rows(
    epoch: int | None, counts: Sequence[int], sizes: Sequence[int], held: Sequence[int]
) -> Iterator[Row]:
    for state, count, size in zip(KEPT_STATES, counts, sizes, strict=True):
        yield epoch, int(state), count, size, *(held if state == _FINISHED else (0, 0))


def _held_by_epoch(state: PartitionState) -> dict[int, tuple[int, int]]:
    """By epoch: number and bytes of the lineage's finished segments with that newest epoch."""
    held: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    lineage = lineage_of(state)
    if lineage is None:
        return held
    holds = lineage.made().holds
    for row in state.rows:
        fields = unpack_row(row)
        if fields[STATE] != _FINISHED:
            continue
        epochs = epochs_of(fields)
        if holds(epochs, fields[END], lineage.log_end_offset):
            count, size = held[max(epochs)]
            held[max(epochs)] = (count + 1, size + max(0, fields[SIZE]))
    return held


SIZES = Table(
    "sizes",
    "segments and bytes by partition, leader epoch and state",
    (
        Column(
            "leader_epoch",
            INT,
            "leader epoch; null: the whole partition, each segment once",
            is_nullable=True,
        ),
        Column(
            "state",
            STRING,
            "state of the counted segments, by its name in Kafka",
            plain=state_names,
        ),
        Column(
            "segments", BIGINT, "number of segments; a segment of several epochs counts in each"
        ),
        Column("size_in_bytes", BIGINT, "bytes of these segments' logs"),
        Column(
            "lineage_segments",
            BIGINT,
            "number of finished segments of the newest leader's log; a segment counts "
            "once, in its newest epoch",
        ),
        Column(
            "lineage_size_in_bytes",
            BIGINT,
            "bytes of the segments in `lineage_segments`; `retention.bytes` limits these",
        ),
    ),
    _Sizes,
)
