"""The rules of a clean-up: what is dead weight, what is left, and when nothing is judged.

Pure: the caller brings what the logs tell, a list of the tier's objects, and the time.

Rule: nothing follows from an absence that we may have caused. So an object that no log knows is
dead weight only if the log that does not know it is whole, knows its neighbours in the tier,
and says what became of its offsets: another segment holds them, or they were deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, NoReturn, TypeAlias

from tierledger.events.errors import RejectedError
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.tables.segment_rows import (
    BROKER,
    EPOCHS,
    EVENT_TIMESTAMP,
    LOST,
    SIZE,
    STATE,
    Row,
    end_in_epoch,
    unpack_row,
)
from tierledger.events.typed_fields import time_text
from tierledger.pipeline.cleaning.weights import (
    ACTIONS,
    CAN_UNDO,
    CleaningRefusal,
    DeadWeight,
    LeftWeight,
    WeightKind,
    WeightObject,
)
from tierledger.pipeline.inventory import ListingTotals
from tierledger.pipeline.jobs.audit.kinds import AuditKind, LogStanding
from tierledger.pipeline.jobs.audit.rows import SegmentKey
from tierledger.pipeline.jobs.audit.segments import LogKey
from tierledger.storage.partition.log_times import AHEAD_MS
from tierledger.tiering.layouts.listed_objects import nothing_whole
from tierledger.tiering.objects.directory import Unseen
from tierledger.tiering.quarantine import Taken

DAY_MS: Final = 86_400_000
"""Nothing younger is dead weight, whatever the options say; clocks differ by less."""

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
_COPYING = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_DELETED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

_LACKING: Final = frozenset(
    {
        AuditKind.MISSING_OBJECT,
        AuditKind.INCOMPLETE_SET,
        AuditKind.SIZE_MISMATCH,
        AuditKind.UNREADABLE_METADATA,
    }
)
"""Verdicts on a finished segment beside which nothing unknown of its partition is touched."""

_UNKNOWN: Final = frozenset(
    {AuditKind.TOO_YOUNG, AuditKind.ORPHAN, AuditKind.UNKNOWN_PARTITION}
)
"""Verdicts on objects of segments that no log has named."""

Barred: TypeAlias = "Callable[[SeenLog], tuple[CleaningRefusal, str] | None]"
"""Why nothing of a log's partition is touched."""


class SeenLog(NamedTuple):
    """One partition's log."""

    key: LogKey
    topic: str
    standing: LogStanding
    next_position: int = 0
    chain_hash: bytes = b""
    log_time_ms: int = 0
    imports: str | None = None
    """The cluster whose history it imports."""
    is_open: bool = False
    """Whether a broker leads it, as far as the log tells."""
    topic_gone: str | None = None
    """Why its topic is deleted, if the log tells."""


class SeenSegment(NamedTuple):
    """A segment that a log has named."""

    state: int
    start: int
    end: int
    since_ms: int | None
    row: bytes

    @property
    def is_kept(self) -> bool:
        """Whether its broker has deleted it, and its data stays."""
        is_finished = unpack_row(self.row)[STATE] == _FINISHED
        return self.state not in {_FINISHED, _DELETED} and is_finished

    @property
    def is_lost(self) -> bool:
        """Whether Kafka's own tables have lost it in each of its leader epochs."""
        return all(one == LOST for one in unpack_row(self.row)[EPOCHS][2::3])


class Judged(NamedTuple):
    """An audit's verdict on a segment, or on objects, and the objects."""

    kind: AuditKind
    key: SegmentKey
    place: str | None
    last_modified_ms: int | None
    objects: tuple[WeightObject, ...]
    is_below_prefix: bool
    """Whether a log says that its segment is below the tier's prefix."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is a finished segment below another prefix."""
        is_whole_there = self.kind == AuditKind.WHOLE and not self.is_below_prefix
        return is_whole_there or self.kind == AuditKind.ELSEWHERE


