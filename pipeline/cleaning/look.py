"""Looks at the logs and the tier for a clean-up, all in this process.

`pipeline.jobs.audit.kinds` gives the order that makes an audit's verdicts true, and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.tables.segment_rows import (
    EPOCHS,
    REFERENCED,
    Row,
    end_in_epoch,
    unpack_row,
)
from tierledger.pipeline.cleaning.rules import (
    Judged,
    OffsetRanges,
    SeenLog,
    SeenQuarantine,
    SeenSegment,
    SeenWorld,
)
from tierledger.pipeline.cleaning.segments import LOG, cleaning_table
from tierledger.pipeline.cleaning.weights import WeightObject
from tierledger.pipeline.inventory import Seen, listed_objects, totals
from tierledger.pipeline.jobs.audit.here import (
    OBJECTS_MAX,
    Listed,
    evidence_order,
    second_plan,
    standings_of,
)
from tierledger.pipeline.jobs.audit.kinds import AuditKind, LogStanding
from tierledger.pipeline.jobs.audit.rows import (
    Evidence,
    Judge,
    SegmentKey,
    told_by_log,
    told_by_object,
)
from tierledger.pipeline.jobs.audit.segments import DAMAGED, LogKey, Settled
from tierledger.pipeline.tables.plan import planned
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.quarantine import TAKEN, Taken, folder_of

if TYPE_CHECKING:
    from tierledger.pipeline.folding.store import JobStore
    from tierledger.pipeline.folding.task import DamagedLog
    from tierledger.pipeline.table_columns import PlainRow
    from tierledger.tiering.layouts.listed_objects import LayoutNames
    from tierledger.tiering.objects.directory import Unseen
    from tierledger.tiering.objects.store import ObjectStore

_STATES = {one.name: int(one) for one in RemoteLogSegmentState}
_DELETED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class SeenTier(NamedTuple):
    """What a look has found."""

    cluster: str
    world: SeenWorld
    listed_ms: int
    """When the list was begun, by this machine's clock."""
    damaged: list[DamagedLog]


class _Listing(NamedTuple):
    begun_ms: int
    objects: list[Seen]
    """Those of the tier itself."""
    quarantined: list[Seen]
    lists: dict[str, Taken]
    """What plans have taken, by the name of each list."""
    unseen: list[Unseen]


def looked(
    store: JobStore,
    objects: ObjectStore,
    names: LayoutNames,
    now_ms: Callable[[], int],
    on_listed: Callable[[int], None],
) -> SeenTier:
    """Look at a tier and the logs of a store.

    Raises:
        InvalidArgument: The tier has more objects than this process takes.
        StorageUnavailable: The store or the tier cannot be reached.
        StoreRefused: The URL does not lead to a store, or to a tier, any more.
        CorruptRemoteData: The list of a quarantine does not verify.
    """
    listings: list[_Listing] = []

    def lister() -> Listed[Sequence[Seen]]:
        made = asyncio.run(_listed(objects, names, now_ms(), on_listed))
        listings.append(made)
        return Listed(made.objects, made.unseen)

    table_of = partial(cleaning_table, names)
    first = asyncio.run(planned(table_of(Settled()), store))
    both = asyncio.run(second_plan(first, table_of, lister))
    assert both is not None, "the lister refuses a list that is too long"
    found, second = both
    damaged: list[DamagedLog] = []
    told = _ToldByLogs(names)
    for chunk in second.fold(damaged.extend).run(second.logs):
        for row in chunk.rows():
            told.take(row)
    logs = {
        key: told.logs.get(key, SeenLog(key, "", LogStanding.DAMAGED))._replace(
            standing=standing
        )
        for key, standing in standings_of(second, told.unread).items()
    }
    for key in logs:
        told.ranges.setdefault(key, OffsetRanges())
    evidence = [*told.evidence, *(told_by_object(one, names) for one in found.rows)]
    evidence.sort(key=evidence_order)
    cluster, listing = second.store.cluster or "", listings[-1]
    judge = Judge(cluster, standings_of(second, told.unread), listing.begun_ms, found.unseen)
    judged = list(_judged(judge, evidence))
    of_keys = [one.key for one in evidence if one.key is not None and one.known is None]
    world = SeenWorld(
        logs,
        told.segments,
        {key: one.close() for key, one in told.ranges.items()},
        {of: one.close() for of, one in told.served.items()},
        [one for one in judged if one.kind != AuditKind.WHOLE or told.may_go(one.key)],
        sum(1 for one in judged if one.kind == AuditKind.WHOLE and one.is_below_prefix),
        sum(1 for one in judged if one.is_elsewhere),
        totals(found.rows),
        sum(1 for one in of_keys if LogKey(*one[:2]) in logs),
        len(of_keys),
        found.unseen,
        [one for one in _quarantines(listing, names) if one.taken.cluster == cluster],
    )
    return SeenTier(cluster, world, listing.begun_ms, damaged)


