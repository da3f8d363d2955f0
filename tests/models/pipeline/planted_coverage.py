"""Planted segments, and their coverage as computed offset by offset.

`by_offset` follows the definitions only: it has no ranges, no searches and no code of the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.models.storage.stored_partitions import StoredPartition, segment_id
from tierledger.events import log_events as log
from tierledger.events.identifiers import Uuid
from tierledger.events.tables.segment_rows import LOST, unpack_row

COPYING, FINISHED, DELETING, DELETED = range(4)


class Segment(NamedTuple):
    """A segment as a test describes it."""

    number: int
    end: int
    epochs: Mapping[int, int]
    state: int = FINISHED
    size: int = 1000

    @property
    def text(self) -> str:
        return str(Uuid(segment_id(self.number)))


def bodies(segments: Iterable[Segment]) -> list[log.Body]:
    """The events that bring each segment into its state."""
    made: list[log.Body] = []
    for one in segments:
        flat = tuple(number for pair in sorted(one.epochs.items()) for number in pair)
        start = max(0, min(one.epochs.values()))
        made.append(
            log.SegmentAdded(
                segment_id(one.number), start, one.end, flat, one.size, 5, 1, 5, None, False
            )
        )
        made += [
            log.SegmentUpdated(segment_id(one.number), state, 2, 6, None)
            for state in range(1, one.state + 1)
        ]
    return made


class Range(NamedTuple):
    """A row of the job, without its partition."""

    kind: str
    epoch: int
    start: int
    end: int
    segments: int
    size: int
    ids: tuple[str, ...]
    detail: str | None = None


def ranges(rows: Iterable[Mapping[str, Any]]) -> list[Range]:
    """The job's rows of one partition, sorted so that they can be compared."""
    return sorted(
        (
            Range(
                row["kind"],
                row["leader_epoch"],
                row["start_offset"],
                row["end_offset"],
                row["segments"],
                row["size_in_bytes"],
                tuple(row["segment_ids"]),
                row["detail"],
            )
            for row in rows
        ),
        key=str,
    )


class _Finished(NamedTuple):
    """A finished segment, offset by offset."""

    text: str
    size: int
    epoch_at: dict[int, int]
    is_lost: bool


def by_offset(partition: StoredPartition) -> list[Range]:
    """The rows that the job must return for a partition with a possible history."""
    found: list[Range] = []
    finished: list[_Finished] = []
    for fields in map(unpack_row, partition.state.rows):
        text, flat = str(Uuid(fields[0])), fields[4]
        epochs = dict(zip(flat[::3], flat[1::3], strict=True))
        if fields[1] != FINISHED:
            state = "COPY_SEGMENT_STARTED" if fields[1] == COPYING else "DELETE_SEGMENT_STARTED"
            lowest = min(_epoch_at(epochs, fields[2], fields[3]).values())
            found.append(
                Range("unfinished", lowest, fields[2], fields[3], 1, fields[5], (text,), state)
            )
            continue
        at = _epoch_at(epochs, fields[2], fields[3])
        lost = all(placed == LOST for placed in flat[2::3])
        finished.append(_Finished(text, fields[5], at, lost))
    found += _of_finished(finished, bool(partition.state.imported), partition.state.delete)
    return sorted(found, key=str)


def _epoch_at(epochs: Mapping[int, int], start: int, end: int) -> dict[int, int]:
    at: dict[int, int] = {}
    for epoch, first in sorted(epochs.items()):
        for offset in range(max(first, start), end + 1):
            at[offset] = epoch
    return at


