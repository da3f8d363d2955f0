"""Which offsets of a partition's log the tier holds: once, twice, or not.

This is the only definition of holes, overlaps and orphans, for the job `coverage` and reports.

The rules go by the log that a leader serves: its `history`, from the first offset that a
finished segment holds of it to the last. An offset is covered if a finished segment holds it in
the leader epoch that it has in this history.

Normal gaps are no holes: a tier that starts late because of retention, epochs without records,
and offsets that are not copied yet. A partition that is being deleted has no holes or orphans.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.answers import OFFSET_MAX
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import END, ID, SIZE, START, STATE, unpack_row
from tierledger.events.vocabulary import findings
from tierledger.pipeline.jobs.coverage.history import EpochPiece, Held, ends_of
from tierledger.pipeline.tables.lineage import epochs_of

IDS_MAX = 100
"""Segment ids in one row, at most; `segments` counts all."""

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class CoverageKind(StrEnum):
    """The kind of a range of offsets."""

    COVERED = "covered"
    """Finished segments of the log hold each of these offsets; one row for each leader epoch
    and unbroken range."""
    HOLE = "hole"
    """No finished segment of the log holds them, though some hold offsets before and behind:
    a consumer that gets there fails."""
    ORPHANED_EPOCH = "orphaned_epoch"
    """Finished segments hold them in a leader epoch that the log does not have there. Their
    leader's records were lost in an unclean election: nobody reads them, and retention by time
    or size never deletes them."""
    RECOVERED = "recovered"
    """Finished segments of an imported log hold them before all that Kafka's own manager lists:
    it lost these segments, so that retention passed them by."""
    OVERLAP = "overlap"
    """More than one finished segment holds them, as after a change of leader. It costs storage
    and loses no record."""
    UNFINISHED = "unfinished"
    """One segment that is being copied or deleted, or was left so by a broker that died."""


FINDINGS = tuple(map(CoverageKind, findings(CoverageKind)))
"""The kinds that are faults."""


class CoverageRow(NamedTuple):
    """A range of offsets of one kind, both ends inclusive."""

    kind: CoverageKind
    leader_epoch: int
    start_offset: int
    end_offset: int
    segments: int
    size_in_bytes: int
    segment_ids: list[bytes]
    detail: str | None


def coverage_of(state: PartitionState) -> Iterator[CoverageRow]:
    """The rows of a partition. Within a kind and epoch, offsets ascend."""
    yield from _unfinished(state)
    held = Held(state.rows)
    history = held.history()
    parts = list(_of_the_log(held, history))
    begin = _begin([one for _, pieces in parts for one in pieces], state)
    covered: list[tuple[int, int]] = []
    left_over: list[tuple[int, list[EpochPiece]]] = []
    for epoch, pieces in parts:
        left_over.append((epoch, [one for one in pieces if one.end < begin]))
        kept = [one for one in pieces if one.end >= begin]
        for start, end, some in _runs(kept):
            covered.append((start, end))
            yield _row(CoverageKind.COVERED, epoch, start, end, some, _shares(some), ids=())
        yield from _overlaps(epoch, kept)
    if state.delete is None:
        yield from _holes(history, covered)
        yield from _beside(CoverageKind.ORPHANED_EPOCH, _outside(held, history))
        yield from _beside(CoverageKind.RECOVERED, left_over)


def _of_the_log(held: Held, history: dict[int, int]) -> Iterator[tuple[int, list[EpochPiece]]]:
    """By leader epoch, the pieces of finished segments inside the log's history; ascending."""
    ends = ends_of(history)
    for epoch, first in history.items():
        cut = (one.cut(first, ends[epoch]) for one in held.pieces[epoch])
        yield epoch, sorted(one for one in cut if one.start <= one.end)


def _begin(pieces: Sequence[EpochPiece], state: PartitionState) -> int:
    """The offset at which the tier's regular part begins; segments before it are left over.

    Retention deletes from the log's start, but only the segments that Kafka's own manager
    lists: those that it lost stay. So in an imported log, the first unbroken ranges are left
    over if they have lost segments only, and the gap behind them is no hole.
    """
    runs = list(_runs(pieces))
    if not runs:
        return 0
    if not state.imported:
        return runs[0][0]
    return next(
        (start for start, _, some in runs if not all(one.is_lost for one in some)), runs[-1][0]
    )


def _row(
    kind: CoverageKind,
    epoch: int,
    start: int,
    end: int,
    pieces: Sequence[EpochPiece],
    size: int,
    ids: Iterable[bytes] | None = None,
) -> CoverageRow:
    if ids is None:
        ids = sorted(one.segment_id for one in pieces)
    some = list(ids)[:IDS_MAX]
    return CoverageRow(kind, epoch, start, end, len(pieces), size, some, None)


