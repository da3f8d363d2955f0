"""`stuck`: copies and deletions that began and did not end within their time limits.

A state begins at the log time of the event that brought it; a repeated event of the same state
changes nothing. The caller passes the present time: nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from typing_extensions import override

from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import BROKER, END, SIZE, START, STATE, unpack_row
from tierledger.pipeline.digests import Digest, Least
from tierledger.pipeline.fold import Watcher
from tierledger.pipeline.segment_lives import COPYING, DELETING, SegmentLives, Stay
from tierledger.pipeline.table_columns import (
    BIGINT,
    INT,
    STRING,
    Column,
    PlainRow,
    Row,
    Table,
    TableRows,
    id_texts,
)

ADVICE: dict[str, str] = {
    "COPY_SEGMENT_STARTED": (
        "the copy did not finish. tierledger's copy task removes it when it next runs for the "
        "partition; a stock broker leaves it to retention. See that the partition has a "
        "leader, and what the broker's log says of the copy."
    ),
    "DELETE_SEGMENT_STARTED": (
        "the deletion did not finish. The leader repeats it with each run of retention; if it "
        "stays, deleting from the tier fails, and the broker's log says why. Of a deleted "
        "topic a stock broker repeats nothing: remove the objects."
    ),
    "DELETE_PARTITION_MARKED": (
        "nobody has begun to remove the partition's segments. See that a broker runs which "
        "removes deleted partitions."
    ),
    "DELETE_PARTITION_STARTED": (
        "the partition's segments are not all removed. Its remover has died, or cannot "
        "delete from the tier."
    ),
}
"""By state that can last too long: what to do about it."""


class _Stuck(TableRows):
    def __init__(self, now_ms: int, limits_ms: Mapping[str, int]) -> None:
        self._now_ms = now_ms
        self._limits_ms = limits_ms
        self._lives = SegmentLives((COPYING, DELETING))

    @property
    @override
    def watch(self) -> Watcher:
        return self._lives.note

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        deletion = self._lives.deletion
        if state.delete is not None and deletion is not None:
            name = RemotePartitionDeleteState(state.delete.state).name
            left = sum(state.bytes_by_state)
            yield from self._row(name, deletion, None, None, None, left)
        for segment_id, stay in self._lives.stays.items():
            row = state.rows.get(segment_id)
            assert row is not None, "a segment that stays in a state has a row"
            fields = unpack_row(row)
            name = RemoteLogSegmentState(fields[STATE]).name
            changed = stay._replace(broker_id=fields[BROKER])
            yield from self._row(
                name, changed, segment_id, fields[START], fields[END], max(0, fields[SIZE])
            )

    def _row(
        self,
        name: str,
        since: Stay,
        segment_id: bytes | None,
        start: int | None,
        end: int | None,
        size: int,
    ) -> Iterator[Row]:
        limit_ms, age_ms = self._limits_ms.get(name), self._now_ms - since.log_time_ms
        if limit_ms is not None and age_ms > limit_ms:
            began = (since.log_time_ms, age_ms, limit_ms, since.broker_id)
            yield name, segment_id, *began, start, end, size, ADVICE[name]


def stuck_table(now_ms: int, limits_ms: Mapping[str, int]) -> Table:
    """The table of segments and deletions that are over their state's limit at `now_ms`.

    Args:
        now_ms: The present time in ms since 1970, by the clock of the hosts that write the
            logs.
        limits_ms: Limit by the state's name in Kafka, one of `ADVICE`. A state without an
            entry has no limit.
    """
    return Table(
        "stuck",
        "copies and deletions that last too long",
        COLUMNS,
        partial(_Stuck, now_ms, dict(limits_ms)),
    )


COLUMNS = (
    Column(
        "state",
        STRING,
        "state of the segment, or of the partition's deletion, by its name in Kafka",
    ),
    Column(
        "segment_id",
        STRING,
        "id of the segment, 22 characters; null: the partition's deletion",
        True,
        id_texts,
    ),
    Column("since_ms", BIGINT, "log time of the event that began the state, ms since 1970"),
    Column("age_ms", BIGINT, "time from `since_ms` until now, or until `--now`, in ms"),
    Column("limit_ms", BIGINT, "longest time that the state may last, in ms"),
    Column(
        "broker_id",
        INT,
        "id of the broker that last changed the segment, or that began this state of "
        "the deletion",
    ),
    Column(
        "start_offset",
        BIGINT,
        "first offset of the segment; null: the partition's deletion",
        is_nullable=True,
    ),
    Column(
        "end_offset",
        BIGINT,
        "last offset of the segment, inclusive; null: the partition's deletion",
        is_nullable=True,
    ),
    Column(
        "size_in_bytes",
        BIGINT,
        "bytes of the segment's log, or of all segments that the partition has",
    ),
    Column("advice", STRING, "what to do about it, as listed above"),
)


class StuckDigest(Digest):
    """Totals by state, and the oldest rows."""

    def __init__(self, oldest_max: int) -> None:
        self.totals: dict[str, tuple[int, int]] = {}
        """By state: number of rows, and their bytes."""
        self._oldest: Least[PlainRow] = Least(oldest_max, _youth)

    @override
    def take(self, row: PlainRow) -> None:
        self._count(row["state"], 1, row["size_in_bytes"])
        self._oldest.add(row)

    @override
    def join(self, other: StuckDigest) -> None:
        for state, more in other.totals.items():
            self._count(state, *more)
        self._oldest.add(*other.oldest())

    def oldest(self) -> list[PlainRow]:
        """The rows that last longest, oldest first."""
        return self._oldest.ascending()

    def _count(self, state: str, more: int, more_bytes: int) -> None:
        count, size = self.totals.get(state, (0, 0))
        self.totals[state] = (count + more, size + more_bytes)


def _youth(row: PlainRow) -> tuple[object, ...]:
    segment_id = row["segment_id"] or ""  # A partition's deletion sorts before its segments.
    return (-row["age_ms"], row["topic"], row["partition"], segment_id, row["topic_id"])
