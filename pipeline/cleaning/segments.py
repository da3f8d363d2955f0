"""What the logs tell about each segment, for a clean-up: all that an audit asks, and more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from tierledger.events.lifecycle import DeletionCause, RemotePartitionDeleteState
from tierledger.events.log_events import (
    Event,
    PartitionDeleteUpdated,
    SegmentKept,
    SessionOpened,
)
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import END, ID, START, unpack_row
from tierledger.events.typed_fields import time_text
from tierledger.pipeline.jobs.audit.segments import COLUMNS, AuditRows, Settled
from tierledger.pipeline.segment_lives import COPYING, DELETING, SegmentLives
from tierledger.pipeline.table_columns import BIGINT, BINARY, Column, Row, Table

if TYPE_CHECKING:
    from tierledger.tiering.layouts.listed_objects import LayoutNames

LOG = "log"
"""The kind of the one row about a log itself.

`finished_at` is its next position, `since_ms` its log time, `row` its chain hash, `trouble` the
cluster whose history it imports, `is_settled` whether its session is open, and `place` why its
topic is deleted.
"""

MORE = (
    Column("start_offset", BIGINT, "first offset of the segment", True),
    Column("end_offset", BIGINT, "last offset of the segment, inclusive", True),
    Column("since_ms", BIGINT, "log time at which its copy or deletion began", True),
    Column("row", BINARY, "the segment's row in the log", True),
)


class _CleaningRows(AuditRows):
    def __init__(self, names: LayoutNames, settled: Settled) -> None:
        super().__init__(names, settled)
        self._open = SegmentLives((COPYING, DELETING))
        self._topic_gone: str | None = None
        """Why the partition's topic is deleted."""

    @override
    def _watch(self, state: PartitionState, event: Event) -> None:
        super()._watch(state, event)
        self._open.note(state, event)
        body = event.body
        if isinstance(body, PartitionDeleteUpdated):
            name = RemotePartitionDeleteState(body.state).name
            self._topic_gone = f"{name} since {time_text(event.log_time_ms)}"
        elif isinstance(body, SegmentKept) and body.cause == DeletionCause.TOPIC:
            self._topic_gone = (
                f"broker {body.broker_id} deleted its topic at {time_text(event.log_time_ms)}"
            )
        elif isinstance(body, SessionOpened):
            self._topic_gone = None  # Somebody leads it again.

    @override
    def _more(self, row: bytes | None) -> Row:
        if row is None:
            return (None,) * len(MORE)
        fields = unpack_row(row)
        stay = self._open.stays.get(fields[ID])
        return fields[START], fields[END], None if stay is None else stay.log_time_ms, row

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        yield from super().rows(state)
        imports = None if state.session is None else state.session.import_cluster
        end = (state.next_position, imports, None, None, state.log_time_ms, state.chain_hash)
        yield (LOG, bytes(16), None, state.is_open, self._topic_gone, *(None,) * 7, *end)


def cleaning_table(names: LayoutNames, settled: Settled) -> Table:
    """The table for a clean-up of a tier with these `names`."""
    make = partial(_CleaningRows, names, settled)
    return Table("clean", "segments, their objects and their logs", (*COLUMNS, *MORE), make)