class _ToldByLogs:
    """What the logs tell."""

    def __init__(self, names: LayoutNames) -> None:
        self._names = names
        self.evidence: list[Evidence] = []
        self.logs: dict[LogKey, SeenLog] = {}
        self.segments: dict[SegmentKey, SeenSegment] = {}
        self.ranges: dict[LogKey, OffsetRanges] = {}
        self.served: dict[tuple[LogKey, int], OffsetRanges] = {}
        self.unread: list[LogKey] = []

    def take(self, row: PlainRow) -> None:
        key = LogKey(row["topic_id"], row["partition"])
        if row["what"] == DAMAGED:
            self.unread.append(key)
            return
        if row["what"] == LOG:
            end = (
                row["finished_at"],
                row["row"],
                row["since_ms"],
                row["trouble"],
                row["is_settled"],
                row["place"],
            )
            self.logs[key] = SeenLog(key, row["topic"], LogStanding.KNOWN, *end)
            return
        one = told_by_log(row)
        self.evidence.append(one)
        assert one.key is not None, "a log names the segment"
        state, known = _STATES[row["state"]], self.segments.get(one.key)
        if row["row"] is None:
            return
        segment = SeenSegment(
            state, row["start_offset"], row["end_offset"], row["since_ms"], row["row"]
        )
        if known is None or state != _DELETED:
            self.segments[one.key] = segment
        if state in {_FINISHED, _DELETED} or segment.is_kept:
            ranges = self.ranges.setdefault(key, OffsetRanges())
            ranges.add(segment.start, segment.end, is_held=state == _FINISHED)
        if state == _FINISHED:
            self._note_served(key, unpack_row(segment.row))

    def may_go(self, key: SegmentKey) -> bool:
        """Whether a finished segment may be dead weight: it is lost, or its topic is."""
        segment, log = self.segments.get(key), self.logs.get(LogKey(*key[:2]))
        if segment is None or segment.state != _FINISHED or log is None:
            return False
        return log.topic_gone is not None or segment.is_lost

    def _note_served(self, key: LogKey, fields: Row) -> None:
        epochs = fields[EPOCHS]
        for epoch, start, placement in zip(
            epochs[::3], epochs[1::3], epochs[2::3], strict=True
        ):
            if placement == REFERENCED:
                ranges = self.served.setdefault((key, epoch), OffsetRanges())
                ranges.add(start, end_in_epoch(fields, epoch), is_held=True)


async def _listed(
    objects: ObjectStore, names: LayoutNames, now_ms: int, on_listed: Callable[[int], None]
) -> _Listing:
    unseen: list[Unseen] = []
    found = await listed_objects(objects, names.folder, OBJECTS_MAX, on_listed, unseen.append)
    if found is None:
        raise InvalidArgument(
            f"the tier has more than {OBJECTS_MAX} objects: name a part of it"
        )
    apart = folder_of(names.folder) + "/"
    is_ours = [one.path is not None and one.path.startswith(apart) for one in found]
    quarantined = [one for one, ours in zip(found, is_ours, strict=True) if ours]
    lists = {}
    for one in quarantined:
        path = one.path or ""
        if path.removeprefix(apart).count("/") == 1 and path.endswith(f"/{TAKEN}"):
            content = await objects.get(Operation.CLEAN, path)
            lists[path] = Taken.of(content, objects.name_of(path))
    tier = [one for one, ours in zip(found, is_ours, strict=True) if not ours]
    return _Listing(now_ms, tier, quarantined, lists, unseen)


def _judged(judge: Judge, evidence: Iterable[Evidence]) -> Iterator[Judged]:
    for key, group in groupby(evidence, attrgetter("key")):
        if key is None:
            continue
        some = list(group)
        below = any(one.known is not None and one.known.is_below_prefix for one in some)
        for row in judge.rows(some):
            objects = tuple(
                WeightObject(
                    one.seen.path or "", one.seen.size or 0, one.seen.last_modified_ms or 0
                )
                for one in some
                if one.known is None and one.place == row["place"]
            )
            newest_ms = row["last_modified_ms"]
            yield Judged(AuditKind(row["kind"]), key, row["place"], newest_ms, objects, below)


def _quarantines(listing: _Listing, names: LayoutNames) -> Iterator[SeenQuarantine]:
    for path, taken in sorted(listing.lists.items()):
        below = f"{path.removesuffix(TAKEN)}objects/"
        noted_ms = 0
        objects: dict[str, WeightObject] = {}
        key_of: dict[str, tuple[SegmentKey, str]] = {}
        wanted = {one.name for one in taken.objects}
        for one in listing.quarantined:
            if one.path == path:
                noted_ms = one.last_modified_ms or 0
            if one.path is None or not one.path.startswith(below):
                continue
            name = one.path.removeprefix(below)
            parsed = names.parse(name)
            if name not in wanted or parsed is None:
                continue  # Nobody of ours has put it there.
            key = SegmentKey(str(parsed.topic_id), parsed.partition, str(parsed.segment_id))
            objects[name] = WeightObject(one.path, one.size or 0, one.last_modified_ms or 0)
            key_of[name] = key, parsed.place
        yield SeenQuarantine(taken, noted_ms, objects, key_of)
