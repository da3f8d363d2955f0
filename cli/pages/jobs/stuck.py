"""The page of `jobs stuck`: how long each copy and deletion has lasted, the oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.pages.jobs.strips import ValueBar, bars
from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import WORDS
from tierledger.pages.texts import size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.table_columns import PlainRow

BARS_MAX = 30


def stuck_content(
    totals: Mapping[str, tuple[int, int]],
    limits_ms: Mapping[str, int],
    rows: Sequence[PlainRow],
) -> dict[str, object]:
    """What `stuck.html` shows.

    `totals` has the count and the bytes of each state; `rows` are the oldest, in that order.
    """
    return {
        "words": {word: WORDS[word] for word in ("stuck", *limits_ms)},
        "states": list(limits_ms),
        "counts": {state: totals[state][0] for state in limits_ms if state in totals},
        "bytes": sum(size for _, size in totals.values()),
        "limits_ms": limits_ms,
        "rows": rows,
        "found": sum(count for count, _ in totals.values()),
        "bars": bars([_bar(row) for row in rows[:BARS_MAX]]),
        "advice": {row["state"]: row["advice"] for row in rows},
    }


def _bar(row: PlainRow) -> ValueBar:
    return ValueBar(
        f"{row['topic']}-{row['partition']}",
        row["segment_id"] or "the partition",
        row["age_ms"],
        span_text(row["age_ms"]),
        WORDS[row["state"]].look,
        f"{row['state']} since {time_text(row['since_ms'])}, broker {row['broker_id']}, "
        f"{size_text(row['size_in_bytes'])}",
    )
