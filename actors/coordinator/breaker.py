"""Stops deletions when brokers delete too much of a tier too fast. Pure.

Hosts tell with each ping what their leaders have let brokers delete within an hour, and how
many bytes are tiered. If more than a share of the tier, or of a topic, went within an hour, the
coordinator places a hold, as an operator would: its release is the operator's confirmation.

What it bounds: the share, and what brokers delete until all hosts know the hold, a ping or two
and a second later. Hosts keep their counts, so a coordinator that starts knows them.
What a host had not told when it died is lost, and all of it if the coordinator dies, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tierledger.actors.calls import DeletionsHeard, HostPing, TopicDeletions
from tierledger.actors.deletion_counts import WINDOW_MIN, minute_of
from tierledger.actors.holds import HOLD_NAME_MAX, Hold
from tierledger.events.identifiers import Uuid

BREAKER = "breaker"
"""Name of the hold on all topics; one on a topic has its name, too: `breaker-orders`."""

BY = "tierledger"
"""Who places it."""

BREAKER_PERCENT = 50
"""Default share: an hour in which half of all is deleted is one that somebody should see."""

LOOK_MS = 1_000
"""Pause between two looks: with thousands of topics one takes some ms."""

FLOOR_BYTES = 1 << 30
"""Less is deleted without a look: in a cluster of that size a single topic is a large share."""


class BreakerShares(NamedTuple):
    """The percents that may go within an hour, 1 to 100; 0: all may."""

    cluster: int = BREAKER_PERCENT
    """Of all that is tiered."""
    topic: int = 0
    """Of each topic, by retention: its own deletion takes all of it."""


class _HostDeletions(NamedTuple):
    """What a host's process has told last."""

    process: str
    number: int
    tiered_bytes: int
    topics: Mapping[bytes, TopicDeletions]