def _of_finished(
    finished: Sequence[_Finished], imported: bool, delete: object | None
) -> list[Range]:
    log_epoch = _history(finished)
    holders: dict[tuple[int, int], list[_Finished]] = defaultdict(list)
    for one in finished:
        for offset, epoch in one.epoch_at.items():
            holders[epoch, offset].append(one)
    inside = {offset for epoch, offset in holders if log_epoch.get(offset) == epoch}
    begin = min(inside, default=0)
    if imported:
        begin = _kept_from(inside, holders, log_epoch)
    held = {(log_epoch[offset], offset) for offset in inside if offset >= begin}
    left = {(log_epoch[offset], offset) for offset in inside if offset < begin}
    covered = {offset for _, offset in held}
    found = _grouped("covered", held, holders, has_ids=False)
    twice = {at for at in held if len(holders[at]) > 1}
    found += _grouped("overlap", twice, holders, costs=_beyond_the_largest)
    if delete is not None:
        return found
    missing = {
        (log_epoch[offset], offset)
        for offset in range(begin, max(covered, default=begin))
        if offset not in covered
    }
    found += _grouped("hole", missing, holders)
    outside = {at for at in holders if log_epoch.get(at[1]) != at[0]}
    found += _grouped("orphaned_epoch", outside, holders)
    return found + _grouped("recovered", left, holders)


def _history(finished: Sequence[_Finished]) -> dict[int, int]:
    """The leader epoch of each offset of the log, from the newest offset down, one by one."""
    if not finished:
        return {}
    last = {one.text: max(one.epoch_at.values()) for one in finished}
    newest = max(finished, key=lambda one: (last[one.text], max(one.epoch_at)))
    epoch, offset = last[newest.text], max(newest.epoch_at)
    offsets_of: dict[int, set[int]] = defaultdict(set)
    for one in finished:
        for at, of in one.epoch_at.items():
            offsets_of[of].add(at)
    walked: dict[int, int] = {}
    while True:
        first = min(offsets_of[epoch])
        while offset >= first:
            walked[offset] = epoch
            offset -= 1
        before = {
            one.epoch_at[offset]
            for one in finished
            if one.epoch_at.get(first) == epoch and offset in one.epoch_at
        }
        older = [one for one in offsets_of if one < epoch]
        touching = [one for one in older if offset in offsets_of[one]]
        below = [one for one in older if min(offsets_of[one]) <= offset]
        candidates = before or touching or below
        if not candidates:
            return walked
        epoch = max(candidates)


def _kept_from(
    inside: set[int],
    holders: Mapping[tuple[int, int], Sequence[_Finished]],
    log_epoch: Mapping[int, int],
) -> int:
    """The start of the first unbroken range that has a segment which Kafka has not lost."""
    begin = 0
    for offset in sorted(inside):
        if offset - 1 not in inside:
            begin = offset
        if any(not one.is_lost for one in holders[log_epoch[offset], offset]):
            return begin
    return begin


def _all_of_it(some: Sequence[Fraction]) -> Fraction:
    return sum(some, Fraction(0))


def _beyond_the_largest(some: Sequence[Fraction]) -> Fraction:
    return sum(some, Fraction(0)) - max(some)


def _grouped(
    kind: str,
    at: set[tuple[int, int]],
    holders: Mapping[tuple[int, int], Sequence[_Finished]],
    *,
    has_ids: bool = True,
    costs: Callable[[Sequence[Fraction]], Fraction] | None = None,
) -> list[Range]:
    groups: list[list[tuple[int, int]]] = []
    for epoch, offset in sorted(at):
        if groups and groups[-1][-1] == (epoch, offset - 1):
            groups[-1].append((epoch, offset))
        else:
            groups.append([(epoch, offset)])
    found = []
    for group in groups:
        shares: dict[str, Fraction] = defaultdict(Fraction)
        cost = Fraction(0)
        for place in group:
            each = [Fraction(one.size, len(one.epoch_at)) for one in holders.get(place, ())]
            for one, share in zip(holders.get(place, ()), each, strict=True):
                shares[one.text] += share
            cost += _all_of_it(each) if costs is None else costs(each)
        size = sum(int(share) for share in shares.values()) if costs is None else int(cost)
        ids = tuple(sorted(shares, key=lambda one: bytes(Uuid.parse(one)))) if has_ids else ()
        (epoch, start), (_, end) = group[0], group[-1]
        found.append(Range(kind, epoch, start, end, len(shares), size, ids[:100]))
    return found
