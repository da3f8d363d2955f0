"""The receiving end of a partition's feed: a short model of what a broker keeps in its heap.

Rule 1: a replica answers as its source did at the same position, or not at all. It answers
"none" only when it is ready: before that it may not know a segment that exists. It never
answers from half a snapshot.
Rule 2: the position of its answers never goes back, whatever frames it gets.
Rule 3: after each batch its contents have the batch's checksum; if not, it drops them all.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from tierledger.actors.calls import PartitionKey
from tierledger.actors.feed.checksum import checksum
from tierledger.actors.feed.frames import (
    Change,
    FeedFenced,
    FeedReady,
    Frame,
    OtherHistory,
    Slice,
    SnapshotBegun,
    Subscription,
)
from tierledger.actors.feed.replica_rows import ReplicaRows
from tierledger.events.commands import Claim
from tierledger.events.errors import NotReady, PartitionDeleted
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.tables.segment_rows import id_of_row

T = TypeVar("T")

_DELETED = int(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)


class Resubscription(NamedTuple):
    """Why the replica needs a new subscription."""

    reason: str
    is_dropped: bool
    """Whether its contents cannot be trusted and were dropped."""


class Replica:
    """One partition's answers, from the frames that are passed to `take`."""

    def __init__(self, key: PartitionKey, role: str) -> None:
        self.key, self.role = key, role
        self.floor = -1
        """The highest position of which it may have given an answer."""
        self.claim: Claim | None = None
        self._drop()

    def _drop(self) -> None:
        self.position, self.chain_hash = -1, b""
        self.is_whole = False
        """Whether its snapshot is complete. Before that it answers nothing."""
        self.is_ready = False
        """Whether it has applied all that the log held when `claim` was announced."""
        self._delete_state: int | None = None
        self._checksum = b""
        self._snapshot: tuple[int, int] | None = None
        """Position and number of the slice that comes next."""
        self._newer: set[bytes | int] = set()
        """Ids and epochs that changes have brought since the snapshot began."""
        self._parts: list[Change] = []
        self._rows = ReplicaRows()

    def expect(self, claim: Claim | None) -> None:
        """The broker announced itself: ready once a source sends `FeedReady` for `claim`."""
        self.claim, self.is_ready = claim, False

    def subscription(self) -> Subscription:
        """The subscription to send to a source: to go on from here, if the replica is whole."""
        asked = Subscription(self.key, self.role, floor=self.floor, claim=self.claim)
        if not self.is_whole:
            return asked
        return asked._replace(position=self.position, chain_hash=self.chain_hash)

    # The feed.

    def take(self, frame: Frame) -> Resubscription | None:
        """Apply the next frame of a subscription; repeated frames do nothing."""
        match frame:
            case SnapshotBegun():
                return self._begin(frame)
            case Slice():
                return self._slice(frame)
            case Change():
                return self._change(frame)
            case FeedReady():
                return self._ready(frame)
            case FeedFenced(claim=claim):
                self.is_ready = self.is_ready and claim != self.claim
            case OtherHistory(position=position):
                return self._refused(f"the log differs at position {position}")
        return None

    def _refused(self, reason: str) -> Resubscription:
        self._drop()
        return Resubscription(reason, is_dropped=True)

    def _begin(self, begun: SnapshotBegun) -> Resubscription | None:
        if begun.position < self.floor:
            return self._refused(f"a snapshot of {begun.position} came after {self.floor}")
        self._drop()
        self.position, self.chain_hash = begun.position, begun.chain_hash
        self._delete_state, self._checksum = begun.delete_state, begun.checksum
        self._snapshot = begun.position, 0
        return None

    def _slice(self, part: Slice) -> Resubscription | None:
        if self._snapshot is None or (part.position, part.number) < self._snapshot:
            return None
        if (part.position, part.number) != self._snapshot:
            return self._refused(f"slice {part[:2]} came, {self._snapshot} was next")
        self._snapshot = part.position, part.number + 1
        self._rows.put(part.contents, but=self._newer)
        return self._whole() if part.is_last else None

    def _ready(self, ready: FeedReady) -> Resubscription | None:
        if not self.is_whole:
            return self._refused("ready came before the last slice")
        if self.position < ready.position:
            reason = f"ready came for position {ready.position}, {self.position} is here"
            return Resubscription(reason, is_dropped=False)
        self.is_ready = self.is_ready or ready.claim == self.claim
        return None

    def _whole(self) -> Resubscription | None:
        self.is_whole, self._snapshot, self._newer = True, None, set()
        return self._verified()

    def _change(self, part: Change) -> Resubscription | None:
        if part.position <= self.position:
            return None
        if part.after != self.position or part.number > len(self._parts):
            where = f"{self.position}, {len(self._parts)} parts of the next"
            reason = f"part {part.number} of {part.after} to {part.position} came after {where}"
            return Resubscription(reason, is_dropped=False)
        self._parts[part.number :] = [part]
        if not part.is_last:
            return None
        parts, self._parts = self._parts, []
        for one in parts:
            self._rows.put(one.contents)
            if self._snapshot is not None:
                self._newer.update(map(id_of_row, one.contents.rows), one.contents.gone)
                self._newer.update(numbers.epoch for numbers in one.contents.epochs)
        self.position, self.chain_hash = part.position, part.chain_hash
        self._delete_state, self._checksum = part.delete_state, part.checksum
        if part.delete_state == _DELETED:
            self._rows = ReplicaRows()
            return self._whole()  # Slices that are still missing are not needed.
        return self._verified()

    def _verified(self) -> Resubscription | None:
        if not self.is_whole:
            return None
        shares = self._rows.shares
        found = checksum(shares, self.position, self.chain_hash, self._delete_state)
        if found != self._checksum:
            checksums = f"expected checksum {self._checksum.hex()}, found {found.hex()}"
            return self._refused(f"{checksums} at position {self.position}")
        self.floor = max(self.floor, self.position)
        return None

    # Answers, as of `position`. Each raises `NotReady` while its answer may be wrong, and
    # `PartitionDeleted` once the partition's deletion has finished.

    def lookup(self, epoch: int, offset: int) -> bytes | None:
        """The row of the segment that serves `offset` in `epoch`; "none" only when ready."""
        return self._hit(self._known().lookup(epoch, offset))

    def next_segment_with_txn_index(self, epoch: int, offset: int) -> bytes | None:
        """The row of the first segment from `offset` on that may have a transaction index."""
        return self._hit(self._known().next_with_txn_index(epoch, offset))

    def list_all(self) -> list[bytes]:
        """The rows of all segments, in no order."""
        return self._certain().list_all()

    def list_epoch(self, epoch: int) -> list[bytes]:
        """The rows of `epoch`'s segments in Kafka's order, with those that Kafka has lost."""
        return self._certain().list_epoch(epoch)

    def highest_offset_for_epoch(self, epoch: int) -> int | None:
        """The highest offset that ever finished in `epoch`."""
        return self._certain().highest(epoch)

    def remote_log_size(self, epoch: int) -> int:
        """Bytes over `list_epoch(epoch)`."""
        return self._certain().size(epoch)

    def _known(self) -> ReplicaRows:
        if not self.is_whole:
            raise NotReady(f"{self.key}: the replica has no whole snapshot yet")
        if self._delete_state == _DELETED:
            raise PartitionDeleted(f"{self.key}: its deletion is finished")
        return self._rows

    def _certain(self) -> ReplicaRows:
        rows = self._known()
        if not self.is_ready:
            raise NotReady(f"{self.key}: the replica may be behind the announced head")
        return rows

    def _hit(self, found: T | None) -> T | None:
        if found is None:
            self._certain()
        return found
