"""The page of `spark retention`: what each topic has before and after, and what goes when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.cli.output import time_text
from tierledger.cli.report_text import count_text, many, size_text
from tierledger.cli.spark_page import (
    BAD,
    GOOD,
    WARN,
    Bar,
    Section,
    bars,
    damage_section,
    legend,
    note,
    page,
    table,
    tiles,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.fold_task import DamagedLog
    from tierledger.pipeline.job_retention import RetentionDigest
    from tierledger.pipeline.job_retention_plan import Question

# Rows are plain dictionaries of whatever the columns hold.
Row = dict[str, Any]

TOPICS_DRAWN = 60
"""Each has two bars; the table has more."""

REASONS = {
    "time": "older than retention.ms",
    "size": "above retention.bytes",
    "log_start_offset": "before the start of the log",
    "interrupted": "their deletion has begun already",
    "stale_epoch": "of leader epochs before the log's first",
}


def retention_page(
    facts: Mapping[str, object],
    question: Question,
    digest: RetentionDigest,
    damaged: Sequence[DamagedLog],
) -> str:
    """The page as HTML.

    Args:
        facts: What stands at the top.
        question: What was asked.
        digest: What goes.
        damaged: Logs that were left out.
    """
    topics, times = digest.topics(), digest.times()
    before = sum(row["bytes_before"] for row in topics)
    after = sum(row["bytes_after"] for row in topics)
    gone = sum(row["segments_before"] - row["segments_after"] for row in topics)
    numbers = [
        ("before", size_text(before), "bytes of all segments", False),
        ("after", size_text(after), "bytes of those that stay", False),
        ("freed", size_text(before - after), "bytes of those that go", False),
        ("segments go", count_text(gone), "over all topics", False),
    ]
    sections = [*damage_section(damaged), Section("In numbers", tiles(numbers))]
    if gone:
        looks = legend([(WARN, "before"), (GOOD, "after")])
        sections += [
            Section("By topic", looks + bars(_topic_bars(topics)), _left_out(topics)),
            Section("When", bars(_time_bars(times, question)), _about(times, question)),
            Section("Why", _reasons(digest.reasons())),
        ]
    else:
        sections.append(Section("What goes", note("Nothing.")))
    sections.append(Section("Every topic", _listing(topics)))
    return page("What another retention would delete", facts, sections)


def _topic_bars(topics: Sequence[Row]) -> list[Bar]:
    made = []
    for row in topics[:TOPICS_DRAWN]:
        name, count = row["topic"] or row["topic_id"], many(row["partitions"], "partition")
        for word, look in (("before", WARN), ("after", GOOD)):
            size, segments = row[f"bytes_{word}"], row[f"segments_{word}"]
            text = f"{size_text(size)}, {many(segments, 'segment')}"
            note_ = count if word == "before" else ""
            made.append(Bar(name if word == "before" else "", note_, size, text, look))
    return made


def _left_out(topics: Sequence[Row]) -> str:
    left = len(topics) - TOPICS_DRAWN
    return f"The {TOPICS_DRAWN} that lose most; {left} more are below." if left > 0 else ""


def _time_bars(times: Sequence[Row], question: Question) -> list[Bar]:
    return [
        Bar(
            "now" if row["since_ms"] == question.now_ms else time_text(row["since_ms"]),
            many(row["segments"], "segment"),
            row["bytes"],
            size_text(row["bytes"]),
            BAD if row["since_ms"] == question.now_ms else WARN,
        )
        for row in times
    ]


def _about(times: Sequence[Row], question: Question) -> str:
    if question.until_ms == question.now_ms:
        return "All of it as soon as brokers look; --until looks ahead."
    return f"{many(len(times), 'moment')} until {time_text(question.until_ms)}."


def _reasons(rows: Sequence[Row]) -> str:
    lines = [
        (
            row["reason"],
            REASONS.get(row["reason"], ""),
            row["segments"],
            size_text(row["bytes"]),
        )
        for row in rows
    ]
    return table(("reason", "meaning", "segments", "bytes"), lines)


def _listing(topics: Sequence[Row]) -> str:
    columns = (
        "topic",
        "id",
        "partitions",
        "segments",
        "bytes",
        "segments after",
        "bytes after",
    )
    lines = [
        (
            row["topic"],
            row["topic_id"],
            row["partitions"],
            row["segments_before"],
            row["bytes_before"],
            row["segments_after"],
            row["bytes_after"],
        )
        for row in topics
    ]
    return table(columns, lines)
