"""Whether Kafka's own rules explain that a broker deletes a segment.

Brokers delete a finished segment whose records are older than `retention.ms`, the oldest ones
above `retention.bytes`, and what is below the log's start, where DeleteRecords may have put it.
All else is a mistake: of a broker, of a clock, of a person who changed the settings back.

Rule: a log start by itself explains nothing where retention may have raised it. Retention
raises it to the end of the last segment that it is about to delete, and then deletes; so what
ends there has to be explained by time or size. DeleteRecords goes to any offset.

Rule: the bytes are those of the ledger. Kafka counts what it has in its folder beside what is
in the tier, and before 4.3.2 a leader that has just started counts the same bytes twice
(KAFKA-20732). Here what no segment has yet is estimated from the newest segment.

Pure: what Kafka says was read by the host, after the broker asked for the deletion.
"""

from __future__ import annotations

from typing import NamedTuple

from tierledger.events.partition.overlay import Overlay
from tierledger.events.tables.segment_rows import (
    END,
    EPOCHS,
    MAX_TIMESTAMP,
    SIZE,
    START,
    Row,
)
from tierledger.events.typed_fields import time_text

UNLIMITED = -1
"""Value of `retention.ms` and `retention.bytes` for no limit."""

CLOCKS_MS = 60_000
"""By so much a broker's clock may be ahead. Versions of Kafka differ by 1 ms in what is old."""

LOCAL_FACTOR = 2
"""The local log may have so many times the bytes that the newest segment lets expect."""


class ToldRetention(NamedTuple):
    """What the broker that leads a partition says of it."""

    retention_ms: int
    retention_bytes: int
    log_start: int
    first_epoch: int
    """The leader epoch at the log's start; -1 if it does not say."""
    end: int
    """The high watermark."""


class NotKnown(NamedTuple):
    """Nobody could be asked, or the answer was an error."""

    why: str


def unexplained(view: Overlay, segment: Row, told: ToldRetention, now_ms: int) -> str:
    """Why no rule explains the deletion of a finished segment; empty if one does."""
    start_text = _not_by_log_start(view, segment, told)
    if not start_text:
        return ""
    time = _not_by_time(segment, told, now_ms)
    if not time:
        return ""
    size = _not_by_size(view, segment, told)
    if not size:
        return ""
    return f"Kafka's rules do not explain this deletion: {time}; {size}; {start_text}"


def _not_by_log_start(view: Overlay, segment: Row, told: ToldRetention) -> str:
    start = told.log_start
    if segment[END] >= start:
        if max(segment[EPOCHS][::3]) < told.first_epoch:
            return ""  # Another lineage: an unclean election left it.
        return f"the log starts at {start}"
    if segment[END] == start - 1 or view.has_finished_that_ends_at(start - 1):
        return f"the log starts at {start}, where a segment ends, as retention leaves it"
    return ""


def _not_by_time(segment: Row, told: ToldRetention, now_ms: int) -> str:
    if told.retention_ms <= UNLIMITED:
        return "retention.ms has no limit"
    if segment[MAX_TIMESTAMP] <= now_ms - told.retention_ms + CLOCKS_MS:
        return ""
    return (
        f"retention.ms is {told.retention_ms}, and its newest record is of "
        f"{time_text(segment[MAX_TIMESTAMP])}"
    )


def _not_by_size(view: Overlay, segment: Row, told: ToldRetention) -> str:
    if told.retention_bytes <= UNLIMITED:
        return "retention.bytes has no limit"
    tier, local = view.finished_bytes, local_bytes(view, segment, told.end)
    if tier + LOCAL_FACTOR * local >= told.retention_bytes + segment[SIZE]:
        return ""
    return (
        f"retention.bytes is {told.retention_bytes}, the tier has {tier} bytes with this "
        f"segment's {segment[SIZE]}, and the brokers about {local} more"
    )


def local_bytes(view: Overlay, segment: Row, end: int) -> int:
    """About how many bytes no segment of the tier has yet, up to offset `end`."""
    highest, newest = view.newest
    newest = newest or segment
    records: int = max(1, newest[END] - newest[START] + 1)
    size: int = max(0, newest[SIZE])
    return max(0, end - highest - 1) * size // records