class Breaker:
    """Adds up what brokers delete, by topic and minute."""

    def __init__(
        self, shares: BreakerShares | None = None, floor_bytes: int = FLOOR_BYTES
    ) -> None:
        self._shares = shares or BreakerShares()
        self._floor_bytes = floor_bytes
        self._told: dict[str, _HostDeletions] = {}
        """By host."""
        self._ended: dict[bytes, dict[int, tuple[int, int]]] = {}
        """What processes let go that have ended: by topic and minute."""
        self._looked_ms = -LOOK_MS
        self._seen: frozenset[bytes] = frozenset()
        """Topics of which something went within the hour, if each has a share."""
        self._most: dict[bytes | None, dict[int, int]] = defaultdict(dict)
        """By topic (None: all) and minute: the most that was tiered, with what had gone."""

    def heard(self, host: str) -> DeletionsHeard:
        """What is known of a host's counts, so that its answer tells the rest."""
        told = self._told.get(host)
        process, number = ("", -1) if told is None else told[:2]
        return DeletionsHeard(process, number, self._seen)

    def know(self, running: Collection[str]) -> None:
        """Keep what hosts let go that run no longer: others have their partitions now."""
        for host in [one for one in self._told if one not in running]:
            self._end(self._told.pop(host))

    def reported(self, host: str, ping: HostPing) -> None:
        """Take what a host tells with a ping."""
        former = self._told.get(host)
        if former is not None and former.process != ping.process:
            self._end(former)
            former = None
        known = {} if former is None else dict(former.topics)
        known.update({one.topic_id: one for one in ping.deleted.topics})
        self._told[host] = _HostDeletions(
            ping.process, ping.deleted.number, ping.tiered_bytes, known
        )

    def broken(
        self, running: Collection[str], now_ms: int, released_ms: Mapping[str, int]
    ) -> Sequence[Hold]:
        """The holds that are to be placed, as far as it is time for a look.

        None while a running host has told nothing yet. `released_ms`: by the name of such a
        hold, when it was released: that minute, and what was before it, count no more.
        """
        if 0 <= now_ms - self._looked_ms < LOOK_MS:
            return ()
        self._looked_ms = now_ms
        return tuple(self._found(running, minute_of(now_ms), released_ms))

    def _found(
        self, running: Collection[str], now: int, released_ms: Mapping[str, int]
    ) -> Iterator[Hold]:
        counts = self._counts(now)
        self._seen = frozenset(counts if self._shares.topic else ())
        for forgotten in self._most.keys() - counts.keys() - {None}:
            del self._most[forgotten]
        if not {*running} <= {*self._told}:
            return  # A coordinator that has just started does not know all that is tiered.
        tiered = sum(one.tiered_bytes for one in self._told.values())
        after = _after(released_ms, BREAKER)
        every = [each for minutes in counts.values() for each in minutes.items()]
        gone = sum(count[0] for minute, count in every if minute > after)
        total = self._total(None, now, gone + tiered)
        if self._is_over(gone, total, self._shares.cluster):
            yield _hold(BREAKER, gone, total, "", self._shares.cluster)
        if not self._shares.topic:
            return
        for topic_id, minutes in counts.items():
            those = [
                one.topics[topic_id] for one in self._told.values() if topic_id in one.topics
            ]
            topic = next((one.topic for one in those if one.topic), "")
            if not topic:
                continue  # It has no leader any more.
            name = name_of(topic, topic_id)
            after = _after(released_ms, name)
            gone = sum(count[1] for minute, count in minutes.items() if minute > after)
            total = self._total(topic_id, now, gone + sum(one.tiered_bytes for one in those))
            if self._is_over(gone, total, self._shares.topic):
                hold = _hold(name, gone, total, f" of {topic}", self._shares.topic)
                yield hold._replace(topic=topic, topic_id=topic_id)

    def _is_over(self, gone: int, total: int, percent: int) -> bool:
        return bool(percent) and gone > max(self._floor_bytes, total * percent // 100)

    def _total(self, what: bytes | None, now: int, seen: int) -> int:
        """The most that was tiered within the hour: who starts has loaded nothing yet."""
        most = self._most[what]
        most[now] = max(most.get(now, 0), seen)
        for old in [one for one in most if one <= now - WINDOW_MIN]:
            del most[old]
        return max(most.values())

    def _counts(self, now: int) -> dict[bytes, dict[int, tuple[int, int]]]:
        """By topic and minute: bytes that went, and those of them by retention."""
        for topic_id, minutes in list(self._ended.items()):
            for old in [one for one in minutes if one <= now - WINDOW_MIN]:
                del minutes[old]
            if not minutes:
                del self._ended[topic_id]
        found = {topic_id: dict(minutes) for topic_id, minutes in self._ended.items()}
        for told in self._told.values():
            for topic_id, one in told.topics.items():
                if one.minutes:
                    _add(found.setdefault(topic_id, {}), one, now - WINDOW_MIN)
        return {topic_id: minutes for topic_id, minutes in found.items() if minutes}

    def _end(self, told: _HostDeletions) -> None:
        for topic_id, one in told.topics.items():
            if one.minutes:
                _add(self._ended.setdefault(topic_id, {}), one)


def _add(minutes: dict[int, tuple[int, int]], one: TopicDeletions, after: int = -1) -> None:
    for minute, gone, expired in one.minutes:
        if minute > after:
            before = minutes.get(minute, (0, 0))
            minutes[minute] = (before[0] + gone, before[1] + expired)


def _after(released_ms: Mapping[str, int], name: str) -> int:
    released = released_ms.get(name)
    return -1 if released is None else minute_of(released)


def name_of(topic: str, topic_id: bytes) -> str:
    """The name of the hold on a topic."""
    name = f"{BREAKER}-{topic}"
    return name if len(name) <= HOLD_NAME_MAX else f"{BREAKER}-{Uuid(topic_id)}"


def _hold(name: str, gone: int, total: int, of: str, percent: int) -> Hold:
    reason = (
        f"brokers deleted {gone} of {total} bytes{of} within an hour, more than {percent} %"
    )
    return Hold(name, reason=reason, by=BY)
