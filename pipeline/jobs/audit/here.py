"""An audit in this process, without Spark, in the order that makes its verdicts true.

`kinds` gives the order and the reasons for it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.inventory import Seen, totals
from tierledger.pipeline.jobs.audit.kinds import (
    DELETED,
    LISTED,
    AuditKind,
    FoundObjects,
    KnownSegment,
    Standing,
)
from tierledger.pipeline.jobs.audit.rows import (
    FOUND,
    NOT_THIS_TIERS,
    Audit,
    AuditDigest,
    Judge,
    SegmentKey,
)
from tierledger.pipeline.jobs.audit.segments import (
    DAMAGED,
    LogKey,
    Settled,
    ends_of,
    segments_table,
)
from tierledger.pipeline.table_columns import PlainRow
from tierledger.pipeline.tables.plan import TablePlan, planned
from tierledger.pipeline.tables.writers import Write
from tierledger.tiering.layouts.listed_objects import ExpectedObject, LayoutNames
from tierledger.tiering.objects.directory import Unseen

Places: TypeAlias = dict[tuple[str, bool], list[tuple[str, Seen]]]
Lister: TypeAlias = Callable[[], "ListedHere | None"]

OBJECTS_MAX: Final = 2_000_000
"""Objects that this process holds at most: some 600 MB."""


class ListedHere(NamedTuple):
    """A list of the tier's objects."""

    objects: Sequence[Seen]
    unseen: Sequence[Unseen] = ()
    """What the list lacks."""
    before_ms: int | None = None
    """For a list made earlier: log time (ms) from which changes may be missing in it."""


def audited_here(
    plan: TablePlan,
    names: LayoutNames,
    lister: Lister,
    orphans_before_ms: int,
    digest: AuditDigest,
    writing: AbstractContextManager[Write | None],
) -> Audit | None:
    """Audit the tier; none if the list is too long for this process.

    Args:
        plan: A plan of `segments_table` up to the present ends of the logs.
        names: How the tier names its objects.
        lister: Called between the two readings of the logs' ends. It returns none if the list
            is too long.
        orphans_before_ms: Only objects written before this time may be orphans.
        digest: Takes every row.
        writing: Opened when the first row is made; takes the rows of the kinds in `LISTED`.

    Raises:
        InvalidArgument: The list has invalid rows.
        StorageUnavailable: The store cannot be reached.
        StoreRefused: The URL does not lead to a store any more.
    """
    ends = asyncio.run(ends_of(plan))
    found = lister()
    if found is None:
        return None
    counted = totals(found.objects)
    settled = Settled(ends) if found.before_ms is None else Settled({}, found.before_ms)
    second = asyncio.run(planned(segments_table(names, settled), plan.store))
    damaged: list[DamagedLog] = []
    standings = {
        LogKey(str(log.topic_id), log.partition): Standing.KNOWN for log in second.logs
    }
    known, topics = _known(second, standings, damaged)
    places, foreign = _by_segment(found.objects, names)
    cluster = second.store.cluster or ""
    judge = Judge(cluster, standings, orphans_before_ms, found.unseen)
    rows = _rows(judge, known, topics, places)
    with writing as write:
        for head, some in groupby(rows, itemgetter("topic", "topic_id", "partition")):
            _pass_on((cluster, *head), some, digest, write)
        _pass_on((cluster, None, None, None), map(_foreign_row, foreign), digest, write)
    damaged.sort(key=lambda one: (one.topic_id, one.partition))
    return Audit(cluster, len(second.logs), counted, digest, damaged, found.unseen)


def _known(
    plan: TablePlan, standings: dict[LogKey, Standing], damaged: list[DamagedLog]
) -> tuple[dict[SegmentKey, KnownSegment], dict[SegmentKey, str]]:
    """Each segment by the logs, and its topic. Damaged logs are marked in `standings`."""
    known: dict[SegmentKey, KnownSegment] = {}
    topics: dict[SegmentKey, str] = {}
    for chunk in plan.fold(damaged.extend).run(plan.logs):
        for row in chunk.rows():
            if row["what"] == DAMAGED:
                standings[LogKey(row["topic_id"], row["partition"])] = Standing.DAMAGED
                continue
            key = SegmentKey(row["topic_id"], row["partition"], row["segment_id"])
            topics[key] = max(row["topic"], topics.get(key, ""))
            # An imported log may have added a segment again after deleting it.
            if key not in known or row["state"] != DELETED:
                known[key] = known_segment(row)
    return known, topics


def known_segment(row: PlainRow) -> KnownSegment:
    """The segment in a row of `segments_table`."""
    known = KnownSegment(*(row[name] for name in KnownSegment._fields))
    return known._replace(others=[ExpectedObject(**one) for one in row["others"] or ()])


def _by_segment(
    objects: Iterable[Seen], names: LayoutNames
) -> tuple[dict[SegmentKey, Places], list[Seen]]:
    """Objects by segment id and place, and the objects whose names are not this tier's."""
    found: dict[SegmentKey, Places] = {}
    foreign = []
    for one in objects:
        parsed = names.parse(one.path or "")
        if parsed is None:
            foreign.append(one)
            continue
        key = SegmentKey(str(parsed.topic_id), parsed.partition, str(parsed.segment_id))
        place = (parsed.place, parsed.is_below_prefix)
        found.setdefault(key, defaultdict(list))[place].append((parsed.role, one))
    return found, foreign


def _rows(
    judge: Judge,
    known: Mapping[SegmentKey, KnownSegment],
    topics: Mapping[SegmentKey, str],
    places: Mapping[SegmentKey, Places],
) -> Iterator[PlainRow]:
    for key in sorted(known.keys() | places.keys()):
        found = [_found(*place, some) for place, some in sorted(places.get(key, {}).items())]
        yield from judge.rows(key, topics.get(key), known.get(key), found)


def _found(place: str, is_below_prefix: bool, some: list[tuple[str, Seen]]) -> FoundObjects:
    sizes = sorted((role, one.size or 0) for role, one in some)
    times = [one.last_modified_ms for _, one in some if one.last_modified_ms is not None]
    newest = max(times) if len(times) == len(some) else None
    total = sum(size for _, size in sizes)
    return FoundObjects(place, is_below_prefix, len(some), total, sizes, newest)


def _foreign_row(one: Seen) -> PlainRow:
    return {
        "kind": AuditKind.FOREIGN.value,
        "segment_id": None,
        "place": one.path,
        "objects": 1,
        "size_in_bytes": one.size,
        "expected_bytes": None,
        "last_modified_ms": one.last_modified_ms,
        "detail": NOT_THIS_TIERS,
    }


def _pass_on(
    identity: tuple[str, str | None, str | None, int | None],
    rows: Iterable[PlainRow],
    digest: AuditDigest,
    write: Write | None,
) -> None:
    names = [one.name for one in FOUND.columns]

    def taken() -> Iterator[tuple[object, ...]]:
        for row in rows:
            digest.take(row)
            if row["kind"] in _LISTED:
                yield tuple(row[name] for name in names)

    for chunk in FOUND.chunks(identity, taken()):
        if write is not None:
            write(chunk)


_LISTED = {kind.value for kind in LISTED}
