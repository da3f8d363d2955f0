"""The rows of an audit and their digest, for either engine.

An engine brings together, as evidence, what the logs and the list tell about each segment id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from typing_extensions import override

from tierledger.pipeline.digests import Digest, Least
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.inventory import ListingTotals, Seen
from tierledger.pipeline.jobs.audit.kinds import (
    DELETED,
    FINDINGS,
    LISTED,
    AuditKind,
    FoundObjects,
    KnownSegment,
    LogStanding,
    verdicts,
)
from tierledger.pipeline.jobs.audit.segments import LogKey
from tierledger.pipeline.table_columns import (
    BIGINT,
    IDENTITY,
    STRING,
    Column,
    PlainRow,
    Table,
    TableRows,
)
from tierledger.tiering.layouts.listed_objects import ExpectedObject
from tierledger.tiering.objects.directory import Unseen

if TYPE_CHECKING:
    from tierledger.tiering.layouts.listed_objects import LayoutNames

NOT_THIS_TIERS: Final = "not called as this tier's objects are"
"""The detail of a foreign object's row."""


class SegmentKey(NamedTuple):
    """Identifies a segment in the logs, in the tier, or in both."""

    topic_id: str
    partition: int
    segment_id: str


class Evidence(NamedTuple):
    """What a log, or one object, tells about a segment."""

    key: SegmentKey | None
    """None for an object whose name is not this tier's."""
    topic: str | None = None
    known: KnownSegment | None = None
    """The segment, if a log tells; else there is an object."""
    role: str = ""
    place: str = ""
    is_below_prefix: bool = False
    seen: Seen = Seen(None, None, None)


def told_by_log(row: PlainRow) -> Evidence:
    """What a row of `segments_table` tells, if it is about a segment."""
    key = SegmentKey(row["topic_id"], row["partition"], row["segment_id"])
    return Evidence(key, row["topic"], known_segment(row))


def known_segment(row: PlainRow) -> KnownSegment:
    """The segment in a row of `segments_table`."""
    known = KnownSegment(*(row[name] for name in KnownSegment._fields))
    return known._replace(others=[ExpectedObject(**one) for one in row["others"] or ()])


def told_by_object(seen: Seen, names: LayoutNames) -> Evidence:
    parsed = None if seen.path is None else names.parse(seen.path)
    if parsed is None:
        return Evidence(None, seen=seen)
    key = SegmentKey(str(parsed.topic_id), parsed.partition, str(parsed.segment_id))
    return Evidence(key, None, None, parsed.role, parsed.place, parsed.is_below_prefix, seen)


def _not_folded() -> TableRows:
    raise AssertionError("the rows are judged, not folded")


FOUND: Final = Table(
    "audit",
    "every segment and every object of the tier, each in one row of its kind",
    (
        Column("kind", STRING, "kind of the segment or of its objects, as listed above"),
        Column(
            "segment_id",
            STRING,
            "id of the segment, 22 characters; null if the object's name has none",
            True,
        ),
        Column(
            "place",
            STRING,
            "prefix of the names of the segment's objects; without `segment_id`, the "
            "object's whole name",
            True,
        ),
        Column("objects", BIGINT, "number of objects that were found"),
        Column("size_in_bytes", BIGINT, "bytes of the objects that were found"),
        Column(
            "expected_bytes",
            BIGINT,
            "if the segment is finished, bytes of all its objects; of its log only, if the "
            "sum of all is not known; else null",
            True,
        ),
        Column(
            "last_modified_ms",
            BIGINT,
            "time when the newest of the found objects was written, ms since 1970; null if "
            "unknown",
            True,
        ),
        Column("detail", STRING, "reason for this kind, in words; may be empty"),
    ),
    _not_folded,
    (IDENTITY[0], *(one._replace(is_nullable=True) for one in IDENTITY[1:])),
)
"""The audit's table. Of a foreign object's identity only the cluster is known."""


