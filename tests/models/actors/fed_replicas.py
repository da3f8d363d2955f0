"""A partition that feeds replicas, and a replica behind a connection that may break."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

from typing_extensions import override

from tests.models.events.driven_partition import DrivenPartition, open_session
from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.feed.frames import Frame, SnapshotBegun
from tierledger.actors.feed.replica import Replica, Resubscription
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.leader.claim import is_under
from tierledger.events.commands import Claim
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.simulation.checkers.slow.model import SlowPartition


class FedPartition(DrivenPartition):
    """A partition that feeds its batches to replicas once they are applied."""

    def __init__(self, tip: TopicIdPartition, claim: Claim | None) -> None:
        """`claim`: the claim that leads; none: nothing leads, and the log is empty."""
        super().__init__()
        self.state = PartitionState(tip, genesis("cluster", tip.topic_id, tip.partition))
        self.feed = FeedSource(self, self.session_under)
        if claim is not None:
            self.accept(open_session(claim, 1, imports=True))

    def session_under(self, claim: Claim) -> int | None:
        session = self.state.session
        return session.number if session is not None and is_under(session, claim) else None

    @override
    def commit(self, events: Iterable[Event]) -> None:
        batch = tuple(events)
        super().commit(batch)
        self.feed.changed(batch)


class Connected:
    """A replica with its connection: frames in flight, and counts of its subscriptions."""

    def __init__(self, source: FeedSource, key: PartitionKey, claim: Claim) -> None:
        self.source = source
        self.replica = Replica(key, LEADER)
        self.replica.expect(claim)
        self.on_its_way: deque[Frame] = deque()
        self.refusals: list[Resubscription] = []
        self.snapshots = 0
        self.connections = 0
        self.looked_for: list[tuple[int, bytes]] = []
        """Positions and hashes that the source had to find in the log."""
        self.is_of_the_log = True
        """Whether the log has them."""
        self._number: int | None = None

    def disconnect(self) -> None:
        """Break the connection; frames in flight are lost."""
        if self._number is not None:
            self.source.drop(self._number)
            self._number = None
        self.on_its_way.clear()

    def take(self, limit: int) -> bool:
        """Send and apply up to `limit` frames; returns whether there may be more."""
        if self._number is None:
            self._number = self.source.subscribe(self.replica.subscription())
            self.connections += 1
        frames = self.source.take(self._number, limit)
        if (held := self.source.unproven(self._number)) is not None:
            self.looked_for.append(held)
            self.source.proven(self._number, held, is_held=self.is_of_the_log)
            frames = self.source.take(self._number, limit)
        self.on_its_way.extend(frames)
        taken = len(self.on_its_way)
        while self.on_its_way:
            frame = self.on_its_way.popleft()
            self.snapshots += isinstance(frame, SnapshotBegun)
            before = self.replica.floor
            refusal = self.replica.take(frame)
            assert self.replica.floor >= before
            if refusal is not None:
                self.refusals.append(refusal)
                self.disconnect()
                return True
        return taken == limit

    def catch_up(self) -> Replica:
        """Apply all that the source sends; returns the replica."""
        for _ in range(10_000):
            if not self.take(16):
                return self.replica
        raise AssertionError(f"never up to date: {self.refusals[-1:]}")

    def mishap(self, random: Random) -> None:
        """Disconnect, send a few frames, or do nothing; the replica may then be far behind."""
        match random.randrange(6):
            case 0:
                self.disconnect()
            case 1 | 2:
                self.take(random.randrange(1, 4))
            case _:
                pass


def assert_replica_answers(
    replica: Replica, model: SlowPartition, epochs: Iterable[int], offsets: Iterable[int]
) -> None:
    """Assert that replica and model answer each question at `epochs` and `offsets` alike."""
    listed = {id_of_row(row) for row in replica.list_all()}
    assert listed == {one.added.segment_id for one in model.list_all()}
    for epoch in epochs:
        rows = replica.list_epoch(epoch)
        assert [id_of_row(row) for row in rows] == model.list_epoch(epoch), epoch
        assert replica.remote_log_size(epoch) == model.size(epoch), epoch
        assert replica.highest_offset_for_epoch(epoch) == model.highest(epoch), epoch
        for offset in offsets:
            found = replica.lookup(epoch, offset)
            assert _id(found) == model.lookup(epoch, offset), (epoch, offset)
            indexed = replica.next_segment_with_txn_index(epoch, offset)
            assert _id(indexed) == model.next_txn(epoch, offset), (epoch, offset)


def _id(row: bytes | None) -> bytes | None:
    return None if row is None else id_of_row(row)
