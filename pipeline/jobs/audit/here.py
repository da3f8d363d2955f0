"""An audit, in the order that makes its verdicts true; and all of it in this process.

`kinds` gives the order and the reasons for it. `job` is the other engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.inventory import Seen, totals
from tierledger.pipeline.jobs.audit.kinds import LogStanding
from tierledger.pipeline.jobs.audit.rows import (
    FOUND,
    LISTED_KINDS,
    Audit,
    AuditDigest,
    Evidence,
    Judge,
    told_by_log,
    told_by_object,
)
from tierledger.pipeline.jobs.audit.segments import (
    DAMAGED,
    LogKey,
    Settled,
    ends_of,
    segments_table,
)
from tierledger.pipeline.tables.plan import TablePlan, planned

if TYPE_CHECKING:
    from tierledger.pipeline.table_columns import PlainRow, Table
    from tierledger.pipeline.tables.writers import Write
    from tierledger.tiering.layouts.listed_objects import LayoutNames
    from tierledger.tiering.objects.directory import Unseen

Rows = TypeVar("Rows")

OBJECTS_MAX: Final = 2_000_000
"""Objects that this process holds at most: some 600 MB."""


class Listed(NamedTuple, Generic[Rows]):
    """A list of the tier's objects, as an engine holds it."""

    rows: Rows
    unseen: Sequence[Unseen] = ()
    """What the list lacks."""
    before_ms: int | None = None
    """For a list made earlier: log time (ms) from which changes may be missing in it."""


Lister: TypeAlias = "Callable[[], Listed[Sequence[Seen]] | None]"


async def second_plan(
    first: TablePlan,
    table_of: Callable[[Settled], Table],
    lister: Callable[[], Listed[Rows] | None],
) -> tuple[Listed[Rows], TablePlan] | None:
    """The list, and the plan of the logs that the list is compared with; none without a list.

    Args:
        first: A plan up to the ends of the logs before the list is made.
        table_of: The table of the second plan, as `segments_table`.
        lister: Makes the list.
    """
    ends = await ends_of(first)
    found = await asyncio.to_thread(lister)
    if found is None:
        return None
    settled = Settled(ends) if found.before_ms is None else Settled({}, found.before_ms)
    return found, await planned(table_of(settled), first.store)


def standings_of(plan: TablePlan, damaged: Iterable[LogKey]) -> dict[LogKey, LogStanding]:
    """The standing of each partition."""
    known = {
        LogKey(str(log.topic_id), log.partition): (
            LogStanding.FORGOTTEN if log.first_batch else LogStanding.KNOWN
        )
        for log in plan.logs
    }
    return known | dict.fromkeys(damaged, LogStanding.DAMAGED)


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
    both = asyncio.run(second_plan(plan, partial(segments_table, names), lister))
    if both is None:
        return None
    found, second = both
    counted = totals(found.rows)
    damaged: list[DamagedLog] = []
    unread: list[LogKey] = []
    evidence: list[Evidence] = []
    for chunk in second.fold(damaged.extend).run(second.logs):
        for row in chunk.rows():
            if row["what"] == DAMAGED:
                unread.append(LogKey(row["topic_id"], row["partition"]))
            else:
                evidence.append(told_by_log(row))
    evidence += (told_by_object(one, names) for one in found.rows)
    evidence.sort(key=evidence_order)
    cluster = second.store.cluster or ""
    judge = Judge(cluster, standings_of(second, unread), orphans_before_ms, found.unseen)
    names_of_columns = [one.name for one in FOUND.columns]

    def taken(rows: Iterable[PlainRow]) -> Iterator[tuple[object, ...]]:
        for row in rows:
            digest.take(row)
            if row["kind"] in LISTED_KINDS:
                yield tuple(row[name] for name in names_of_columns)

    with writing as write:
        of_log = itemgetter("cluster", "topic", "topic_id", "partition")
        for identity, rows in groupby(judge.rows(evidence), of_log):
            for chunk in FOUND.chunks(identity, taken(rows)):
                if write is not None:
                    write(chunk)
    damaged.sort(key=lambda one: (one.topic_id, one.partition))
    return Audit(cluster, len(second.logs), counted, digest, damaged, found.unseen)


def evidence_order(one: Evidence) -> tuple[object, ...]:
    """Objects without a segment id come last."""
    return (one.key is None, *(one.key or ()))