class SeenQuarantine(NamedTuple):
    """What a plan has taken, as far as it is still there."""

    taken: Taken
    noted_ms: int
    """When its list was written, by the tier's clock."""
    objects: Mapping[str, WeightObject]
    """By the name that it had in the tier: the object as it is now."""
    key_of: Mapping[str, tuple[SegmentKey, str]]
    """By that name, the segment and the place that the name tells."""


class SeenWorld(NamedTuple):
    """What was seen."""

    logs: Mapping[LogKey, SeenLog]
    segments: Mapping[SegmentKey, SeenSegment]
    """Of an id that was added again after its deletion, the later one."""
    ranges: Mapping[LogKey, OffsetRanges]
    served: Mapping[tuple[LogKey, int], OffsetRanges]
    """By leader epoch: the offsets that finished segments hold which Kafka's tables serve."""
    judged: Sequence[Judged]
    """All verdicts, but of `WHOLE` only those on segments that may be dead weight."""
    whole: int
    """Finished segments with all their objects, below the tier's prefix."""
    elsewhere: int
    """Finished segments below another prefix."""
    listed: ListingTotals
    known_objects: int
    """Objects whose names are those of a partition that the store has."""
    named_objects: int
    """Objects whose names are those of a segment's objects."""
    unseen: Sequence[Unseen]
    quarantines: Sequence[SeenQuarantine]

    @property
    def newest_ms(self) -> int:
        """When the newest that was seen was written, by whichever clock."""
        times = [one.log_time_ms for one in self.logs.values()]
        return max(self.listed.newest_ms or 0, *times, 0)


class CleaningAges(NamedTuple):
    """How old something has to be, and what time it is."""

    now_ms: int
    older_than_ms: int = DAY_MS
    quarantine_ms: int = DAY_MS
    is_idle: bool = False
    """Nothing was written for long, and that is right."""

    def present_ms(self, world: SeenWorld) -> int:
        """Until when ages count: now, or the last sign that it is so late already."""
        return self.now_ms if self.is_idle else min(self.now_ms, world.newest_ms)


