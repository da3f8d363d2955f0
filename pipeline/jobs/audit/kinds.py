"""The verdicts of an audit on a segment's objects. Pure: one segment id at a time.

An audit reads the ends of the logs (first ends), lists the objects, and reads the ends of the
logs again (second ends). Then it folds the logs up to the second ends. The reasons:

- A segment is announced (COPY_SEGMENT_STARTED) before its objects are written. So logs that are
  read after the list name the segment of every object in it. If they do not, the object belongs
  to no segment.
- A copy that finished before the list was begun is in it, unless its deletion has begun by the
  second end. A copy that finished later may exist and be missing in the list: it is *changing*.
- A segment deleted before the list was begun must not be in it. One deleted later may be.

So "missing" and "still there" are reported only if the segment reached its state before the
first end and has it at the second: it is *settled*. "Unknown" is decided by the second end
alone. For a list that was made earlier, settled means: long enough before it by log time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from tierledger.events.vocabulary import findings
from tierledger.tiering.formats.index_files import TIME_ENTRY, TIMES_WITHOUT_OFFSETS_MAX
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.listed_objects import LOG, ExpectedObject, part_number
from tierledger.tiering.objects.directory import Unseen


class AuditKind(StrEnum):
    """The kind of a segment or of objects; the first ones are findings, worst first."""

    MISSING_OBJECT = "missing_object"
    """A finished segment without any object in the tier, or without its log or its indexes."""
    INCOMPLETE_SET = "incomplete_set"
    """A finished segment whose log and indexes are there, but not all parts or files."""
    SIZE_MISMATCH = "size_mismatch"
    """Objects of a finished segment that are larger or smaller than what was copied."""
    UNREADABLE_METADATA = "unreadable_metadata"
    """A finished segment whose custom metadata is of another layout: no reader can find it."""
    DELETED_BUT_THERE = "deleted_but_there"
    """Objects of a segment whose deletion had finished before the list was begun."""
    ORPHAN = "orphan"
    """Old objects of a known partition, of a segment that its log has never named."""
    FOREIGN = "foreign"
    """Objects whose names are not this tier's, or that lie outside their segment's place."""
    TOO_YOUNG = "too_young"
    """Objects like an orphan's that are too young to be reported as one, or of unknown age."""
    UNKNOWN_PARTITION = "unknown_partition"
    """Objects of a partition that the store does not have, perhaps of another cluster, or whose
    log it has forgotten: it may have named them."""
    DAMAGED_LOG = "damaged_log"
    """Objects of a partition whose log cannot be read, so that they cannot be judged."""
    CHANGING = "changing"
    """Copied or deleted during the audit, or too shortly before a list made earlier."""
    UNFINISHED = "unfinished"
    """A copy or deletion that is under way; `jobs stuck` finds those that take too long. What
    is in the trash is one, too."""
    UNSEEN = "unseen"
    """What an incomplete list does not tell: a finished segment whose objects may be where the
    audit could not look, or objects that would be orphans."""
    ELSEWHERE = "elsewhere"
    """A finished segment below another prefix, of which the list has no object."""
    WHOLE = "whole"
    """A finished segment with all its objects."""


FINDINGS: Final = tuple(map(AuditKind, findings(AuditKind)))
"""Kinds that an operator has to look at, worst first."""

LISTED: Final = (*FINDINGS, AuditKind.FOREIGN)
"""Kinds that have rows in the table; the others are only counted."""

_BY_ABSENCE: Final = {
    AuditKind.MISSING_OBJECT,
    AuditKind.INCOMPLETE_SET,
    AuditKind.SIZE_MISMATCH,
    AuditKind.ELSEWHERE,
}
"""Verdicts on a segment that more objects might change."""

_NOT_LISTED: Final = "more of it may be where the tier could not be listed"

FINISHED: Final = "COPY_SEGMENT_FINISHED"
DELETED: Final = "DELETE_SEGMENT_FINISHED"


