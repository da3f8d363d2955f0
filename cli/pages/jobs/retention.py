"""The page of `jobs retention`: each topic before and after, and deletions over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.pages.jobs.strips import ValueBar, bars
from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import Look
from tierledger.pages.texts import many, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.pipeline.jobs.retention.deletions import RetentionQuestion
    from tierledger.pipeline.jobs.retention.job import RetentionDigest
    from tierledger.pipeline.table_columns import PlainRow

TOPICS_DRAWN = 25
"""How many topics are drawn, with two bars each; the table has all."""

REASONS = {
    "time": "older than retention.ms",
    "size": "above retention.bytes",
    "log_start_offset": "before the start of the log",
    "interrupted": "their deletion has begun already",
    "stale_epoch": "of leader epochs before the log's first",
}


def retention_content(
    question: RetentionQuestion, digest: RetentionDigest
) -> dict[str, object]:
    """What `retention.html` shows."""
    topics = digest.topics()
    return {
        "question": question,
        "topics": topics,
        "topic_bars": bars(_topic_bars(topics)),
        "drawn_max": TOPICS_DRAWN,
        "time_bars": bars(_time_bars(digest.times(), question)),
        "reasons": digest.reasons(),
        "meanings": REASONS,
    }


def _topic_bars(topics: Sequence[PlainRow]) -> list[ValueBar]:
    made = []
    for row in topics[:TOPICS_DRAWN]:
        name, count = row["topic"] or row["topic_id"], many(row["partitions"], "partition")
        for when, look in (("before", Look.IDLE), ("after", Look.GOOD)):
            size, segments = row[f"bytes_{when}"], row[f"segments_{when}"]
            text = f"{size_text(size)}, {many(segments, 'segment')}"
            label, note = (name, count) if when == "before" else ("", "")
            made.append(ValueBar(label, note, size, text, look, f"{name} {when}: {text}"))
    return made


def _time_bars(times: Sequence[PlainRow], question: RetentionQuestion) -> list[ValueBar]:
    return [
        ValueBar(
            "now" if row["since_ms"] == question.now_ms else time_text(row["since_ms"]),
            many(row["segments"], "segment"),
            row["bytes"],
            size_text(row["bytes"]),
            Look.LEAVING,
        )
        for row in times
    ]