class OffsetRanges:
    """The offsets of which a log tells what became of them."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int]] = []
        self._deleted: list[tuple[int, int]] = []

    def add(self, start: int, end: int, *, is_held: bool) -> None:
        (self._held if is_held else self._deleted).append((start, end))

    def close(self) -> OffsetRanges:
        """These ranges, merged and in order, so that they can be searched."""
        self._held, self._deleted = _merged(self._held), _merged(self._deleted)
        return self

    def holds(self, start: int, end: int) -> bool:
        """Whether each of these offsets is held."""
        at = bisect_right(self._held, start, key=lambda one: one[0]) - 1
        return at >= 0 and self._held[at][1] >= end

    def told_of(self, offset: int) -> str | None:
        """What became of the offset; None if nothing tells."""
        if _has(self._held, offset):
            return f"another segment holds offset {offset}"
        if _has(self._deleted, offset):
            return f"offset {offset} was deleted"
        return None


def refuse_world(world: SeenWorld, ages: CleaningAges) -> None:
    """Refuse to judge at all where an absence may be our own doing.

    Raises:
        RejectedError: It begins with the name of the reason, a `CleaningRefusal`.
    """
    if world.unseen:
        refuse(
            CleaningRefusal.PARTIAL_LISTING,
            f"{len(world.unseen)} parts of the tier could not be listed, the first: "
            f"{world.unseen[0].reason}",
        )
    lacking = world.elsewhere + sum(1 for one in world.judged if one.kind in _LACKING)
    if world.named_objects and not world.known_objects:
        refuse(
            CleaningRefusal.FOREIGN_LEDGER,
            f"the tier has {world.named_objects} objects of segments, and the store has none "
            "of their partitions; expected the store of the cluster that writes this tier",
        )
    if not world.whole and lacking:
        refuse(
            CleaningRefusal.WRONG_PREFIX,
            nothing_whole(lacking),
        )
    if not world.whole:
        refuse(
            CleaningRefusal.EMPTY_LEDGER,
            "the store has no finished segment that is whole in this tier; expected some, so "
            "that what it does not know means something",
        )
    _refuse_clocks(world, ages)
    _refuse_other_writers(world, ages)


def _refuse_clocks(world: SeenWorld, ages: CleaningAges) -> None:
    newest_object_ms = world.listed.newest_ms or 0
    newest_ms = world.newest_ms
    if newest_object_ms > ages.now_ms + AHEAD_MS:
        refuse(
            CleaningRefusal.CLOCK_JUMPED,
            f"an object was written at {time_text(newest_object_ms)}; expected none after now, "
            f"{time_text(ages.now_ms)} by this machine's clock",
        )
    if ages.now_ms - newest_ms > DAY_MS and not ages.is_idle:
        refuse(
            CleaningRefusal.CLOCK_JUMPED,
            f"nothing in the store or the tier is newer than {time_text(newest_ms)}, and it is "
            f"{time_text(ages.now_ms)} by this machine's clock; expected less than a day "
            "between. --idle if nothing was written since",
        )


def _refuse_other_writers(world: SeenWorld, ages: CleaningAges) -> None:
    young = [
        one
        for one in world.judged
        if one.kind in _UNKNOWN
        and _is_young(one.last_modified_ms, ages.present_ms(world), DAY_MS)
    ]
    if young:
        refuse(
            CleaningRefusal.TWO_CLUSTERS,
            f"objects of {len(young)} segments that no log knows were written within a day, "
            f"such as {young[0].place}; each copy is announced before its first object, so "
            "somebody else writes here, or has given objects back",
        )


def refuse(name: CleaningRefusal, text: str) -> NoReturn:
    raise RejectedError(f"{name}: {text}")


def weighed(
    world: SeenWorld, ages: CleaningAges, barred: Barred
) -> tuple[list[DeadWeight], list[LeftWeight]]:
    """What is dead weight, and what looks like it and is left, in a world not refused."""
    scales = _Scales(world, ages, barred)
    found = [*scales.segments(), *scales.finished(), *scales.strays(), *scales.quarantined()]
    found.sort(key=lambda one: one.place_in_plan)
    return found, scales.left()


class _Scales:
    def __init__(self, world: SeenWorld, ages: CleaningAges, barred: Barred) -> None:
        self._world = world
        self._ages = ages
        self._present_ms = ages.present_ms(world)
        self._barred = barred
        self._left: dict[tuple[LogKey, CleaningRefusal, str], list[int]] = {}
        self._lacking = Counter(
            LogKey(*one.key[:2]) for one in world.judged if one.kind in _LACKING
        )

    def left(self) -> list[LeftWeight]:
        found = []
        for (key, reason, detail), (count, size) in self._left.items():
            log = self._world.logs.get(key)
            topic = "" if log is None else log.topic
            found.append(LeftWeight(reason, topic, *key, count, size, detail))
        return sorted(
            found, key=lambda one: (one.reason, one.topic, one.topic_id, one.partition)
        )

    def segments(self) -> Iterator[DeadWeight]:
        """Copies and deletions that have not ended."""
        for one in self._world.judged:
            if one.kind != AuditKind.UNFINISHED:
                continue
            segment = self._world.segments[one.key]
            if segment.is_kept or not one.is_below_prefix:
                continue
            fields = unpack_row(segment.row)
            # Log time may be that of an earlier event, so the broker's own time counts, too.
            since_ms = max(segment.since_ms or 0, fields[EVENT_TIMESTAMP])
            if one.objects and one.last_modified_ms is not None:
                since_ms = max(since_ms, one.last_modified_ms)
            is_copy = segment.state == _COPYING
            if one.objects and one.last_modified_ms is None:
                self._leave(
                    one,
                    CleaningRefusal.TOO_YOUNG,
                    "its objects' age is not known",
                    fields[SIZE],
                )
                continue
            if _is_young(since_ms, self._present_ms, self._ages.older_than_ms):
                continue  # It is under way, as most are.
            if self._is_barred(one, size=fields[SIZE]):
                continue
            what = "copy" if is_copy else "deletion"
            evidence = (
                f"its {what} by broker {fields[BROKER]} began at "
                f"{time_text(segment.since_ms or 0)} and did not end"
            )
            kind = WeightKind.UNFINISHED_COPY if is_copy else WeightKind.UNFINISHED_DELETION
            size = sum(each.size for each in one.objects)
            row = row_digest(segment.row)
            yield self._weight(kind, one, (since_ms, size, one.objects, row, "", evidence))

    def finished(self) -> Iterator[DeadWeight]:
        """Segments that are finished, and that nobody needs or deletes any more."""
        for one in self._world.judged:
            segment, log = self._world.segments.get(one.key), self._log_of(one)
            if one.kind != AuditKind.WHOLE or segment is None or log is None:
                continue
            fields = unpack_row(segment.row)
            since_ms = max(fields[EVENT_TIMESTAMP], one.last_modified_ms or 0)
            if log.topic_gone is not None:
                kind, evidence = WeightKind.LEFT_OF_TOPIC, log.topic_gone
                since_ms = max(since_ms, log.log_time_ms)
            elif self._is_served_by_others(log.key, fields):
                kind = WeightKind.LOST_SEGMENT
                evidence = (
                    "Kafka's tables have it in none of its leader epochs, and segments that "
                    "they serve hold all of its offsets there"
                )
            else:
                continue  # Nobody else has its records.
            if _is_young(since_ms, self._present_ms, self._ages.older_than_ms):
                continue
            if kind == WeightKind.LOST_SEGMENT and self._lacking[log.key]:
                what = "other finished segments of the partition are not whole in the tier"
                self._leave(one, CleaningRefusal.MISSING_OBJECTS, what)
                continue
            if self._is_barred(one):
                continue
            size, row = sum(each.size for each in one.objects), row_digest(segment.row)
            yield self._weight(kind, one, (since_ms, size, one.objects, row, "", evidence))

    def _is_served_by_others(self, key: LogKey, fields: Row) -> bool:
        """Whether segments that Kafka's tables serve hold all offsets of a lost one."""
        served = self._world.served
        return all(
            (key, epoch) in served
            and served[key, epoch].holds(start, end_in_epoch(fields, epoch))
            for epoch, start in zip(fields[EPOCHS][::3], fields[EPOCHS][1::3], strict=True)
        )

    def strays(self) -> Iterator[DeadWeight]:
        """Objects that no log knows, or knows to be deleted."""
        for one in self._world.judged:
            key = LogKey(*one.key[:2])
            if one.kind == AuditKind.UNKNOWN_PARTITION:
                self._leave(
                    one,
                    CleaningRefusal.UNKNOWN_PARTITION,
                    "the store has no log that tells of it",
                )
            if one.kind == AuditKind.DAMAGED_LOG:
                self._leave(one, CleaningRefusal.DAMAGED_LOG, "its log cannot be read")
            if one.kind == AuditKind.TOO_YOUNG:
                self._leave(one, CleaningRefusal.TOO_YOUNG, "no log knows it, and it is young")
            if one.kind not in {AuditKind.ORPHAN, AuditKind.DELETED_BUT_THERE}:
                continue
            if _is_young(one.last_modified_ms, self._present_ms, self._ages.older_than_ms):
                self._leave(
                    one, CleaningRefusal.TOO_YOUNG, "it is young, or its age is not known"
                )
                continue
            if lacking := self._lacking[key]:
                what = f"{lacking} finished segments of the partition are not whole in the tier"
                self._leave(one, CleaningRefusal.MISSING_OBJECTS, what)
                continue
            if self._is_barred(one):
                continue
            evidence = "its deletion has ended, and these objects are left"
            if one.kind == AuditKind.ORPHAN:
                told = self._world.ranges[key].told_of(start_in(one.place or ""))
                if told is None:
                    what = "the log tells nothing of its first offset: it may be lost there"
                    self._leave(one, CleaningRefusal.UNEXPLAINED, what)
                    continue
                evidence = f"no event of its partition's log has named it; {told}"
            since_ms, size = one.last_modified_ms or 0, sum(each.size for each in one.objects)
            kind = WeightKind(one.kind.value)
            yield self._weight(kind, one, (since_ms, size, one.objects, "", "", evidence))

    def quarantined(self) -> Iterator[DeadWeight]:
        """What plans have taken long enough ago, and nobody has missed."""
        for quarantine in self._world.quarantines:
            taken = quarantine.taken
            since_ms = max(taken.taken_ms, quarantine.noted_ms)
            for (key, place), names in _by_segment(quarantine).items():
                objects = tuple(quarantine.objects[name] for name in names)
                one = Judged(AuditKind.ORPHAN, key, place, since_ms, objects, False)
                segment, log = self._world.segments.get(key), self._log_of(one)
                if _is_young(since_ms, self._present_ms, self._ages.quarantine_ms):
                    self._leave(
                        one,
                        CleaningRefusal.TOO_YOUNG,
                        "it is in quarantine for too short a time",
                    )
                elif log is None or log.standing != LogStanding.KNOWN:
                    what = "the log that did not know it cannot be read now"
                    self._leave(one, CleaningRefusal.DAMAGED_LOG, what)
                elif segment is not None and segment.state != _DELETED:
                    what = f"a log knows it now: clean undo gives plan {taken.plan} back"
                    self._leave(one, CleaningRefusal.KNOWN_AGAIN, what)
                elif not self._is_barred(one):
                    size = sum(each.size for each in objects)
                    evidence = (
                        f"plan {taken.plan} took it at {time_text(since_ms)}, and no log has "
                        "named it since"
                    )
                    rest = (since_ms, size, objects, "", taken.plan, evidence)
                    yield self._weight(WeightKind.QUARANTINED, one, rest)

    def _log_of(self, one: Judged) -> SeenLog | None:
        return self._world.logs.get(LogKey(*one.key[:2]))

    def _is_barred(self, one: Judged, *, size: int = 0) -> bool:
        log = self._log_of(one)
        assert log is not None, "only what a log was asked about is judged"
        why = self._why_barred(log)
        if why is not None:
            self._leave(one, *why, size)
        return why is not None

    def _why_barred(self, log: SeenLog) -> tuple[CleaningRefusal, str] | None:
        if log.log_time_ms > self._ages.now_ms + AHEAD_MS:
            return (
                CleaningRefusal.CLOCK_JUMPED,
                "its log's time is ahead of now: a clock was wrong",
            )
        return self._barred(log)

    def _leave(self, one: Judged, reason: CleaningRefusal, detail: str, size: int = 0) -> None:
        key = LogKey(*one.key[:2])
        counts = self._left.setdefault((key, reason, detail), [0, 0])
        counts[0] += 1
        counts[1] += sum(each.size for each in one.objects) or max(0, size)

    def _weight(
        self,
        kind: WeightKind,
        one: Judged,
        rest: tuple[int, int, tuple[WeightObject, ...], str, str, str],
    ) -> DeadWeight:
        since_ms, size, objects, row, quarantine, evidence = rest
        log = self._log_of(one)
        return DeadWeight(
            kind,
            "" if log is None else log.topic,
            *one.key,
            one.place or "",
            since_ms,
            size,
            objects,
            row,
            quarantine,
            ACTIONS[kind],
            kind in CAN_UNDO,
            evidence,
        )


def row_digest(row: bytes) -> str:
    """What tells whether a segment's row in a log is still the same."""
    return blake2b(row, digest_size=16).hexdigest()


def start_in(place: str) -> int:
    """The start offset in the prefix of a segment's objects; every layout ends it so."""
    return int(place.rpartition("/")[2][:20])


def _is_young(time_ms: int | None, present_ms: int, age_ms: int) -> bool:
    return time_ms is None or present_ms - time_ms < max(age_ms, DAY_MS)


def _by_segment(quarantine: SeenQuarantine) -> dict[tuple[SegmentKey, str], list[str]]:
    found: dict[tuple[SegmentKey, str], list[str]] = {}
    for name in sorted(quarantine.objects):
        found.setdefault(quarantine.key_of[name], []).append(name)
    return found


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _has(ranges: Sequence[tuple[int, int]], offset: int) -> bool:
    at = bisect_right(ranges, offset, key=lambda one: one[0]) - 1
    return at >= 0 and ranges[at][1] >= offset
