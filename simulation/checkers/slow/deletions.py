"""The slow counterpart of what holds, terms and guards do to deletions, from the guide's words.

No code is shared with `actors.holds`, `due` and `explained`. Holds by the times of records, and
what brokers have beyond the tier, are left to tests: nobody asks about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from tierledger.actors import due
from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.actors.holds import Deletions, Hold
from tierledger.events import commands as cmd
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import UNTIL_RELEASED_MS, SegmentAdded
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    PARTITION_DELETE_FINISHED,
)

CLOCKS_MS = 60_000
"""By so much a broker's clock may be ahead."""


class KeptFact(NamedTuple):
    """What is known of a segment that was kept from deletion."""

    until_ms: int
    added: SegmentAdded
    position: int
    """Of the event that kept it."""
    purger: int | None = None
    lease_until_ms: int = 0


class SegmentFact(NamedTuple):
    """What is known of a segment."""

    state: int
    broker_id: int
    time_ms: int
    custom: bytes | None
    added: SegmentAdded


def is_over(hold: Hold, now_ms: int) -> bool:
    """Whether the hold has ended by itself."""
    return hold.until_ms is not None and hold.until_ms <= now_ms


def is_about_partition(hold: Hold, tip: TopicIdPartition) -> bool:
    """Whether segments of that partition may be under the hold; without a name they are."""
    if hold.partition is not None and hold.partition != tip.partition:
        return False
    if hold.topic_id is not None and hold.topic_id != bytes(tip.topic_id):
        return False
    return tip.topic == "" or fnmatchcase(tip.topic, hold.topic)


def is_about(hold: Hold, tip: TopicIdPartition, added: SegmentAdded) -> bool:
    """Whether a segment is under the hold, as far as it is about offsets."""
    assert hold.after_ms is None, "no world has such a hold"
    assert hold.before_ms is None, "no world has such a hold"
    low = 0 if hold.first_offset is None else hold.first_offset
    high = added.end_offset if hold.last_offset is None else hold.last_offset
    overlaps = added.start_offset <= high and low <= added.end_offset
    return overlaps and is_about_partition(hold, tip)


def keepers(holds: Iterable[Hold], cause: int) -> list[Hold]:
    """Of the holds about a segment that is deleted for `cause`, those that keep it.

    All without a term. Of those with one, the narrowest: a partition before all of a topic, a
    topic before a pattern, some offsets before all. A term of 0 keeps nothing.
    """
    known = [one for one in holds if 0 in {one.cause, cause} or one.cause == cause]
    terms = [one for one in known if one.term_ms is not None]
    best = min((_breadth(one) for one in terms), default=())
    of_terms = [one for one in terms if _breadth(one) == best and one.term_ms != 0]
    return [one for one in known if one.term_ms is None] + of_terms


def _breadth(hold: Hold) -> tuple[int, ...]:
    is_open = hold.topic_id is None and any(one in hold.topic for one in "*?[")
    all_offsets = hold.first_offset is None and hold.last_offset is None
    return (int(hold.partition is None), int(is_open), int(all_offsets))


class RefusedCommand(NamedTuple):
    """The command is refused."""

    alarm: str


def held_or_kept(
    tip: TopicIdPartition,
    segments: Mapping[bytes, SegmentFact],
    before: Mapping[bytes, SegmentFact],
    delete: int | None,
    command: cmd.Command,
    told: Deletions,
    retention: ToldRetention | NotKnown | None,
    now_ms: int,
) -> RefusedCommand | int | None:
    """What becomes of a deletion: refused, kept until a time, or let go.

    `before`: the segments before the batch that the command is part of. `delete`: the state of
    the partition's own deletion.
    """
    holds = [one for one in told.holds if not is_over(one, now_ms)]
    if isinstance(command, cmd.PutPartitionDelete):
        ends = command.metadata.state == PARTITION_DELETE_FINISHED != delete
        is_any = any(one.state == COPY_FINISHED for one in before.values())
        changed = any(before.get(one) != now for one, now in segments.items())
        about = [one for one in holds if is_about_partition(one, tip) and one.term_ms != 0]
        return (
            RefusedCommand("deletion-held") if ends and (is_any or changed) and about else None
        )
    if not isinstance(command, cmd.UpdateSegment) or command.update.state <= COPY_FINISHED:
        return None
    known = segments.get(bytes(command.update.remote_log_segment_id.id))
    if known is None or known.state != COPY_FINISHED or delete == PARTITION_DELETE_FINISHED:
        return None
    if told.held and delete is None:
        return RefusedCommand("deletion-held")
    guarded_for = command.guarded_for
    if guarded_for is not None and delete is None and retention is not None:
        if isinstance(retention, NotKnown):
            return RefusedCommand("deletion-not-judged")
        if not _is_explained(known.added, retention, now_ms, segments, before):
            return UNTIL_RELEASED_MS
    about = [one for one in holds if is_about(one, tip, known.added)]
    found = keepers(about, 0 if guarded_for is None else int(guarded_for))
    if not found:
        return None
    if guarded_for is None:
        return RefusedCommand("deletion-held")
    return now_ms + max(0 if one.term_ms is None else one.term_ms for one in found)


