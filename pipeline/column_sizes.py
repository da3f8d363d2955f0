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
    changes,
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
    *("type", "delete_state"),
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

    def of_events(self, at: Numbers) -> _EpochEntries:
        """The leader epochs of the events `at` alone, one after another."""
        counts, begins = self.counts[at], self.begins[at]
        before = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(begins - before, counts)
        return _EpochEntries(before, counts, self.epochs[places], self.offsets[places])

    def in_logs(self, logs: Numbers) -> Numbers:
        """Each leader epoch as one number with its log, of which each event's is given."""
        return np.repeat(logs * EPOCHS, self.counts) + self.epochs


def sizes_of(events: Events) -> tuple[set[int], Any]:
    """The logs that the fold has to make, and the table of the others."""
    rows, logs = events.rows, events.logs
    states = states_of(rows["state"])
    odd, found = lives(events, states)
    entries = _EpochEntries.of(rows)
    start, end = integers(rows["start_offset"]), integers(rows["end_offset"])
    size = integers(rows["size_in_bytes"])
    of_ever = entries.of_events(found.ever)
    has_odd_epochs = _have_odd_epochs(of_ever, start[found.ever], end[found.ever])
    odd |= set(logs[found.ever[has_odd_epochs]].tolist())
    found = found.without(odd, logs)
    odd |= _with_odd_lineage(logs, _finished(found, states), entries, start, end)
    found = found.without(odd, logs)

    count = len(events.last_positions)
    if len(found.ever) < len(of_ever.counts):
        of_ever = entries.of_events(found.ever)
    in_logs_of = of_ever.in_logs(logs[found.ever])
    known = _distinct(in_logs_of)
    whole, of_epoch = _Sums(count), _Sums(len(known))
    added, state = found.added, states[found.last]
    whole.add(logs[added], state, size[added])
    counts = of_ever.counts[found.there]
    of_epoch.add(
        _places(known, in_logs_of[np.repeat(found.there, of_ever.counts)]),
        np.repeat(state, counts),
        np.repeat(size[added], counts),
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


def _distinct(values: Numbers) -> Numbers:
    """The values that there are, ascending; those of neighbours are mostly the same."""
    return np.unique(values[changes(values)])


def _places(known: Numbers, values: Numbers) -> Numbers:
    """The place of each value in `known`; those of neighbours are mostly the same."""
    begins = np.flatnonzero(changes(values))
    counts = np.diff(begins, append=len(values))
    return np.repeat(np.searchsorted(known, values[begins]), counts)


def _finished(found: Lives, states: Numbers) -> Numbers:
    """The events that added the segments that are finished."""
    return found.added[states[found.last] == FINISHED]


def _have_odd_epochs(entries: _EpochEntries, start: Numbers, end: Numbers) -> Numbers:
    """Which segments have leader epochs that do not begin with them, or do not ascend."""
    is_odd = entries.counts == 0
    some = ~is_odd
    first = entries.begins[some]
    last = first + entries.counts[some] - 1
    is_odd[some] = (entries.offsets[first] != start[some]) | (entries.offsets[last] > end[some])
    falls = np.zeros(len(entries.epochs), bool)
    for values in (entries.epochs, entries.offsets):
        falls[1:] |= values[1:] <= values[:-1]
    falls[first] = False  # Those of another segment are before it.
    owners = np.repeat(np.arange(len(is_odd)), entries.counts)
    is_odd[owners[falls]] = True
    return is_odd


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
        """Four columns of sums, with a row for each of these places and each state."""
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
