"""`coverage`: the rows that `rules` makes for each partition, as a table with a digest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.digests import Digest, Least
from tierledger.pipeline.jobs.coverage.rules import (
    FINDINGS,
    IDS_MAX,
    CoverageKind,
    CoverageRow,
    coverage_of,
)
from tierledger.pipeline.table_columns import (
    BIGINT,
    INT,
    STRING,
    STRINGS,
    Column,
    PlainRow,
    Table,
    TableRows,
    id_texts,
)


class _Coverage(TableRows):
    @override
    def rows(self, state: PartitionState) -> Iterator[CoverageRow]:
        return coverage_of(state)


def _id_lists(lists: Sequence[Sequence[bytes]]) -> list[list[str | None]]:
    flat = iter(id_texts([one for ids in lists for one in ids]))
    return [list(islice(flat, len(ids))) for ids in lists]


COVERAGE = Table(
    "coverage",
    "which offsets of each partition's log the tier holds: once, twice, or not",
    (
        Column("kind", STRING, "kind of the range of offsets, as listed above"),
        Column(
            "leader_epoch",
            INT,
            "leader epoch of the range's offsets; of the first of them if they span several",
        ),
        Column("start_offset", BIGINT, "first offset of the range"),
        Column("end_offset", BIGINT, "last offset of the range, inclusive"),
        Column("segments", BIGINT, "number of segments that hold some of the range's offsets"),
        Column(
            "size_in_bytes",
            BIGINT,
            "bytes of the range's offsets, by their share of each segment; of an overlap, "
            "only the bytes beyond the largest copy",
        ),
        Column(
            "segment_ids",
            STRINGS,
            f"ids of these segments, at most {IDS_MAX}; empty if `covered`",
            False,
            _id_lists,
        ),
        Column(
            "detail",
            STRING,
            "if `unfinished`, the segment's state; else null",
            is_nullable=True,
        ),
    ),
    _Coverage,
)


class Totals(NamedTuple):
    """Totals of one kind."""

    rows: int = 0
    offsets: int = 0
    size: int = 0

    def with_more(self, rows: int, offsets: int, size: int) -> Totals:
        return Totals(self.rows + rows, self.offsets + offsets, self.size + size)


class Strip(NamedTuple):
    """A partition, as the HTML page draws it."""

    topic: str
    topic_id: str
    partition: int
    offsets: dict[str, int]
    """Number of offsets by kind."""
    rows: list[PlainRow]

    @property
    def place(self) -> tuple[object, ...]:
        """Sort key: partitions with the most offsets in faulty kinds come first."""
        worst = (-self.offsets.get(kind, 0) for kind in ("hole", "orphaned_epoch", "overlap"))
        return (*worst, self.topic, self.topic_id, self.partition)


class CoverageDigest(Digest):
    """Totals by kind, the worst findings, and the partitions that a page draws."""

    def __init__(self, findings_max: int, strips_max: int, rows_max: int) -> None:
        """Keep that many findings, partitions, and rows of all these partitions together."""
        self.totals = {str(kind): Totals() for kind in CoverageKind}
        self.partitions = 0
        """Number of partitions with segments."""
        self._worst: Least[PlainRow] = Least(findings_max, _badness)
        self._strips: list[Strip] = []
        self._strips_max = strips_max
        self._rows_max = rows_max

    @override
    def take(self, row: PlainRow) -> None:
        kind, offsets = row["kind"], _offsets(row)
        self.totals[kind] = self.totals[kind].with_more(1, offsets, row["size_in_bytes"])
        if kind in FINDINGS:
            self._worst.add(row)
        strip = self._strips[-1] if self._strips else None
        key = (row["topic_id"], row["partition"])
        if strip is None or (strip.topic_id, strip.partition) != key:
            self.partitions += 1
            if len(self._strips) > 2 * self._strips_max:
                self._strips = self.strips()
            strip = Strip(row["topic"], *key, {}, [])
            self._strips.append(strip)
        strip.offsets[kind] = strip.offsets.get(kind, 0) + offsets
        if len(strip.rows) < self._rows_max:
            strip.rows.append(row)

    @override
    def join(self, other: CoverageDigest) -> None:
        for kind, more in other.totals.items():
            self.totals[kind] = self.totals[kind].with_more(*more)
        self.partitions += other.partitions
        self._worst.add(*other.worst())
        self._strips += other.strips()
        self._strips = self.strips()

    def worst(self) -> list[PlainRow]:
        """The worst findings: holes before orphans, the longest first."""
        return self._worst.ascending()

    def strips(self) -> list[Strip]:
        """The worst partitions, worst first; only the first have rows, `rows_max` in all."""
        kept = sorted(self._strips, key=attrgetter("place"))[: self._strips_max]
        left = self._rows_max
        for at, one in enumerate(kept):
            kept[at] = one._replace(rows=one.rows[:left])
            left -= len(kept[at].rows)
        return kept


def _offsets(row: PlainRow) -> int:
    return int(row["end_offset"] - row["start_offset"] + 1)


def _badness(row: PlainRow) -> tuple[object, ...]:
    where = (row["topic"], row["topic_id"], row["partition"], row["start_offset"])
    return (row["kind"], -_offsets(row), *where, row["leader_epoch"])