def _runs(pieces: Sequence[EpochPiece]) -> Iterator[tuple[int, int, list[EpochPiece]]]:
    """Unbroken ranges of `pieces`, which ascend: start, end, and the range's pieces."""
    some: list[EpochPiece] = []
    reach = 0
    for piece in pieces:
        if some and piece.start > reach + 1:
            yield some[0].start, reach, some
            some = []
        reach = piece.end if not some else max(reach, piece.end)
        some.append(piece)
    if some:
        yield some[0].start, reach, some


def _shares(pieces: Iterable[EpochPiece]) -> int:
    """Bytes of `pieces`: of each segment's size, the piece's share of its offsets."""
    return sum(one.size * (one.end - one.start + 1) // one.offsets for one in pieces)


def _overlaps(epoch: int, pieces: Sequence[EpochPiece]) -> Iterator[CoverageRow]:
    """Ranges held by several of `pieces`, which ascend, with the bytes beyond the largest."""
    run: dict[bytes, EpochPiece] = {}
    start = end = 0
    cost = Fraction(0)
    for first, last, holders in _held_twice(pieces):
        if run and first > end + 1:
            yield _row(CoverageKind.OVERLAP, epoch, start, end, list(run.values()), int(cost))
            run, cost = {}, Fraction(0)
        start = first if not run else start
        end = last
        run |= {one.segment_id: one for one in holders}
        densities = [Fraction(one.size, one.offsets) for one in holders]
        cost += (sum(densities) - max(densities)) * (last - first + 1)
    if run:
        yield _row(CoverageKind.OVERLAP, epoch, start, end, list(run.values()), int(cost))


def _held_twice(pieces: Sequence[EpochPiece]) -> Iterator[tuple[int, int, list[EpochPiece]]]:
    """Ascending ranges that the same two or more pieces hold, with these pieces."""
    active: list[tuple[int, int]] = []
    at = since = 0
    while at < len(pieces) or active:
        starts = pieces[at].start if at < len(pieces) else OFFSET_MAX + 1
        ends = active[0][0] + 1 if active else OFFSET_MAX + 1
        edge = min(starts, ends)
        if len(active) > 1 and edge > since:
            yield since, edge - 1, [pieces[number] for _, number in active]
        since = edge
        while active and active[0][0] < edge:
            heapq.heappop(active)
        while at < len(pieces) and pieces[at].start == edge:
            heapq.heappush(active, (pieces[at].end, at))
            at += 1


def _holes(
    history: dict[int, int], covered: Sequence[tuple[int, int]]
) -> Iterator[CoverageRow]:
    """The gaps between the ranges of `covered`, which ascend; split where epochs begin."""
    epochs, starts = list(history), list(history.values())
    for (_, before), (after, _) in pairwise(covered):
        start = before + 1
        while start < after:
            at = bisect_right(starts, start) - 1
            following = starts[at + 1] if at + 1 < len(starts) else after
            end = min(after, following) - 1
            yield _row(CoverageKind.HOLE, epochs[at], start, end, (), 0)
            start = end + 1


def _outside(held: Held, history: dict[int, int]) -> Iterator[tuple[int, list[EpochPiece]]]:
    """By leader epoch, the pieces of finished segments outside the log's history."""
    ends = ends_of(history)
    for epoch in sorted(held.pieces):
        pieces = held.pieces[epoch]
        if epoch in history:
            first, last = history[epoch], ends[epoch]
            cut = [
                part
                for one in pieces
                for part in (one.cut(one.start, first - 1), one.cut(last + 1, one.end))
            ]
            pieces = sorted(one for one in cut if one.start <= one.end)
        yield epoch, pieces


def _beside(
    kind: CoverageKind, parts: Iterable[tuple[int, list[EpochPiece]]]
) -> Iterator[CoverageRow]:
    """Ranges of `kind`, which are no part of what the log covers."""
    for epoch, pieces in parts:
        for start, end, some in _runs(pieces):
            yield _row(kind, epoch, start, end, some, _shares(some))


def _unfinished(state: PartitionState) -> Iterator[CoverageRow]:
    for fields in map(unpack_row, state.rows):
        if fields[STATE] == _FINISHED:
            continue
        epochs, size = epochs_of(fields), max(0, fields[SIZE])
        detail = RemoteLogSegmentState(fields[STATE]).name
        yield CoverageRow(
            CoverageKind.UNFINISHED,
            min(epochs),
            fields[START],
            fields[END],
            1,
            size,
            [fields[ID]],
            detail,
        )