def _is_explained(
    added: SegmentAdded,
    told: ToldRetention,
    now_ms: int,
    segments: Mapping[bytes, SegmentFact],
    before: Mapping[bytes, SegmentFact],
) -> bool:
    """Whether a rule of Kafka's explains a deletion; by size, if the tier is too large.

    A log start that rose explains it, unless a segment ends right before it: retention leaves
    it there, too.
    """
    assert told.end == 0, "nobody asks about a log beyond its tier"
    finished = (one.added.end_offset for one in before.values() if one.state == COPY_FINISHED)
    is_behind = added.end_offset < told.log_start
    if is_behind and told.log_start - 1 not in {added.end_offset, *finished}:
        return True
    if not is_behind and all(epoch < told.first_epoch for epoch in added.epochs[::2]):
        return True
    if told.retention_ms >= 0 and (
        added.max_timestamp_ms <= now_ms - told.retention_ms + CLOCKS_MS
    ):
        return True
    tier = sum(
        one.added.size
        for segment_id, one in before.items()
        if one.state == COPY_FINISHED
        and segment_id in segments
        and segments[segment_id].state == COPY_FINISHED
    )
    return told.retention_bytes >= 0 and tier >= told.retention_bytes + added.size


def is_held_as_a_whole(tip: TopicIdPartition, told: Deletions, now_ms: int) -> bool:
    """Whether nothing of a partition may be cleaned up: any hold but a term forbids it."""
    return bool(told.held) or any(
        one.term_ms is None and not is_over(one, now_ms) and is_about_partition(one, tip)
        for one in told.holds
    )


def kept_longer(
    tip: TopicIdPartition, command: cmd.EndSegments, told: Deletions, now_ms: int
) -> cmd.EndSegments:
    """A clean-up whose finished segments stay at least as long as the terms say, wordless."""
    if command.keep is None:
        return command
    terms = [
        one.term_ms or 0
        for one in told.holds
        if not is_over(one, now_ms) and is_about_partition(one, tip)
    ]
    until_ms = max(command.keep.until_ms, now_ms + max([0, *terms]))
    return command._replace(keep=cmd.Keep(until_ms, ""))


def due_now(
    tip: TopicIdPartition,
    kept: Mapping[bytes, KeptFact],
    command: cmd.StartPurges,
    told: Deletions,
    now_ms: int,
) -> tuple[bytes, ...]:
    """The segments whose purge may begin by that command, in the order of their deletion."""
    found = [one for one in command.segment_ids if one in kept]
    if not command.segment_ids:
        behind = [one for one, of in kept.items() if of.position > command.after]
        found = sorted(behind, key=lambda one: kept[one].position)[: due.LOOKED_MAX]
    most = len(command.segment_ids) or command.choose
    return tuple(one for one in found if _is_due(tip, kept[one], command, told, now_ms))[:most]


def _is_due(
    tip: TopicIdPartition, kept: KeptFact, command: cmd.StartPurges, told: Deletions, now: int
) -> bool:
    waits = kept.until_ms == UNTIL_RELEASED_MS and kept.purger is None
    if command.released and not waits:
        return False
    if kept.purger is not None:
        return kept.purger == command.origin.broker_id or kept.lease_until_ms <= now
    if told.held or not (command.released or kept.until_ms <= now):
        return False
    return not any(
        one.term_ms is None and not is_over(one, now) and is_about(one, tip, kept.added)
        for one in told.holds
    )
