"""What an audit says about a segment's objects. Pure: one segment id at a time.

The order of an audit is: where the logs end (first), the list of objects, where the logs end
(second); then the logs are folded up to the second end. Why:

- An object is announced (COPY_SEGMENT_STARTED) before it is written. So whatever the list has
  is known to logs that were read after it, and what they do not know is nobody's.
- A copy that finished before the list was begun is in it, if its deletion has not begun by the
  second end. One that finished later may be missing in the list and be there: it is *changing*.
- What was deleted before the list was begun must not be in it. What was deleted later may be.

So "missing" and "still there" are said only of what was settled at the first end and is so at
the second; "unknown" only by what the second end says. Of a list that somebody else made,
settled is what the log says happened well before the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from tierledger.tiering.formats.index_files import TIME_ENTRY, TIMES_WITHOUT_OFFSETS_MAX
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.listed_objects import ExpectedObject, part_number


class AuditKind(StrEnum):
    """What becomes of a segment or of objects; the first ones are findings, worst first."""

    MISSING_OBJECT = "missing_object"
    """A finished segment has nothing in the tier, or not its log or its indexes."""
    INCOMPLETE_SET = "incomplete_set"
    """Log and indexes of a finished segment are there, but not all parts or files."""
    SIZE_MISMATCH = "size_mismatch"
    """Objects of a finished segment are larger or smaller than what was copied."""
    UNREADABLE_METADATA = "unreadable_metadata"
    """A finished segment's custom metadata is not this layout's: nobody finds its objects."""
    DELETED_BUT_THERE = "deleted_but_there"
    """Objects of a segment whose deletion had finished before the list was begun."""
    ORPHAN = "orphan"
    """Old objects of a known partition, of a segment that no log has ever named."""
    FOREIGN = "foreign"
    """Objects that are not called as this tier's, or lie where no segment has its objects."""
    TOO_YOUNG = "too_young"
    """Would be an orphan, but is younger than that, or of unknown age."""
    UNKNOWN_PARTITION = "unknown_partition"
    """Objects of a partition that the store does not have; another cluster's, perhaps."""
    DAMAGED_LOG = "damaged_log"
    """Objects of a partition whose log cannot be read; nothing is said of them."""
    CHANGING = "changing"
    """Copied or deleted while the audit ran, or too shortly before somebody else's list."""
    UNFINISHED = "unfinished"
    """A copy or deletion that is under way; `spark stuck` finds those that last."""
    ELSEWHERE = "elsewhere"
    """A finished segment below another prefix, of which the list has nothing."""
    WHOLE = "whole"
    """A finished segment with everything that it should have."""


FINDINGS: Final = (
    AuditKind.MISSING_OBJECT,
    AuditKind.INCOMPLETE_SET,
    AuditKind.SIZE_MISMATCH,
    AuditKind.UNREADABLE_METADATA,
    AuditKind.DELETED_BUT_THERE,
    AuditKind.ORPHAN,
)
"""Kinds that an operator has to look at, worst first."""

LISTED: Final = (*FINDINGS, AuditKind.FOREIGN)
"""Kinds that have rows in the table; the others are only counted."""

FINISHED: Final = "COPY_SEGMENT_FINISHED"
DELETED: Final = "DELETE_SEGMENT_FINISHED"


class KnownSegment(NamedTuple):
    """What the logs say of a segment, and what it must have in the tier."""

    state: str
    is_settled: bool
    """Whether it was so before the list was begun."""
    place: str | None
    """What names of its objects begin with; none if that is not known, or it is deleted."""
    part_bytes: int | None
    log_bytes: int | None
    others: Sequence[ExpectedObject] | None
    indexes: str | None
    weight: int | None
    is_below_prefix: bool | None
    trouble: str | None
    """Why `place` is none."""


class FoundObjects(NamedTuple):
    """What a list has of one segment in one place."""

    place: str
    is_below_prefix: bool
    objects: int
    size_in_bytes: int
    sizes: Sequence[tuple[str, int]]
    """Role and bytes of each."""
    newest_ms: int | None
    """None if the age of any is unknown."""


class Verdict(NamedTuple):
    """A row of the table."""

    kind: AuditKind
    place: str | None
    objects: int
    size_in_bytes: int
    expected_bytes: int | None
    last_modified_ms: int | None
    detail: str


