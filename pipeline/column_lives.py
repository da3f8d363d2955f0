"""What became of each segment, from columns of events of several logs.

Rule: only plain logs are looked at: each segment of them is added once, its states follow each
other as leaders let them, nothing was kept, and the partition was not deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition
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
    """An Arrow table, whose texts are numbers of values."""
    logs: Numbers
    """For each row the number of its log."""
    positions: Numbers
    """For each row its position."""
    tips: Sequence[TopicIdPartition]
    """The logs by their numbers."""
    cluster: str
    last_positions: Numbers
    """For each log its last position; -1 if it has no events."""

    def identity(self, logs: Numbers) -> list[Any]:
        """The columns of a table's identity, for rows of these logs."""
        of = pa.array(logs)
        topics = pa.array([tip.topic for tip in self.tips], pa.string())
        topic_ids = pa.array([str(tip.topic_id) for tip in self.tips], pa.string())
        partitions = pa.array([tip.partition for tip in self.tips], pa.int32())
        cluster = pa.repeat(pa.scalar(self.cluster), len(of))
        return [cluster, topics.take(of), topic_ids.take(of), partitions.take(of)]


class Lives(NamedTuple):
    """Each segment of plain logs that still is there, by rows of the events."""

    ever: Numbers
    """The rows of all events that added a segment, whatever became of it."""
    there: Numbers
    """Of each of them whether its segment still is there."""
    last: Numbers
    """The rows of the last events of those that are."""
    finished: Numbers
    """The rows of the last events that finished their copies; -1 if none did."""

    @property
    def added(self) -> Numbers:
        """The rows of the events that added them."""
        return self.ever[self.there]

    def without(self, odd: Collection[int], logs: Numbers) -> Lives:
        """The segments of all but the logs `odd`; `logs` has the number of each row's log."""
        if not odd:
            return self
        kept = ~in_logs(logs[self.ever], odd)
        of_those = kept[self.there]
        there = self.there[kept]
        return Lives(self.ever[kept], there, self.last[of_those], self.finished[of_those])


def in_logs(logs: Numbers, some: Iterable[int]) -> Numbers:
    """For each number of a log whether it is one of `some`."""
    return np.isin(logs, sorted(some))


def whole_column(column: Any) -> Any:  # noqa: ANN401 - Arrow has no types.
    """A column as one array."""
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def integers(column: Any) -> Numbers:  # noqa: ANN401 - As above.
    """A column of integers; where it is null, they may be any."""
    return _values(whole_column(column))


def _values(array: Any) -> Numbers:  # noqa: ANN401 - As above.
    buffers = [None, array.buffers()[1]]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, offset=array.offset
    ).to_numpy()


def changes(values: Numbers) -> Numbers:
    """For each value whether the one before it is another."""
    found = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def _codes(column: Any) -> tuple[Numbers, list[str]]:  # noqa: ANN401 - As above.
    """For each value of a column the number of that value, -1 for null; and the values."""
    coded = whole_column(column)
    return coded.indices.fill_null(-1).to_numpy(), coded.dictionary.to_pylist()


def _known(column: Any, number_of: Callable[[str], int], null: int) -> Numbers:  # noqa: ANN401 - As above.
    """What a column's values are, of which there are few."""
    codes, names = _codes(column)
    return np.array([*map(number_of, names), null], np.int8)[codes]


def lives(events: Events, states: Numbers) -> tuple[set[int], Lives]:
    """The numbers of logs that are not plain, and the segments of all others.

    `states` are those of the events.
    """
    rows, logs = events.rows, events.logs
    kinds = _known(rows["type"], _kind_of, _ODD)
    all_gone = _known(rows["delete_state"], ALL_GONE.__eq__, null=False)
    odd = _logs_at((kinds == _ODD) | (all_gone != 0), logs)

    at = np.flatnonzero((kinds == _ADDED) | (kinds == _UPDATED))
    ids = _values(whole_column(rows["segment_id"]).indices)
    at, is_first = _in_lives(ids, logs, at)
    target = states[at]
    before = np.roll(target, 1)
    before[is_first] = NOTHING
    follows = FOLLOWS[before, target] & ((kinds[at] == _ADDED) == is_first)
    odd |= _logs_at(~follows, logs[at])

    is_last = np.roll(is_first, -1)
    there = target[is_last] != GONE
    finished = np.full(len(there), -1)
    finishing = target == FINISHED
    # Of several the last one stays.
    finished[np.cumsum(is_first)[finishing] - 1] = at[finishing]
    found = Lives(at[is_first], there, at[is_last][there], finished[there])
    return odd, found.without(odd, logs)


_ADDED, _UPDATED, _OTHER, _ODD = range(4)


def _kind_of(name: str) -> int:
    known = {ADDED: _ADDED, UPDATED: _UPDATED}
    return known.get(name, _OTHER if name in PLAIN else _ODD)


def states_of(column: Any) -> Numbers:  # noqa: ANN401 - As above.
    """States by their numbers; -1 for none."""
    return _known(column, RemoteLogSegmentState.__getitem__, -1)


def _logs_at(some: Numbers, logs: Numbers) -> set[int]:
    return set(np.unique(logs[some]).tolist()) if some.any() else set()


def _in_lives(ids: Numbers, logs: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
    """The rows `at` by log and segment, in their order; and for each if a segment begins.

    An id may be in two logs, as in a topic that was copied.
    """
    # One number is sorted in a third of the time of an order by three.
    bits = len(ids).bit_length()
    assert 2 * bits + int(logs.max(initial=0)).bit_length() < 64, "so few events are in memory"
    keys = logs[at]
    for low in (ids[at], at):
        keys <<= bits
        keys |= low
    if (keys[1:] < keys[:-1]).any():
        keys.sort()
        at = keys & ((1 << bits) - 1)
    keys >>= bits
    return at, changes(keys)