class Judge:
    """Makes the rows of `FOUND` for each segment id."""

    def __init__(
        self,
        cluster: str,
        standings: Mapping[LogKey, LogStanding],
        orphans_before_ms: int,
        unseen: Sequence[Unseen],
    ) -> None:
        """`standings` has the partitions of the store, `unseen` what the list lacks."""
        self._cluster = cluster
        self._standings = standings
        self._before_ms = orphans_before_ms
        self._unseen = unseen

    def rows(self, evidence: Iterable[Evidence]) -> Iterator[PlainRow]:
        """The rows of all evidence; those of one segment id follow one another."""
        for key, some in groupby(evidence, attrgetter("key")):
            if key is None:
                yield from map(self._foreign, some)
            else:
                yield from self._judged(key, some)

    def _judged(self, key: SegmentKey, evidence: Iterable[Evidence]) -> Iterator[PlainRow]:
        topic: str | None = None
        known: KnownSegment | None = None
        places: defaultdict[tuple[str, bool], list[Evidence]] = defaultdict(list)
        for one in evidence:
            if one.known is None:
                places[one.place, one.is_below_prefix].append(one)
                continue
            topic = max(one.topic or "", topic or "")
            # An imported log may have added a segment again after deleting it.
            if known is None or one.known.state != DELETED:
                known = one.known
        found = [_found(*place, places[place]) for place in sorted(places)]
        standing = self._standings.get(LogKey(*key[:2]), LogStanding.UNKNOWN)
        for verdict in verdicts(known, found, standing, self._before_ms, self._unseen):
            yield {
                "cluster": self._cluster,
                "topic": topic,
                **key._asdict(),
                **verdict._asdict(),
                "kind": verdict.kind.value,
            }

    def _foreign(self, one: Evidence) -> PlainRow:
        return {
            **dict.fromkeys(one.name for one in (*FOUND.identity, *FOUND.columns)),
            "cluster": self._cluster,
            "kind": AuditKind.FOREIGN.value,
            "place": one.seen.path,
            "objects": 1,
            "size_in_bytes": one.seen.size,
            "last_modified_ms": one.seen.last_modified_ms,
            "detail": NOT_THIS_TIERS,
        }


def _found(place: str, is_below_prefix: bool, evidence: Sequence[Evidence]) -> FoundObjects:
    sizes = sorted((one.role, one.seen.size or 0) for one in evidence)
    times = [one.seen.last_modified_ms for one in evidence]
    known = [time for time in times if time is not None]
    newest = max(known) if len(known) == len(times) else None
    total = sum(size for _, size in sizes)
    return FoundObjects(place, is_below_prefix, len(evidence), total, sizes, newest)


class KindTotal(NamedTuple):
    """Totals of one kind."""

    rows: int = 0
    objects: int = 0
    size_in_bytes: int = 0
    expected_bytes: int = 0
    """As far as it is known."""

    def with_more(self, other: KindTotal) -> KindTotal:
        return KindTotal(*map(sum, zip(self, other, strict=True)))


class PartitionTotals(NamedTuple):
    """Totals of a partition, of those kinds that it has."""

    topic: str
    """Empty if no log names it."""
    topic_id: str | None
    partition: int | None
    """None, as the id: objects of no partition."""
    kinds: dict[str, KindTotal]


class AuditDigest(Digest):
    """Totals by kind and partition, and the worst findings.

    It has some numbers for each partition of the cluster, however many segments those have.
    """

    def __init__(self, limit: int) -> None:
        """Keep `limit` findings."""
        self.partitions: dict[tuple[str | None, int | None], PartitionTotals] = {}
        """Totals by topic id and number."""
        self._worst: Least[PlainRow] = Least(limit, _order)

    @property
    def totals(self) -> dict[AuditKind, KindTotal]:
        """Totals by kind, in the order of `AuditKind`; 0 for kinds without rows."""
        found = dict.fromkeys(AuditKind, KindTotal())
        for one in self.partitions.values():
            for kind, total in one.kinds.items():
                found[AuditKind(kind)] = found[AuditKind(kind)].with_more(total)
        return found

    def worst(self) -> list[PlainRow]:
        """The findings, worst first: by kind, then the most bytes."""
        return self._worst.ascending()

    @override
    def take(self, row: PlainRow) -> None:
        # A foreign object's row has no more of an identity than the cluster.
        topic_id, partition = row.get("topic_id"), row.get("partition")
        total = KindTotal(1, row["objects"], row["size_in_bytes"], row["expected_bytes"] or 0)
        self._add(row.get("topic") or "", topic_id, partition, {row["kind"]: total})
        if row["kind"] in _PLACES:
            self._worst.add(row)

    @override
    def join(self, other: Any) -> None:
        for one in other.partitions.values():
            self._add(*one)
        self._worst.add(*other.worst())

    def _add(
        self,
        topic: str,
        topic_id: str | None,
        partition: int | None,
        more: Mapping[str, KindTotal],
    ) -> None:
        key = topic_id, partition
        known = self.partitions.get(key, PartitionTotals("", *key, {}))
        for kind, total in more.items():
            known.kinds[kind] = known.kinds.get(kind, KindTotal()).with_more(total)
        # Of objects that no log names, the topic's name is unknown.
        self.partitions[key] = known._replace(topic=max(topic, known.topic))


LISTED_KINDS: Final = frozenset(kind.value for kind in LISTED)

_PLACES = {kind.value: place for place, kind in enumerate(FINDINGS)}


def _order(row: PlainRow) -> tuple[object, ...]:
    weight = max(row["expected_bytes"] or 0, row["size_in_bytes"])
    names = (row["topic"] or "", row["partition"], row["place"] or "", row["segment_id"])
    return _PLACES[row["kind"]], -weight, *names


class Audit(NamedTuple):
    """What an audit found."""

    cluster: str
    partitions: int
    listed: ListingTotals
    digest: AuditDigest
    damaged: list[DamagedLog]
    unseen: Sequence[Unseen]
    """What the list of objects lacks."""