class KnownSegment(NamedTuple):
    """A segment's state by the logs, and the objects that it must have in the tier."""

    state: str
    is_settled: bool
    """Whether it had reached this state before the list was begun."""
    place: str | None
    """Prefix of its objects' names; none if that is not known, or the segment is deleted."""
    part_bytes: int | None
    log_bytes: int | None
    others: Sequence[ExpectedObject] | None
    indexes: str | None
    weight: int | None
    is_below_prefix: bool | None
    is_log_as_it_is: bool | None
    trouble: str | None
    """Why `place` is none."""


class FoundObjects(NamedTuple):
    """The objects of one segment that a list has in one place."""

    place: str
    is_below_prefix: bool
    objects: int
    size_in_bytes: int
    sizes: Sequence[tuple[str, int]]
    """Role and bytes of each object."""
    newest_ms: int | None
    """Time of the newest object; none if the age of any is unknown."""


class AuditRow(NamedTuple):
    """A row of the table."""

    kind: AuditKind
    place: str | None
    objects: int
    size_in_bytes: int
    expected_bytes: int | None
    last_modified_ms: int | None
    detail: str


class LogStanding(StrEnum):
    """Whether the store has a partition's log, and can read it."""

    KNOWN = "known"
    FORGOTTEN = "forgotten"
    """Its first events were forgotten, so it does not tell what it has never named."""
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


_READ: Final = {LogStanding.KNOWN, LogStanding.FORGOTTEN}


def verdicts(
    known: KnownSegment | None,
    found: Collection[FoundObjects],
    standing: LogStanding,
    orphans_before_ms: int,
    unseen: Sequence[Unseen] = (),
) -> Iterator[AuditRow]:
    """The verdicts on one segment id of a partition.

    Args:
        known: The segment by the logs; none if they never named it.
        found: Its objects in the list, by place.
        standing: The partition's standing.
        orphans_before_ms: Only objects written before this time may be orphans.
        unseen: What the list lacks. Without all of it nothing is an orphan.
    """
    is_live = known is not None and known.state != DELETED and standing in _READ
    place = known.place if known is not None and is_live else None
    here = next((one for one in found if one.place == place), None)
    if known is not None and is_live:
        verdict = _of_segment(known, here)
        if verdict.kind in _BY_ABSENCE and any(one.may_hold(place or "") for one in unseen):
            verdict = verdict._replace(kind=AuditKind.UNSEEN, detail=_NOT_LISTED)
        yield verdict
    for one in found:
        if one is not here:
            kind, detail = _of_stray(known, one, standing, orphans_before_ms)
            if kind == AuditKind.ORPHAN and unseen:
                kind, detail = AuditKind.UNSEEN, f"{detail}, but not all objects were seen"
            yield _verdict(kind, one.place, one, None, detail)


def _of_segment(known: KnownSegment, here: FoundObjects | None) -> AuditRow:
    expected = known.log_bytes if known.weight is None else known.weight
    if known.state != FINISHED:
        return _verdict(AuditKind.UNFINISHED, known.place, here, None, known.state)
    if known.place is None:
        kind, detail = AuditKind.UNREADABLE_METADATA, known.trouble or ""
    elif not known.is_settled:
        kind, detail = AuditKind.CHANGING, "copied meanwhile"
    elif here is None and not known.is_below_prefix:
        kind, detail = AuditKind.ELSEWHERE, "below another prefix"
    elif here is None:
        kind, detail = AuditKind.MISSING_OBJECT, "nothing is there"
    else:
        kind, detail = _of_set(known, here)
    return _verdict(kind, known.place, here, expected, detail)


