"""`coverage` as a table: what `coverage_rules` says of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from typing_extensions import override

from tierledger.pipeline.coverage_rules import IDS_MAX, coverage_of
from tierledger.pipeline.table_columns import Column, Table, TableRows, id_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tierledger.events.partition_state import PartitionState
    from tierledger.pipeline.coverage_rules import CoverageRow


class _Coverage(TableRows):
    @override
    def rows(self, state: PartitionState) -> Iterator[CoverageRow]:
        return coverage_of(state)


def _id_lists(lists: Sequence[Sequence[bytes]], _: object) -> object:
    offsets, flat = [0], list[bytes]()
    for one in lists:
        flat += one
        offsets.append(len(flat))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        id_texts(flat, None) if flat else pa.array([], pa.string()),
        type=IDS_TYPE,
    )


IDS_TYPE = pa.list_(pa.field("element", pa.string(), nullable=False))

COVERAGE = Table(
    "coverage",
    "which offsets of each partition's log the tier holds: once, twice, or not",
    (
        Column("kind", pa.string(), "see above"),
        Column("leader_epoch", pa.int32(), "of these offsets, or of the first"),
        Column("start_offset", pa.int64(), "first offset"),
        Column("end_offset", pa.int64(), "last offset, inclusive"),
        Column("segments", pa.int64(), "that hold some of them"),
        Column(
            "size_in_bytes",
            pa.int64(),
            "of these offsets, by their share of each segment; of an overlap, beyond the "
            "largest copy",
        ),
        Column(
            "segment_ids",
            IDS_TYPE,
            f"of at most {IDS_MAX}; none where covered",
            False,
            _id_lists,
        ),
        Column(
            "detail", pa.string(), "the state of what is unfinished; why else", is_nullable=True
        ),
    ),
    _Coverage,
)
