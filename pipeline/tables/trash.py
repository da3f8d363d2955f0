"""`trash`: every segment that was deleted and whose data stays in the tier, one row each."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from tierledger.events.lifecycle import DeletionCause
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.table_columns import BIGINT, INT, STRING, Column, Row, Table, TableRows
from tierledger.pipeline.tables.segments import OF_A_SEGMENT, fields_of


class _Trash(TableRows):
    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        position = state.next_position - 1
        for kept_at, kept in state.kept.all():
            until_ms = None if kept.until_ms == UNTIL_RELEASED_MS else kept.until_ms
            cause = DeletionCause(kept.cause).name.lower()
            deletion = (kept.log_time_ms, kept_at, cause, until_ms, kept.reason, kept.purger)
            yield (*fields_of(kept.row), *deletion, position)


TRASH = Table(
    "trash",
    "every segment that was deleted and whose data stays, in the order of the deletions",
    (
        *OF_A_SEGMENT,
        Column("deleted_ms", BIGINT, "log time of the deletion, ms since 1970"),
        Column("deleted_position", BIGINT, "position of the event that kept the segment"),
        Column(
            "deleted_by",
            STRING,
            "what deleted it: `retention`, `topic` (the topic was deleted), or `unknown`",
        ),
        Column(
            "kept_until_ms",
            BIGINT,
            "when its term is over, ms since 1970; null: it stays until somebody releases it",
            is_nullable=True,
        ),
        Column("reason", STRING, "why it was kept"),
        Column(
            "purged_by",
            INT,
            "broker whose guard deletes its data now, -1 for a command; null if nobody does",
            is_nullable=True,
        ),
        Column("position", BIGINT, "last position of the log that this row takes into account"),
    ),
    _Trash,
)
