"""Why brokers may not delete: an unowned time, and the holds that operators place.

The coordinator's log has both, and the coordinator tells hosts. A leader refuses to begin the
deletion of a finished segment that is under a hold, unless the broker is guarded: then the
segment is kept, and leaves all answers. It also refuses to end the deletion of a partition that
still has finished segments under one: with its end all segments would go.
A copy that never finished is cleaned up, and a deletion that has begun is finished.

A hold with a term is about what is deleted from now on: it keeps each segment for so long.

Rule: in doubt a segment is under the hold. Nobody knows the time of a segment's oldest record,
so the segment before it tells: its newest record is older. Without one before it, it is held.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.partition.state import KeptSegment
from tierledger.events.tables.segment_rows import END, MAX_TIMESTAMP, START, unpack_row
from tierledger.events.topic_patterns import is_open, matches
from tierledger.events.typed_fields import Count, Id, PartitionNumber, Text, Topic, time_text

HOLDS_MAX = 200
"""Most holds at a time. Each host hears of all with each ping, and a leader looks through all
for each deletion; so many patterns stay compiled."""

INTERNAL = (
    "__cluster_metadata",
    "__consumer_offsets",
    "__remote_log_metadata",
    "__share_group_state",
    "__transaction_state",
)
"""Kafka's own topics, which are never tiered."""

HOLD_NAME_MAX = 100
HoldName = Annotated[str, Meta(min_length=1, max_length=HOLD_NAME_MAX)]

_NAME = re.compile(r"[\w.:@-]+")


class Hold(NamedTuple):
    """An operator's hold: segments that match all that is given are not deleted."""

    name: HoldName
    topic: Topic = "*"
    """The pattern of topics' names, as of a shell: * ? [abc]."""
    topic_id: Id | None = None
    """Only the topic of this id, not another one of its name."""
    partition: PartitionNumber | None = None
    first_offset: Count | None = None
    last_offset: Count | None = None
    after_ms: Count | None = None
    """Of records' times: segments with a record at that time, or later."""
    before_ms: Count | None = None
    """Segments that may have a record from before that time."""
    until_ms: Count | None = None
    """The hold ends by itself at that time; None: when it is released."""
    reason: Text = ""
    by: Text = ""
    """Who placed it."""
    term_ms: Count | None = None
    """How long a segment is kept from its deletion on; None: while the hold is in force."""
    cause: Annotated[int, Meta(ge=0, le=2)] = DeletionCause.UNKNOWN
    """Only what is deleted for that `DeletionCause`, or for an unknown one; UNKNOWN: all."""

    def covers(self, tip: TopicIdPartition) -> bool:
        """Whether segments of that partition may be under the hold."""
        return (
            self.partition in {None, tip.partition}
            and self.topic_id in {None, bytes(tip.topic_id)}
            and (matches(tip.topic, self.topic) or not tip.topic)
        )

    def covers_segment(self, fields: list[Any], earlier: list[Any] | None) -> bool:
        """Whether a segment of such a partition is under it; `earlier`: the one before it."""
        start, end, newest_ms = fields[START], fields[END], fields[MAX_TIMESTAMP]
        is_known = newest_ms >= 0
        return not (
            (self.first_offset is not None and end < self.first_offset)
            or (self.last_offset is not None and start > self.last_offset)
            or (self.after_ms is not None and is_known and newest_ms < self.after_ms)
            or (
                self.before_ms is not None
                and earlier is not None
                and earlier[MAX_TIMESTAMP] >= self.before_ms
            )
        )

    def is_about(self, cause: int) -> bool:
        """Whether it is about what is deleted for that cause; in doubt it is."""
        return DeletionCause.UNKNOWN in {self.cause, cause} or self.cause == cause

    def is_over(self, now_ms: int) -> bool:
        """Whether it has ended by itself."""
        return self.until_ms is not None and now_ms >= self.until_ms

    @property
    def breadth(self) -> tuple[bool, ...]:
        """Sorts holds; the narrowest comes first."""
        return (
            self.partition is None,
            self.topic_id is None and is_open(self.topic),
            self.first_offset is None and self.last_offset is None,
            self.after_ms is None and self.before_ms is None,
        )


