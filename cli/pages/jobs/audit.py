"""The page of `jobs audit`: what should be in the tier and what is, for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierledger.cli.pages.jobs.groups import GROUPS_SHOWN, PartitionGroup, groups_of
from tierledger.cli.pages.jobs.strips import Share, shares
from tierledger.events.vocabulary import WORDS, Look, spelled
from tierledger.pages.drawing import PlotRow
from tierledger.pages.texts import count_text, many, size_text
from tierledger.pipeline.jobs.audit.kinds import FINDINGS, AuditKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tierledger.pipeline.jobs.audit.rows import AuditDigest, KindTotal, PartitionTotals
    from tierledger.pipeline.table_columns import PlainRow

GROUPS_MAX: Final = 200
"""Partitions on the page, the worst; the first of them are shown at once."""

BAR_HEIGHT, BIG_HEIGHT = 16, 30

UNREADABLE: Final = tuple(kind for kind in FINDINGS if WORDS[kind].look is Look.BAD)
COSTLY: Final = tuple(kind for kind in FINDINGS if WORDS[kind].look is Look.WARN)
EXPECTED: Final = (
    *UNREADABLE,
    AuditKind.UNSEEN,
    AuditKind.ELSEWHERE,
    AuditKind.CHANGING,
    AuditKind.WHOLE,
)
"""Kinds of finished segments, in the order in which bars have them: they should be there."""
OTHERS: Final = tuple(kind for kind in AuditKind if kind not in EXPECTED)


def audit_content(digest: AuditDigest) -> dict[str, object]:
    """What `audit.html` shows."""
    totals, partitions = digest.totals, digest.partitions
    return {
        "words": {kind: WORDS[kind] for kind in AuditKind},
        "counts": {kind: total.rows for kind, total in totals.items()},
        "finished": sum(totals[kind].rows for kind in EXPECTED),
        "unreadable": sum(totals[kind].rows for kind in UNREADABLE),
        "costly": sum(totals[kind].rows for kind in COSTLY),
        "overview": _overview(totals),
        "groups": _groups(partitions, digest.worst()),
        "groups_shown": GROUPS_SHOWN,
        "partitions": len(partitions),
        "found": sum(totals[kind].rows for kind in FINDINGS),
    }


def _overview(totals: Mapping[AuditKind, KindTotal]) -> list[PlotRow]:
    """What should be there and what is, on one scale."""
    should = [_share(kind, totals[kind], totals[kind].expected_bytes) for kind in EXPECTED]
    there = [
        _share(kind, totals[kind], totals[kind].size_in_bytes)
        for kind in (*reversed(EXPECTED), *OTHERS)
        if totals[kind].objects
    ]
    longest = max(sum(one.value for one in some) for some in (should, there))
    segments = sum(totals[kind].rows for kind in EXPECTED)
    objects = sum(total.objects for total in totals.values())
    return [
        shares(
            name,
            f"{note}, {size_text(sum(one.value for one in some))}",
            some,
            BIG_HEIGHT,
            longest,
        )
        for name, note, some in (
            ("should be there", many(segments, "segment"), should),
            ("is there", many(objects, "object"), there),
        )
    ]


def _groups(
    partitions: Mapping[tuple[str | None, int | None], PartitionTotals],
    rows: Iterable[PlainRow],
) -> list[PartitionGroup]:
    worst = sorted(partitions.items(), key=lambda one: _place(one[1]))[:GROUPS_MAX]
    by_partition: dict[tuple[str | None, int | None], list[PlainRow]] = {}
    for row in rows:
        by_partition.setdefault((row["topic_id"], row["partition"]), []).append(row)
    return groups_of(
        PartitionGroup(
            _bar(key, totals),
            key[0] or "",
            [kind for kind in AuditKind if kind in totals.kinds],
            by_partition.get(key, []),
            sum(totals.kinds[kind].rows for kind in FINDINGS if kind in totals.kinds),
        )
        for key, totals in worst
    )


def _place(totals: PartitionTotals) -> tuple[object, ...]:
    """The sort key of a partition: what cannot be read comes first, then what costs."""
    unreadable, costly = (
        [totals.kinds[kind] for kind in kinds if kind in totals.kinds]
        for kinds in (UNREADABLE, COSTLY)
    )
    return (
        -sum(one.expected_bytes for one in unreadable),
        -sum(one.rows for one in unreadable),
        -sum(one.size_in_bytes for one in costly),
        -sum(one.rows for one in costly),
        totals.topic,
        totals.topic_id or "",
        totals.partition or 0,
    )


def _bar(key: tuple[str | None, int | None], totals: PartitionTotals) -> PlotRow:
    """A partition: the bytes of the segments that it should have, then of all else there."""
    if key[0] is None:
        name = "no partition's"
    else:
        name = f"{totals.topic or totals.topic_id}-{totals.partition}"
    kinds = totals.kinds
    some = [
        _share(kind, kinds[kind], kinds[kind].expected_bytes or kinds[kind].size_in_bytes)
        for kind in (*EXPECTED, *OTHERS)
        if kind in kinds
    ]
    finished = sum(kinds[kind].rows for kind in EXPECTED if kind in kinds)
    unreadable = sum(kinds[kind].rows for kind in UNREADABLE if kind in kinds)
    notes = [f"{count_text(unreadable)} of {many(finished, 'segment')} unreadable"] * bool(
        unreadable
    )
    notes += [
        f"{count_text(kinds[kind].rows)} {spelled(kind)}" for kind in COSTLY if kind in kinds
    ]
    return shares(name, ", ".join(notes) or many(finished, "segment"), some, BAR_HEIGHT)


def _share(kind: AuditKind, total: KindTotal, value: int) -> Share:
    tip = f"{spelled(kind)}: {many(total.rows, 'row' if kind in OTHERS else 'segment')}"
    tip += f"; expected {size_text(total.expected_bytes)}" if total.expected_bytes else ""
    tip += f"; found {size_text(total.size_in_bytes)} in {many(total.objects, 'object')}"
    return Share(value, total.rows, WORDS[kind].look, f"{tip}; {WORDS[kind].meaning}")
