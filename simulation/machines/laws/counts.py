"""Counts of rare things in a run, such as page splits; see `marks` for rare situations.

They are read from the run's logs, from the states its machines ended with, and from the marks
of the world. No count relies on a report of the service alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tierledger.actors.calls import PartitionKey
from tierledger.events import log_events
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import SessionClosed
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.paged_map import PagedMap
from tierledger.simulation.history.final_log import FinalLog

SESSIONS_IN_A_ROW = 2

TOMBSTONES = "tombstones dropped"
IMPORTS = "records imported"
SPLITS = "page splits"
TRIMS = "request ids forgotten"
OUTDATED = "outdated oracle verdicts"
DELETIONS = "segments deleted"
STOPS = "leaders stopped"
ROWS = "most rows in a partition"
EVENTS = "most events in a log"

SUMMED = (TOMBSTONES, IMPORTS, SPLITS, TRIMS, OUTDATED, DELETIONS, STOPS)
"""Counts that add up over seeds; of the others the greatest is taken."""
GREATEST = (ROWS, EVENTS)

_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def counted(
    marks: Mapping[str, int],
    logs: Mapping[PartitionKey, FinalLog],
    states: Iterable[tuple[PartitionKey, PartitionState | None]],
) -> dict[str, int]:
    """The counts of a run that has ended, by name; every name is there.

    `states`: those that machines ended with.
    """
    counts = dict.fromkeys((*SUMMED, *GREATEST), 0)
    for log in logs.values():
        _count_log(log, counts)
    counts[OUTDATED] = marks.get("oracle outdated", 0)
    counts[STOPS] = marks.get("leader stopped", 0)
    for key, state in _furthest(states).items():
        counts[SPLITS] += _splits(state)
        if key in logs:
            counts[TRIMS] += _forgotten(state, logs[key])
    return counts


def _furthest(
    states: Iterable[tuple[PartitionKey, PartitionState | None]],
) -> dict[PartitionKey, PartitionState]:
    found: dict[PartitionKey, PartitionState] = {}
    for key, state in states:
        known = found.get(key)
        if state is not None and (known is None or known.next_position < state.next_position):
            found[key] = state
    return found


def _count_log(log: FinalLog, counts: dict[str, int]) -> None:
    rows: set[bytes] = set()
    most = 0
    for event in log.events:
        body = event.body
        if isinstance(body, log_events.SegmentAdded):
            rows.add(body.segment_id)
            most = max(most, len(rows))
            counts[IMPORTS] += body.source is not None
        elif isinstance(body, log_events.SegmentUpdated):
            counts[IMPORTS] += body.source is not None
            if body.state == _DELETED:
                rows.discard(body.segment_id)
                counts[DELETIONS] += 1
        elif isinstance(body, log_events.SegmentKept):
            rows.discard(body.segment_id)
        elif isinstance(body, log_events.PartitionDeleteUpdated):
            counts[IMPORTS] += body.source is not None
        elif isinstance(body, log_events.ImportRecordDropped):
            counts[IMPORTS] += 1
        elif isinstance(body, log_events.TombstonesDropped):
            counts[TOMBSTONES] += body.ids
    counts[ROWS] = max(counts[ROWS], most)
    counts[EVENTS] = max(counts[EVENTS], len(log.events))


def _splits(state: PartitionState) -> int:
    """The number of pages in the state's tables, without the first page of each."""
    tables: list[PagedMap[Any, Any]] = [state.tombstones.by_position]
    for epoch in state.epochs.values():
        tables += [table for _, table in epoch.tables()]
    return sum(max(0, len(table.pages) - 1) for table in tables)


def _forgotten(state: PartitionState, log: FinalLog) -> int:
    """The number of requests in the log that the state has forgotten."""
    known = {request for kept in state.requests.values() for request in kept}
    return sum(
        position < state.next_position and request not in known
        for request, position in log.requests.items()
    )


def sessions_without_write(log: FinalLog) -> int:
    """The greatest number of sessions in a row without a write in between."""
    most = run = 0
    last = -9
    for position in log.sessions:
        between = log.events[last + 1 : position] if last >= 0 else ()
        idle = all(isinstance(event.body, SessionClosed) for event in between)
        run = run + 1 if idle else 1
        most, last = max(most, run), position
    return most
