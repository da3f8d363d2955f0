"""What a host's leaders have let brokers delete within an hour, by topic and minute. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tierledger.actors.calls import DeletionReport, DeletionsHeard, TopicDeletions
from tierledger.events.identifiers import TopicIdPartition

WINDOW_MIN = 60
"""Minutes that are looked at together."""

_MINUTE_MS = 60_000


def minute_of(time_ms: int) -> int:
    """Minutes since 1970."""
    return time_ms // _MINUTE_MS


class DeletionCounts:
    """Counts deletions as they begin, and tells what has changed since it was told last."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._topics: dict[bytes, str] = {}
        self._minutes: dict[bytes, dict[int, tuple[int, int]]] = {}
        """By topic and minute: bytes that went, and those of them by retention."""
        self._changed: set[bytes] = set()
        """Topics whose `_minutes` are not as they were told."""
        self._minute = -1
        """The newest minute that was looked at."""
        self._number = 0
        self._told: dict[bytes, tuple[int, TopicDeletions]] = {}
        """By topic: what is told of it, and the number of that change."""

    def add(self, tip: TopicIdPartition, size: int, now_ms: int, *, is_expired: bool) -> None:
        """Count bytes whose deletion has begun; `is_expired`: not with their partition."""
        topic_id, minute = bytes(tip.topic_id), minute_of(now_ms)
        self._topics[topic_id] = tip.topic
        minutes = self._minutes.setdefault(topic_id, {})
        gone, expired = minutes.get(minute, (0, 0))
        minutes[minute] = (gone + size, expired + size * is_expired)
        self._changed.add(topic_id)

    def report(
        self, heard: DeletionsHeard, tiered: Mapping[bytes, tuple[str, int]], now_ms: int
    ) -> DeletionReport:
        """What a coordinator that has `heard` that does not know yet.

        `tiered`: by topic, its name and the bytes of its segments that are led here.
        """
        self._forget(minute_of(now_ms))
        told, wanted = self._told, self._minutes.keys() | heard.topics
        for topic_id in told.keys() - wanted:
            del told[topic_id]
        for topic_id in wanted:
            name, size = tiered.get(topic_id, (self._topics.get(topic_id, ""), 0))
            is_told = topic_id in told and topic_id not in self._changed
            if is_told and told[topic_id][1].tiered_bytes == size:
                continue
            minutes = self._minutes.get(topic_id, {})
            row = tuple((minute, *counts) for minute, counts in minutes.items())
            self._number += 1
            told[topic_id] = (self._number, TopicDeletions(topic_id, name, size, row))
        self._changed.clear()
        after = heard.number if heard.process == self._process else -1
        changed = (row for number, row in told.values() if number > after)
        return DeletionReport(self._number, tuple(changed))

    def _forget(self, minute: int) -> None:
        """Drop what is older than the window."""
        if minute == self._minute:
            return
        self._minute = minute
        for topic_id, minutes in list(self._minutes.items()):
            for old in [one for one in minutes if one <= minute - WINDOW_MIN]:
                del minutes[old]
                self._changed.add(topic_id)
            if not minutes:
                del self._minutes[topic_id], self._topics[topic_id]