class Deletions(NamedTuple):
    """What brokers may not delete, as the coordinator tells hosts with each ping."""

    position: int = -1
    """Of the coordinator's newest event about that: a host believes the newest."""
    held: str = ""
    """Why no finished segment at all may be deleted (`unowned`); empty: there is no reason."""
    holds: tuple[Hold, ...] = ()
    """The narrowest first."""

    def over(self, tip: TopicIdPartition, now_ms: int) -> list[Hold]:
        """The holds that are in force for segments of that partition."""
        return [one for one in self.holds if not one.is_over(now_ms) and one.covers(tip)]


def in_force(holds: list[Hold]) -> list[Hold]:
    """Those of the holds about one segment that keep it, the narrowest first.

    Holds add up, but of the terms only the narrowest counts; so a narrow term of 0 is an
    exception from a wide one.
    """
    terms = [one for one in holds if one.term_ms is not None]
    narrowest = [one for one in terms if one.breadth == terms[0].breadth]
    return [one for one in holds if one.term_ms is None or (one in narrowest and one.term_ms)]


def kept_until_ms(holds: list[Hold], now_ms: int) -> int:
    """Until when the terms among `holds` keep a segment whose deletion begins now."""
    return now_ms + max((one.term_ms or 0 for one in holds), default=0)


def why_kept(
    kept: KeptSegment, tip: TopicIdPartition, told: Deletions, purger: int, now_ms: int
) -> str:
    """Why `purger` may not delete the data of a kept segment yet; empty: it may.

    A purge that has begun cannot be held any more. A term is no reason: it is about what is
    deleted later.
    """
    if kept.purger is not None:
        if kept.is_free(purger, now_ms):
            return ""
        return (
            f"broker {kept.purger} is purging it" if kept.purger >= 0 else "it is being purged"
        )
    if kept.is_unreleased:
        return "it is kept until somebody releases it (`tierledger trash release`)"
    if now_ms < kept.until_ms:
        return f"it is kept until {time_text(kept.until_ms)}"
    if told.held:
        return told.held
    row = unpack_row(kept.row)
    holds = told.over(tip, now_ms)
    ours = (one for one in holds if one.term_ms is None and one.covers_segment(row, None))
    hold = next(ours, None)
    return "" if hold is None else text_of_hold(hold)


def text_of_hold(hold: Hold) -> str:
    """Why a deletion is refused, in one sentence."""
    until = "until it is released" if hold.until_ms is None else "until its time is over"
    return f"it is under the hold {hold.name} of {hold.by} {until}: {hold.reason}"


def text_of_keeper(hold: Hold) -> str:
    """Why what was deleted stays: a term counts from the deletion, whatever the hold does."""
    if hold.term_ms is None:
        return text_of_hold(hold)
    return f"it was deleted under the term of the hold {hold.name} of {hold.by}: {hold.reason}"


def check_hold(hold: Hold) -> None:
    """Refuse what no hold can be about.

    Raises:
        InvalidArgument: The fields do not fit each other.
    """
    if not _NAME.fullmatch(hold.name):
        raise InvalidArgument(
            f"name: expected letters, digits and any of _ . : @ -, got {hold.name!r}"
        )
    if hold.topic in INTERNAL:
        raise InvalidArgument(
            f"topic {hold.topic}: it is internal to Kafka and never tiered; expected another"
        )
    if not hold.topic:
        raise InvalidArgument("topic: expected a name or a pattern, got an empty text")
    if not hold.reason.strip():
        raise InvalidArgument("reason: expected why nothing may be deleted, got an empty text")
    if hold.cause and hold.term_ms is None:
        raise InvalidArgument("cause: expected none without a term")
    for name, low, high, text in (
        ("offsets", hold.first_offset, hold.last_offset, str),
        ("after and before", hold.after_ms, hold.before_ms, time_text),
    ):
        if low is not None and high is not None and low > high:
            raise InvalidArgument(
                f"{name}: expected the lower one first, got {text(low)} and {text(high)}"
            )
