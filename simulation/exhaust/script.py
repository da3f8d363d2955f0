"""What happens in the small world, in whatever order: who is to lead, and who calls what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)

if TYPE_CHECKING:
    from tierledger.events.kafka.codec import KafkaValue

TIP = TopicIdPartition(Uuid(bytes(15) + b"\x07"), 0, "orders")
"""The one partition."""

SITES = 2
"""Hosts, and brokers: the first to lead is broker 1, at host 0."""

STORE, HOST, BROKER, COORDINATOR = 0, 1, 1 + SITES, 1 + 2 * SITES
"""Queues: the first here hears first. Hosts and brokers have one each."""
QUEUES = COORDINATOR + 1

EVERYTHING = Query("list")


class Bounds(NamedTuple):
    """How much is tried."""

    delays: int = 3
    """Deliveries that may be late, each by as much as one likes."""
    crashes: int = 1
    appends: int = 3
    changes: int = 2
    """Leadership changes after the first leader."""
    reads: int = 0
    """Of the first broker: one at the follower, then one at the leader that it knows."""


class Variant(NamedTuple):
    """What a world is like apart from its order."""

    tells: bool
    """Whether the former leader's host is told that it leads no more."""

    @property
    def name(self) -> str:
        return "told" if self.tells else "untold"


VARIANTS = (Variant(tells=False), Variant(tells=True))


class Term(NamedTuple):
    """Kafka's word that a broker leads, and the host that the coordinator gives it."""

    site: int
    claim: cmd.Claim
    leader_epoch: int


class Call(NamedTuple):
    """One call of a broker; `command` or `query`."""

    broker: int
    term: int
    """Whose claim a write is made under."""
    role: str
    what: str
    command: cmd.Command | None
    query: Query
    wanted: KafkaValue | None


Item: TypeAlias = "tuple[str, int]"
"""("lead", term), ("follow", site), ("call", number) or ("rest", 0)."""


class Script:
    """The items in their order, with what they refer to."""

    def __init__(self, bounds: Bounds, variant: Variant) -> None:
        """The last call is made when all is quiet, by the broker that leads: it has to succeed.

        Raises:
            InvalidArgument: A bound is negative.
        """
        if min(bounds) < 0:
            raise InvalidArgument(f"expected bounds of at least 0, found {tuple(bounds)}")
        self.variant = variant
        self.terms: list[Term] = []
        self.calls: list[Call] = []
        self.items: list[Item] = []
        for term in range(bounds.changes + 1):
            self._term(term, bounds)
        self.items.append(("rest", 0))
        self._call(bounds.changes, self._add(bounds.changes, bounds.appends))

    def _term(self, term: int, bounds: Bounds) -> None:
        site = term % SITES
        claim = cmd.Claim(1 + site, 1, 1 + term // SITES)
        self.terms.append(Term(site, claim, term))
        if term == 0 and bounds.reads:
            self.items.append(("follow", 1))
        self.items.append(("lead", term))
        for number in range(bounds.appends):
            if number % (bounds.changes + 1) == term:
                self._call(term, self._write(term, number))
        if term == 0 and bounds.reads > 0:
            self._call(term, self._read(term, FOLLOWER))
        elif term == 1 and bounds.reads > 1:  # The leader before believes that it still leads.
            self._call(term, self._read(term - 1, LEADER))

    def _call(self, _: int, call: Call) -> None:
        self.items.append(("call", len(self.calls)))
        self.calls.append(call)

    def _read(self, term: int, role: str) -> Call:
        broker = self.terms[term].claim.broker_id
        return Call(broker - 1, term, role, f"read at the {role}", None, EVERYTHING, None)

    def _write(self, term: int, number: int) -> Call:
        """Every other write finishes the segment before, which another may have added."""
        return self._finish(term, number) if number % 2 else self._add(term, number)

    def _add(self, term: int, number: int) -> Call:
        claim = self.terms[term].claim
        added = RemoteLogSegmentMetadata(
            remote_log_segment_id=_segment(number),
            start_offset=10 * number,
            end_offset=10 * number + 9,
            max_timestamp_ms=number,
            broker_id=claim.broker_id,
            event_timestamp_ms=number,
            segment_size_in_bytes=100,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs={0: 10 * number},
        )
        command = cmd.AddSegment(claim, _origin(claim, number), added)
        return self._made(term, f"add segment {number}", command, added)

    def _finish(self, term: int, number: int) -> Call:
        claim = self.terms[term].claim
        finished = RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=_segment(number - 1),
            event_timestamp_ms=number,
            custom_metadata=None,
            state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            broker_id=claim.broker_id,
        )
        command = cmd.UpdateSegment(claim, _origin(claim, number), finished)
        return self._made(term, f"finish segment {number - 1}", command, finished)

    def _made(self, term: int, what: str, command: cmd.Command, wanted: Any) -> Call:  # noqa: ANN401
        broker = self.terms[term].claim.broker_id - 1
        return Call(broker, term, LEADER, what, command, EVERYTHING, wanted)


def _segment(number: int) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(TIP, Uuid(bytes(15) + bytes([1 + number])))


def _origin(claim: cmd.Claim, number: int) -> Origin:
    return Origin(claim.broker_id, b"request %d" % number)
