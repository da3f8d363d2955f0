"""What became of each segment, from columns of events of several logs.

Rule: only plain logs are looked at: each segment of them is added once, its states follow each
other as leaders let them, nothing was kept, and the partition was not deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tierledger.events import log_events as log
from tierledger.events.lifecycle import (
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)

ADDED, UPDATED = log.SegmentAdded.__name__, log.SegmentUpdated.__name__

PLAIN = {
    ADDED,
    UPDATED,
    log.SessionOpened.__name__,
    log.SessionClosed.__name__,
    log.SessionDisputed.__name__,
    log.ImportRecordDropped.__name__,
    log.TombstonesDropped.__name__,
    log.PartitionDeleteUpdated.__name__,
}
"""The types of events that plain logs have."""

LIFE = (ADDED, UPDATED)

FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
GONE = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
NOTHING = len(RemoteLogSegmentState)
"""The state of a segment that was not added yet."""

FOLLOWS = np.zeros((NOTHING + 1, NOTHING), bool)
"""By state before, and state: whether a leader lets them follow each other."""

for _source, _target in SEGMENT_TRANSITIONS:
    FOLLOWS[NOTHING if _source is None else _source, _target] = True
FOLLOWS[GONE, GONE] = False  # A leader writes no second end.

ALL_GONE = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED.name

Numbers = Any
"""An array of NumPy."""


class Events(NamedTuple):
    """Events of several logs, in the order of logs and positions."""

    rows: Any
    """An Arrow table."""
    logs: Numbers
    """For each row the number of its log."""
    last_positions: Numbers
    """For each log its last position; -1 if it has no events."""


class Lives(NamedTuple):
    """Each segment of plain logs that still is there, by rows of the events."""

    added: Numbers
    """The row of the event that added it."""
    last: Numbers
    """The row of its last event."""
    finished: Numbers
    """The row of the last event that finished its copy; -1 if none did."""
    ever: Numbers
    """The rows of all events that added a segment, whatever became of it."""

    def without(self, odd: Iterable[int], logs: Numbers) -> Lives:
        """The same without the logs `odd`; `logs` has the number of each row's log."""
        kept = ~in_logs(logs[self.last], odd)
        ever = self.ever[~in_logs(logs[self.ever], odd)]
        return Lives(self.added[kept], self.last[kept], self.finished[kept], ever)


def in_logs(logs: Numbers, some: Iterable[int]) -> Numbers:
    """For each number of a log whether it is one of `some`."""
    return np.isin(logs, sorted(some))


def whole_column(column: Any) -> Any:  # noqa: ANN401 - Arrow has no types.
    """A column as one array."""
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def integers(column: Any) -> Numbers:  # noqa: ANN401 - As above.
    """A column of integers, with 0 for null."""
    return whole_column(column).fill_null(0).to_numpy(zero_copy_only=False)


def _codes(column: Any) -> tuple[Numbers, Any]:  # noqa: ANN401 - As above.
    """For each value of a column the number of that value, -1 for null; and the values."""
    encoded = pc.dictionary_encode(whole_column(column))
    return encoded.indices.fill_null(-1).to_numpy(), encoded.dictionary


def _is(column: Any, value: str) -> Numbers:  # noqa: ANN401 - As above.
    return pc.equal(column, value).fill_null(False).to_numpy()


def lives(events: Events) -> tuple[set[int], Lives]:
    """The numbers of logs that are not plain, and the segments of all others."""
    rows, logs = events.rows, events.logs
    numbers, names = _codes(rows["type"])
    kinds = names.to_pylist()
    plain = np.array([name in PLAIN for name in kinds] or [True])
    odd = set[int](np.unique(logs[~plain[numbers]]).tolist())
    odd |= set(np.unique(logs[_is(rows["delete_state"], ALL_GONE)]).tolist())

    at = np.flatnonzero(np.isin(numbers, [kinds.index(one) for one in LIFE if one in kinds]))
    ids, count = _ids(rows["segment_id"], logs, at)
    states = states_of(rows["state"])
    is_added = numbers == (kinds.index(ADDED) if ADDED in kinds else -2)
    odd |= set(np.unique(logs[_against_the_rules(ids, at, states, is_added)]).tolist())

    added = _last_of(ids, at[is_added[at]], count)
    last = _last_of(ids, at, count)
    finished = _last_of(ids, at[(states[at] == FINISHED)], count)
    there = last >= 0
    there[there] &= states[last[there]] != GONE
    found = Lives(added[there], last[there], finished[there], at[is_added[at]])
    return odd, found.without(odd, logs)


def states_of(column: Any) -> Numbers:  # noqa: ANN401 - As above.
    """States by their numbers; -1 for none."""
    numbers, names = _codes(column)
    known = np.array([*(RemoteLogSegmentState[one] for one in names.to_pylist()), -1])
    return known[numbers]


def _against_the_rules(
    ids: Numbers, at: Numbers, states: Numbers, is_added: Numbers
) -> Numbers:
    """The rows of `at` with events that do not follow their segment's event before."""
    in_lives = at[np.argsort(ids[at], kind="stable")]
    before = np.where(ids[in_lives[1:]] == ids[in_lives[:-1]], states[in_lives[:-1]], NOTHING)
    before = np.concatenate([[NOTHING], before])[: len(in_lives)]
    follows = FOLLOWS[before, states[in_lives]] & (is_added[in_lives] == (before == NOTHING))
    return in_lives[~follows]


def _ids(column: Any, logs: Numbers, at: Numbers) -> tuple[Numbers, int]:  # noqa: ANN401 - As above.
    """Numbers of the segments that the rows `at` are of, and how many numbers there are."""
    ids, known = _codes(column)
    of_log = np.full(len(known), -1)
    of_log[ids[at]] = logs[at]
    if np.array_equal(of_log[ids[at]], logs[at]):
        return ids, len(known)
    # An id is in two logs, as in a topic that was copied.
    names, numbers = np.unique(ids * (logs[-1] + 1) + logs, return_inverse=True)
    return numbers, len(names)


def _last_of(ids: Numbers, at: Numbers, count: int) -> Numbers:
    """For each id the last of the rows `at` that is of it; -1 for none."""
    found = np.full(count, -1)
    found[ids[at]] = at  # Of several the last one stays.
    return found
