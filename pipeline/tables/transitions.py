"""`transitions`: how long segments stay in each state, one row for each stay.

Times are log times: when the event was written or, for an imported event, recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import Event, PartitionDeleteUpdated
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.segment_lives import SegmentLives, Stay
from tierledger.pipeline.table_columns import (
    BIGINT,
    INT,
    STRING,
    Column,
    Row,
    Table,
    WatchingRows,
    id_texts,
    state_names,
)

_STATES = tuple(RemoteLogSegmentState)


class _Transitions(WatchingRows):
    def __init__(self) -> None:
        super().__init__()
        self._lives = SegmentLives()

    @override
    def _watch(self, state: PartitionState, event: Event) -> None:
        for passage in self._lives.note(state, event):
            segment_id, left, entered = passage
            if left is not None and (entered is None or entered.state != left.state):
                self._certain.append(_row(segment_id, left, event, _next(event, entered)))

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        for segment_id, stay in self._lives.stays.items():
            yield _row(segment_id, stay, None, None)


def _next(event: Event, entered: Stay | None) -> str:
    if entered is not None:
        return _STATES[entered.state].name
    if isinstance(event.body, PartitionDeleteUpdated):
        return RemotePartitionDeleteState.DELETE_PARTITION_FINISHED.name
    return RemoteLogSegmentState.DELETE_SEGMENT_FINISHED.name


def _row(segment_id: bytes, stay: Stay, until: Event | None, next_state: str | None) -> Row:
    begun = (segment_id, stay.state, stay.position, stay.log_time_ms, stay.broker_id)
    if until is None:
        return (*begun, stay.repeats, None, None, None, None)
    took = until.log_time_ms - stay.log_time_ms
    return (*begun, stay.repeats, next_state, until.position, until.log_time_ms, took)


TRANSITIONS = Table(
    "transitions",
    "how long segments stay in each state",
    (
        Column("segment_id", STRING, "id of the segment, 22 characters", plain=id_texts),
        Column(
            "state",
            STRING,
            "state that the segment was in, by its name in Kafka",
            plain=state_names,
        ),
        Column("since_position", BIGINT, "position of the event that began the state"),
        Column("since_ms", BIGINT, "log time of the event that began the state, ms since 1970"),
        Column("broker_id", INT, "id of the broker that sent the event that began the state"),
        Column("repeats", BIGINT, "number of later events that repeated the state"),
        Column(
            "next_state",
            STRING,
            "state that followed, or DELETE_PARTITION_FINISHED; null while the state lasts",
            is_nullable=True,
        ),
        Column(
            "until_position",
            BIGINT,
            "position of the event that ended the state; null while the state lasts",
            is_nullable=True,
        ),
        Column(
            "until_ms",
            BIGINT,
            "log time of the event that ended the state, ms since 1970; null while the "
            "state lasts",
            is_nullable=True,
        ),
        Column(
            "duration_ms",
            BIGINT,
            "length of this period, `until_ms` minus `since_ms`; null while the state lasts",
            is_nullable=True,
        ),
    ),
    _Transitions,
)