def _of_set(known: KnownSegment, here: FoundObjects) -> tuple[AuditKind, str]:
    """The verdict on a settled, finished segment that has at least one object in its place."""
    sizes = dict(here.sizes)
    parts_found = ((part_number(role), size) for role, size in here.sizes)
    log = {number: size for number, size in parts_found if number is not None}
    others = known.others or ()
    lacking = [one.role for one in others if one.is_required and one.role not in sizes]
    total, part_bytes = known.log_bytes or 0, known.part_bytes
    if total and not log:  # Some layouts store nothing for a log of 0 bytes.
        lacking.insert(0, LOG)
    if LOG in lacking or known.indexes in lacking:
        return AuditKind.MISSING_OBJECT, f"missing: {', '.join(lacking)}"
    parts = None if part_bytes is None else -(-total // part_bytes)
    if parts is not None and len(log) < parts:
        lacking.insert(0, f"{parts - len(log)} of {parts} parts of the log")
    if lacking:
        return AuditKind.INCOMPLETE_SET, f"missing: {', '.join(lacking)}"
    wrong = [*_wrong_others(others, sizes)]
    if known.is_log_as_it_is:
        wrong[:0] = _wrong_log(log, total, part_bytes)
    elif total and not any(log.values()):
        wrong.insert(0, "expected some bytes of log, found 0")
    if not wrong and known.weight is not None and here.size_in_bytes != known.weight:
        wrong = [f"expected {known.weight} bytes with its indexes, found {here.size_in_bytes}"]
    if wrong:
        return AuditKind.SIZE_MISMATCH, "; ".join(wrong)
    return AuditKind.WHOLE, ""


def _wrong_log(log: Mapping[int, int], total: int, part_bytes: int | None) -> Iterator[str]:
    """The first wrong size among a log's parts, of which none is missing."""
    found = sum(log.values())
    if found != total:
        yield f"expected {total} bytes of log, found {found}"
    elif part_bytes is not None and total:
        for number, size in sorted(log.items()):
            expected = min(part_bytes, total - number * part_bytes)
            if expected <= 0:
                parts = -(-total // part_bytes)
                yield f"expected {parts} parts of the log, found one of number {number}"
                return
            if size != expected:
                yield f"part {number} of the log: expected {expected} bytes, found {size}"
                return


def _wrong_others(others: Sequence[ExpectedObject], sizes: Mapping[str, int]) -> Iterator[str]:
    for one in others:
        size = sizes.get(one.role)
        if size is not None and not one.fits(size):
            yield f"{one.role}: expected {one}, found {size}"
    times = sizes.get(IndexType.TIMESTAMP.value, 0) // TIME_ENTRY.size
    if sizes.get(IndexType.OFFSET.value) == 0 and times > TIMES_WITHOUT_OFFSETS_MAX:
        yield (
            f"{IndexType.OFFSET.value}: expected entries as the {times} of "
            f"{IndexType.TIMESTAMP.value} have, found none"
        )


def _of_stray(
    known: KnownSegment | None, one: FoundObjects, standing: LogStanding, orphans_before_ms: int
) -> tuple[AuditKind, str]:
    """The verdict on objects that are not in the place of a live segment."""
    if not one.is_below_prefix:
        return AuditKind.FOREIGN, "not below the tier's prefix"
    if standing == LogStanding.UNKNOWN:
        return AuditKind.UNKNOWN_PARTITION, ""
    if standing == LogStanding.DAMAGED:
        return AuditKind.DAMAGED_LOG, ""
    if known is not None and known.state != DELETED:
        detail = f"the segment's objects begin with {known.place}"
        return AuditKind.FOREIGN, known.trouble or detail
    if known is not None and known.is_settled:
        return AuditKind.DELETED_BUT_THERE, "its deletion has finished"
    if known is not None:
        return AuditKind.CHANGING, "deleted meanwhile"
    if standing == LogStanding.FORGOTTEN:
        return AuditKind.UNKNOWN_PARTITION, "its log was forgotten up to a boundary"
    if one.newest_ms is None or one.newest_ms >= orphans_before_ms:
        return AuditKind.TOO_YOUNG, ""
    return AuditKind.ORPHAN, "no log has named this segment"


def _verdict(
    kind: AuditKind,
    place: str | None,
    found: FoundObjects | None,
    expected_bytes: int | None,
    detail: str,
) -> AuditRow:
    if found is None:
        return AuditRow(kind, place, 0, 0, expected_bytes, None, detail)
    return AuditRow(
        kind,
        place,
        found.objects,
        found.size_in_bytes,
        expected_bytes,
        found.newest_ms,
        detail,
    )
