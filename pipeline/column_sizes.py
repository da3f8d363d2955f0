"""The table `sizes`, made of columns.

Beyond what `column_lives` asks of a log, the leader epochs of each segment have to begin with
the segment and to follow each other, and the finished segments have to be one unbroken log: so
each of them is of the lineage, and counts in its newest epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.pipeline.column_lives import (
    FINISHED,
    Events,
    Lives,
    Numbers,
    in_logs,
    integers,
    lives,
    states_of,
    whole_column,
)
from tierledger.pipeline.tables.arrow import schema_of
from tierledger.pipeline.tables.sizes import KEPT_STATES, SIZES

EPOCHS = 1 << 31
"""How many leader epochs there may be."""

NEEDED = [
    *("segment_id", "state", "start_offset", "end_offset", "leader_epochs", "size_in_bytes"),
    *("position", "log_time_ms", "type", "delete_state"),
]


class _EpochEntries(NamedTuple):
    """The leader epochs of all events: of event n those at `begins[n]`, `counts[n]` of them."""

    begins: Numbers
    counts: Numbers
    epochs: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, rows: Any) -> _EpochEntries:  # noqa: ANN401 - Arrow has no types.
        maps = whole_column(rows["leader_epochs"])
        begins = maps.offsets.to_numpy().astype(np.int64)
        return cls(begins[:-1], np.diff(begins), maps.keys.to_numpy(), maps.items.to_numpy())

    def of_events(self, at: Numbers) -> Numbers:
        """The places of what the events `at` have, one event after another."""
        counts = self.counts[at]
        before = np.cumsum(counts) - counts
        return np.arange(counts.sum()) + np.repeat(self.begins[at] - before, counts)


def sizes_of(events: Events) -> tuple[set[int], Any]:
    """The logs that the fold has to make, and the table of the others."""
    rows, logs = events.rows, events.logs
    states = states_of(rows["state"])
    odd, found = lives(events, states)
    entries = _EpochEntries.of(rows)
    start, end = integers(rows["start_offset"]), integers(rows["end_offset"])
    size = integers(rows["size_in_bytes"])
    odd |= _with_odd_epochs(logs, found.ever, entries, start, end)
    found = found.without(odd, logs)
    odd |= _with_odd_lineage(logs, _finished(found, states), entries, start, end)
    found = found.without(odd, logs)

    count = len(events.last_positions)
    known = _distinct(_epochs_at(logs, entries, found.ever))
    whole, of_epoch = _Sums(count), _Sums(len(known))
    state = states[found.last]
    whole.add(logs[found.last], state, size[found.added])
    counts = entries.counts[found.added]
    of_epoch.add(
        _places(known, _epochs_at(logs, entries, found.added)),
        np.repeat(state, counts),
        np.repeat(size[found.added], counts),
    )
    finished = _finished(found, states)
    newest = entries.epochs[entries.begins[finished] + entries.counts[finished] - 1]
    kept = np.maximum(size[finished], 0)
    whole.hold(logs[finished], kept)
    of_epoch.hold(_places(known, logs[finished] * EPOCHS + newest), kept)

    plain = (events.last_positions >= 0) & ~in_logs(np.arange(count), odd)
    there = np.flatnonzero(plain)
    return odd, _table(
        events, there, known, whole.of(there), of_epoch.of(np.arange(len(known)))
    )


def _epochs_at(logs: Numbers, entries: _EpochEntries, at: Numbers) -> Numbers:
    """The leader epochs of the events `at`, each as one number with its log."""
    of_log = np.repeat(logs[at], entries.counts[at])
    return of_log * EPOCHS + entries.epochs[entries.of_events(at)]


def _distinct(values: Numbers) -> Numbers:
    """The values that there are, ascending; those of neighbours are mostly the same."""
    return np.unique(values[np.flatnonzero(np.diff(values, prepend=-1))])


def _places(known: Numbers, values: Numbers) -> Numbers:
    """The place of each value in `known`; those of neighbours are mostly the same."""
    begins = np.flatnonzero(np.diff(values, prepend=-1))
    counts = np.diff(begins, append=len(values))
    return np.repeat(np.searchsorted(known, values[begins]), counts)


def _finished(found: Lives, states: Numbers) -> Numbers:
    """The events that added the segments that are finished."""
    return found.added[states[found.last] == FINISHED]


def _with_odd_epochs(
    logs: Numbers, ever: Numbers, entries: _EpochEntries, start: Numbers, end: Numbers
) -> set[int]:
    """Logs with a segment whose leader epochs do not begin with it, or do not ascend."""
    counts = entries.counts[ever]
    is_odd = counts == 0
    some = ever[~is_odd]
    first = entries.begins[some]
    last = first + entries.counts[some] - 1
    is_odd[~is_odd] = (entries.offsets[first] != start[some]) | (
        entries.offsets[last] > end[some]
    )
    at, owner = entries.of_events(ever), np.repeat(np.arange(len(ever)), counts)
    epochs, offsets = entries.epochs[at], entries.offsets[at]
    falls = (epochs[1:] <= epochs[:-1]) | (offsets[1:] <= offsets[:-1])
    is_odd[owner[1:][falls & (owner[1:] == owner[:-1])]] = True
    return set(logs[ever[is_odd]].tolist())


def _with_odd_lineage(
    logs: Numbers, finished: Numbers, entries: _EpochEntries, start: Numbers, end: Numbers
) -> set[int]:
    """Logs whose finished segments do not follow each other without holes and overlaps."""
    at = finished
    if ((np.diff(start[at]) < 0) & (np.diff(logs[at]) == 0)).any():
        at = at[np.lexsort((start[at], logs[at]))]
    first = entries.epochs[entries.begins[at]]
    last = entries.epochs[entries.begins[at] + entries.counts[at] - 1]
    breaks = (start[at[1:]] != end[at[:-1]] + 1) | (first[1:] < last[:-1])
    return set(logs[at[1:][breaks & (logs[at[1:]] == logs[at[:-1]])]].tolist())


class _Sums:
    """Segments and bytes by place and state, and those of the lineage by place."""

    def __init__(self, places: int) -> None:
        self._sums = np.zeros((4, places * len(KEPT_STATES)), np.int64)

    def add(self, places: Numbers, states: Numbers, sizes: Numbers) -> None:
        self._sum(0, places * len(KEPT_STATES) + states, sizes)

    def hold(self, places: Numbers, sizes: Numbers) -> None:
        self._sum(2, places * len(KEPT_STATES) + FINISHED, sizes)

    def _sum(self, first: int, at: Numbers, sizes: Numbers) -> None:
        self._sums[first] += np.bincount(at, minlength=self._sums.shape[1])
        # As integers, as sums of bytes have no bound.
        np.add.at(self._sums[first + 1], at, sizes)

    def of(self, places: Numbers) -> Numbers:
        """Of these places: four columns, with a row for each place and state."""
        return self._sums.reshape(4, -1, len(KEPT_STATES))[:, places].reshape(4, -1)


def _table(
    events: Events, there: Numbers, known: Numbers, whole: Numbers, of_epoch: Numbers
) -> Any:  # noqa: ANN401 - As above.
    schema, states = schema_of(SIZES), len(KEPT_STATES)
    logs = np.repeat(np.concatenate([there, known // EPOCHS]), states)
    epochs = np.repeat(np.concatenate([np.full(len(there), -1), known % EPOCHS]), states)
    state = np.tile(np.arange(states), len(there) + len(known))
    order = np.lexsort((state, epochs, logs))
    sums = np.concatenate([whole, of_epoch], axis=1)[:, order]
    names = pa.array([RemoteLogSegmentState(one).name for one in KEPT_STATES])
    arrays: Sequence[Any] = [
        *events.identity(logs[order]),
        pa.array(epochs[order], mask=epochs[order] < 0),
        names.take(pa.array(state[order])),
        *map(pa.array, sums),
    ]
    cast = [one.cast(field.type) for one, field in zip(arrays, schema, strict=True)]
    return pa.table(cast, schema)
