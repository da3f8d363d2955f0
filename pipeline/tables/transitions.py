"""`transitions`: how long segments stay in each state, one row for each stay.

Times are log times: when the event was written or, for an imported event, recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import (
    Event,
    PartitionDeleteUpdated,
    SegmentAdded,
    SegmentUpdated,
)
from tierledger.events.partition.state import PartitionState
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

_STARTED = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_DELETED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
_STATES = tuple(RemoteLogSegmentState)
_PARTITION_GONE = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


class _Stay(NamedTuple):
    """A segment's present state, and the event that began it."""

    state: int
    position: int
    log_time_ms: int
    broker_id: int
    repeats: int = 0


class _Transitions(WatchingRows):
    def __init__(self) -> None:
        super().__init__()
        self._stays: dict[bytes, _Stay] = {}

    @override
    def _watch(self, state: PartitionState, event: Event) -> None:
        body = event.body
        if isinstance(body, SegmentAdded):
            self._enter(body.segment_id, _STARTED, event, body.broker_id)
        elif isinstance(body, SegmentUpdated):
            self._enter(body.segment_id, body.state, event, body.broker_id)
        elif isinstance(body, PartitionDeleteUpdated) and body.state == _PARTITION_GONE:
            for segment_id, stay in self._stays.items():
                self._certain.append(_row(segment_id, stay, event, _PARTITION_GONE.name))
            self._stays.clear()

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        for segment_id, stay in self._stays.items():
            yield _row(segment_id, stay, None, None)

    def _enter(self, segment_id: bytes, state: int, event: Event, broker_id: int) -> None:
        stay = self._stays.get(segment_id)
        if stay is not None and stay.state == state:
            self._stays[segment_id] = stay._replace(repeats=stay.repeats + 1)
            return
        if stay is not None:
            self._certain.append(_row(segment_id, stay, event, _STATES[state].name))
        if state == _DELETED:
            self._stays.pop(segment_id, None)
        else:
            self._stays[segment_id] = _Stay(state, event.position, event.log_time_ms, broker_id)


def _row(segment_id: bytes, stay: _Stay, until: Event | None, next_state: str | None) -> Row:
    begun = (segment_id, stay.state, stay.position, stay.log_time_ms, stay.broker_id)
    if until is None:
        return (*begun, stay.repeats, None, None, None, None)
    took = until.log_time_ms - stay.log_time_ms
    return (*begun, stay.repeats, next_state, until.position, until.log_time_ms, took)


TRANSITIONS = Table(
    "transitions",
    "how long segments stay in each state",
    (
        Column("segment_id", STRING, "id, 22 characters", plain=id_texts),
        Column("state", STRING, "the state it was in", plain=state_names),
        Column("since_position", BIGINT, "of the event that brought it there"),
        Column("since_ms", BIGINT, "log time of that event, ms since 1970"),
        Column("broker_id", INT, "who sent it"),
        Column("repeats", BIGINT, "how often the same event was repeated meanwhile"),
        Column(
            "next_state",
            STRING,
            "the state that followed, or DELETE_PARTITION_FINISHED; null while it lasts",
            is_nullable=True,
        ),
        Column("until_position", BIGINT, "of the event that ended it", is_nullable=True),
        Column("until_ms", BIGINT, "log time of that event", is_nullable=True),
        Column("duration_ms", BIGINT, "from the one to the other", is_nullable=True),
    ),
    _Transitions,
)