class Standing(StrEnum):
    """What the store has of a partition."""

    KNOWN = "known"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"


def verdicts(
    known: KnownSegment | None,
    found: Collection[FoundObjects],
    standing: Standing,
    orphans_before_ms: int,
) -> Iterator[Verdict]:
    """What is to say of one segment id of a partition.

    Args:
        known: What the logs say of it; none if they never named it.
        found: What the list has under its name, for each place.
        standing: Of the partition.
        orphans_before_ms: What was written before this may be called an orphan.
    """
    is_live = known is not None and known.state != DELETED and standing == Standing.KNOWN
    place = known.place if known is not None and is_live else None
    here = next((one for one in found if one.place == place), None)
    if known is not None and is_live:
        yield _of_segment(known, here)
    for one in found:
        if one is not here:
            kind, detail = _of_stray(known, one, standing, orphans_before_ms)
            yield _verdict(kind, one.place, one, None, detail)


def _of_segment(known: KnownSegment, here: FoundObjects | None) -> Verdict:
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
    """The verdict on a settled, finished segment of which something is there."""
    sizes = dict(here.sizes)
    parts_found = ((part_number(role), size) for role, size in here.sizes)
    log = {number: size for number, size in parts_found if number is not None}
    others = known.others or ()
    lacking = [one.role for one in others if one.is_required and one.role not in sizes]
    if not log or known.indexes in lacking:
        if not log:
            lacking.insert(0, "log")
        return AuditKind.MISSING_OBJECT, f"missing: {', '.join(lacking)}"
    total, part_bytes = known.log_bytes or 0, known.part_bytes
    parts = None if part_bytes is None else -(-total // part_bytes)
    if parts is not None and len(log) < parts:
        lacking.insert(0, f"{parts - len(log)} of {parts} parts of the log")
    if lacking:
        return AuditKind.INCOMPLETE_SET, f"missing: {', '.join(lacking)}"
    wrong = [*_wrong_log(log, total, part_bytes), *_wrong_others(others, sizes)]
    if not wrong and known.weight is not None and here.size_in_bytes != known.weight:
        wrong = [f"expected {known.weight} bytes with its indexes, found {here.size_in_bytes}"]
    if wrong:
        return AuditKind.SIZE_MISMATCH, "; ".join(wrong)
    return AuditKind.WHOLE, ""


def _wrong_log(log: Mapping[int, int], total: int, part_bytes: int | None) -> Iterator[str]:
    """What is wrong about the sizes of a log's parts, of which none is missing."""
    found = sum(log.values())
    if found != total:
        yield f"expected {total} bytes of log, found {found}"
    elif part_bytes is not None:
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
    known: KnownSegment | None, one: FoundObjects, standing: Standing, orphans_before_ms: int
) -> tuple[AuditKind, str]:
    """The verdict on objects that no segment has in its place."""
    if not one.is_below_prefix:
        return AuditKind.FOREIGN, "not below the tier's prefix"
    if standing == Standing.UNKNOWN:
        return AuditKind.UNKNOWN_PARTITION, ""
    if standing == Standing.DAMAGED:
        return AuditKind.DAMAGED_LOG, ""
    if known is not None and known.state != DELETED:
        said = f"the segment's objects begin with {known.place}"
        return AuditKind.FOREIGN, known.trouble or said
    if known is not None and known.is_settled:
        return AuditKind.DELETED_BUT_THERE, "its deletion has finished"
    if known is not None:
        return AuditKind.CHANGING, "deleted meanwhile"
    if one.newest_ms is None or one.newest_ms >= orphans_before_ms:
        return AuditKind.TOO_YOUNG, ""
    return AuditKind.ORPHAN, "no log has named this segment"


def _verdict(
    kind: AuditKind,
    place: str | None,
    found: FoundObjects | None,
    expected_bytes: int | None,
    detail: str,
) -> Verdict:
    if found is None:
        return Verdict(kind, place, 0, 0, expected_bytes, None, detail)
    return Verdict(
        kind,
        place,
        found.objects,
        found.size_in_bytes,
        expected_bytes,
        found.newest_ms,
        detail,
    )
