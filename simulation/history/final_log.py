"""What the store holds at the end of a run: one partition's log, verified and indexed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim
from tierledger.events.errors import CorruptLog
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import (
    Event,
    SegmentKept,
    SessionClosed,
    SessionOpened,
)
from tierledger.storage.partition.event_log import StoredBatch, decode_batch
from tierledger.storage.serde import MetadataSerDe


class LoggedBatch(NamedTuple):
    """One batch of the log, with the time (ns, history's clock) it became durable, if known."""

    number: int
    value: bytes
    durable_at: int | None = None


class FinalLog:
    """One partition's log from its beginning; made once, read by every checker.

    Attributes:
        key: The partition.
        topic_id_partition: The partition, with its topic's name.
        genesis: The hash before the first event.
        events: All events, by position.
        chain_hashes: Position of each batch's last event to that event's hash.
        durable_at: Per position, when (ns) it became durable; none if unknown.
        requests: Request id to the position of its first event; if that led to a kept segment,
            of the event that says so.
        repeated: Requests that appear again: id, first position, next position.
        sessions: Positions of `SessionOpened`.
        claims: Per position, the claim that leads there; none if nobody leads.
        durable_times: The times in `durable_at`, each once, ascending.
        durable_ends: The last position that was durable at each of them.
    """

    __slots__ = (
        "chain_hashes",
        "claims",
        "durable_at",
        "durable_ends",
        "durable_times",
        "events",
        "genesis",
        "key",
        "repeated",
        "requests",
        "sessions",
        "topic_id_partition",
    )

    def __init__(
        self,
        topic_id_partition: TopicIdPartition,
        genesis_hash: bytes,
        events: Sequence[Event] = (),
        *,
        chain_hashes: Mapping[int, bytes] | None = None,
        durable_at: Sequence[int | None] | None = None,
    ) -> None:
        self.key = PartitionKey.of(topic_id_partition)
        self.topic_id_partition = topic_id_partition
        self.genesis = genesis_hash
        self.events = events
        self.chain_hashes = chain_hashes or {}
        self.durable_at = list(repeat(None, len(events)) if durable_at is None else durable_at)
        self.requests: dict[bytes, int] = {}
        self.repeated: list[tuple[bytes, int, int]] = []
        self.sessions: list[int] = []
        self.claims: list[Claim | None] = []
        self.durable_times: list[int] = []
        self.durable_ends: list[int] = []
        self._index()
        self._index_times()

    @property
    def end(self) -> int:
        """The last position; -1 if the log is empty."""
        return len(self.events) - 1

    def claim_at(self, position: int) -> Claim | None:
        """The claim that leads at `position`; none if nobody leads there."""
        return self.claims[position] if 0 <= position < len(self.claims) else None

    def durable_before(self, time: int) -> int:
        """How many events were certainly durable before `time`."""
        at = bisect_left(self.durable_times, time)
        return self.durable_ends[at - 1] + 1 if at else 0

    def durable_until(self, time: int | None) -> int:
        """How many events may have been durable at `time`; all of them if that is unknown."""
        if time is None or None in self.durable_at:
            return len(self.durable_at)
        at = bisect_right(self.durable_times, time)
        return self.durable_ends[at - 1] + 1 if at else 0

    def _index_times(self) -> None:
        times, ends = self.durable_times, self.durable_ends
        latest: int | None = None
        for position, time in enumerate(self.durable_at):
            if time is None:
                continue
            if time == latest:
                ends[-1] = position
            else:
                times.append(time)
                ends.append(position)
                latest = time

    def _index(self) -> None:
        claim: Claim | None = None
        number, requests, note = 0, self.requests, self.claims.append
        for position, event in enumerate(self.events):
            request_id, body = event.request_id, event.body
            if request_id is not None and event.broker_id >= 0:
                first = requests.setdefault(request_id, position)
                if type(body) is SegmentKept and first == position - 1:
                    requests[request_id] = position  # One write, which two events hold.
                elif first != position:
                    self.repeated.append((request_id, first, position))
            if type(body) is SessionOpened:
                self.sessions.append(position)
                number = body.number
                claim = Claim(body.broker_id, body.incarnation, body.announcement)
            elif type(body) is SessionClosed and body.number == number:
                claim = None
            note(claim)


def decode_log(
    serde: MetadataSerDe,
    cluster_id: str,
    topic_id_partition: TopicIdPartition,
    batches: Iterable[LoggedBatch],
) -> FinalLog:
    """The log that `batches` hold, which are in order, from the first on.

    Raises:
        CorruptLog: A batch is missing or does not verify.
    """
    tip = topic_id_partition
    first = previous = genesis(cluster_id, tip.topic_id, tip.partition)
    events: list[Event] = []
    chain_hashes: dict[int, bytes] = {}
    durable_at: list[int | None] = []
    for expected, (number, value, time) in enumerate(batches):
        if number != expected:
            why = "" if expected else "; what was forgotten cannot be judged"
            raise CorruptLog(
                f"{tip}: expected batch {expected} of the log, found {number}{why}"
            )
        decoded = decode_batch(serde, StoredBatch(number, value), len(events), previous)
        events += decoded.events
        previous = decoded.chain_hash
        chain_hashes[len(events) - 1] = previous
        durable_at += [time] * len(decoded.events)
    return FinalLog(tip, first, events, chain_hashes=chain_hashes, durable_at=durable_at)
