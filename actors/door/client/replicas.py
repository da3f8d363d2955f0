"""Replicas of partitions in a client's memory, which hosts feed through their doors.

Rule 1: a replica is wherever it was when a stream breaks, and goes on from there on the next.
Rule 2: what does not add up is dropped as a whole, fetched again and counted; meanwhile the
replica says that it does not know.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import structlog

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import TLS_SCHEME, doors_in
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.feed_stream import FeedStream, FeedStreams
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.door.wire.feed import frame_of
from tierledger.actors.feed.frames import OtherHistory, SnapshotBegun
from tierledger.actors.feed.replica import Replica
from tierledger.events.commands import Claim
from tierledger.events.errors import CorruptLog, NotReady, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import metadata_of

PAUSE_S = 0.05
PAUSE_MAX_S = 2.0
"""Before a replica subscribes again; it doubles with each time that brought it nothing."""

SILENCE_S = 10.0
"""How long a replica waits for a word that it needs before it asks elsewhere."""

DOORS_KEPT = 64
"""Doors that were learnt from hosts; the oldest is forgotten for the next."""

_log = structlog.get_logger("tierledger.replica")


class ReplicaCounts(NamedTuple):
    """What happened to one replica."""

    subscriptions: int = 0
    snapshots: int = 0
    """That were begun."""
    dropped: int = 0
    """How often what it held, or was given, did not add up."""


class FedReplica:
    """One partition's answers from memory, each as of `position`; made by `Replicas.of`.

    Every answer raises `NotReady` if the replica cannot be certain of it: it has no whole
    snapshot, or it may be behind the head that stood when its claim was announced, and then
    only what was found is certain. `PartitionDeleted` once the partition's deletion has
    finished; `CorruptLog` if the service came back with another history: make a new replica.
    """

    def __init__(
        self, home: Replicas, tip: TopicIdPartition, role: str, claim: Claim | None
    ) -> None:
        self.topic_id_partition = tip
        self.counts = ReplicaCounts()
        self.trouble: RemoteStorageError | None = None
        """Why it was not fed when that was tried last; none while it is."""
        self._home = home
        self._replica = Replica(PartitionKey.of(tip), role)
        self._replica.expect(claim)
        self._stream: FeedStream | None = None
        self._is_over = False
        self._words = 0
        """Items that came."""
        self._gained = False
        """Whether the present subscription has made it whole, or moved it on."""
        self._moved = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._keep_fed())
        self._task.add_done_callback(self._finished)

    # What it holds.

    @property
    def position(self) -> int:
        """The last batch of the log that it has applied; -1 if it holds nothing whole."""
        return self._replica.position if self._replica.is_whole else -1

    @property
    def is_ready(self) -> bool:
        """Whether it has caught up with the head that stood when its claim was announced."""
        return self._replica.is_ready

    def expect(self, claim: Claim | None) -> None:
        """The broker announced itself: not ready before a host says so of `claim`."""
        self._replica.expect(claim)
        if self._stream is not None:
            self._stream.expect(self, claim)

    async def when_ready(self) -> None:
        """Return once it is ready, however long that takes."""
        await self._until(lambda: self._replica.is_ready)

    async def reached(self, position: int) -> None:
        """Return once its answers are of `position` or later, however long that takes."""
        await self._until(lambda: self.position >= position)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._known()
            self._moved.clear()
            await self._moved.wait()

    # Answers.

    def remote_log_segment_metadata(
        self, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The segment that holds `offset` in that leader epoch; none if no finished one."""
        return self._metadata(self._known().lookup(epoch_for_offset, offset))

    def next_segment_with_txn_index(
        self, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment from `offset` on that may have a transaction index (KIP-1058)."""
        return self._metadata(self._known().next_segment_with_txn_index(epoch, offset))

    def list_remote_log_segments(
        self, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """All segments in no order, or those of `leader_epoch` by start offset."""
        known = self._known()
        rows = known.list_all() if leader_epoch is None else known.list_epoch(leader_epoch)
        return [metadata_of(self.topic_id_partition, row) for row in rows]

    def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        """The highest offset that ever finished in `leader_epoch`; none if none did."""
        return self._known().highest_offset_for_epoch(leader_epoch)

    def remote_log_size(self, leader_epoch: int) -> int:
        """Bytes of all segments listed for `leader_epoch`."""
        return self._known().remote_log_size(leader_epoch)

    def _known(self) -> Replica:
        if self._is_over:
            raise self.trouble or NotReady(f"{self.topic_id_partition}: the replica is closed")
        return self._replica

    def _metadata(self, row: bytes | None) -> RemoteLogSegmentMetadata | None:
        return None if row is None else metadata_of(self.topic_id_partition, row)

    # Being fed.

    async def _keep_fed(self) -> None:
        door, in_vain = "", 0
        while not self._is_over:
            self._gained = False
            try:
                better = await self._fed(await self._home.stream(door, in_vain))
            except RemoteStorageError as error:
                self.trouble, better = error, ""
            in_vain = 0 if self._gained else in_vain + 1
            # To a better door at once, but for hosts that point at each other.
            door = better
            if in_vain > 1 or not door:
                await asyncio.sleep(min(PAUSE_S * 2 ** min(in_vain, 16), PAUSE_MAX_S))

    def _finished(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a replica is not fed any more", exc_info=error)
            self.trouble = NotReady(f"the replica failed: {type(error).__name__}: {error}")
            self._is_over = True
            self._moved.set()

    async def _fed(self, stream: FeedStream) -> str:
        """Be fed until that ends; the door at which it goes on, if it is known."""
        self._count("subscriptions")
        self._stream = stream
        feeding = asyncio.ensure_future(stream.feed(self._replica.subscription(), self))
        try:
            is_fed = {feeding}
            while is_fed:
                words = self._words
                _, is_fed = await asyncio.wait(is_fed, timeout=SILENCE_S)
                if is_fed and words == self._words and self._is_waiting():
                    raise NotReady(f"{stream.door} has said nothing for {SILENCE_S:g} s")
            ended = await feeding
        finally:
            self._stream = None
            feeding.cancel()
        if not ended.HasField("failure"):
            return ""
        self.trouble = error_of(ended.failure)
        self._home.learn(ended.better_door)
        return ended.better_door

    def _is_waiting(self) -> bool:
        replica = self._replica
        return not replica.is_whole or (replica.claim is not None and not replica.is_ready)

    def given(self, item: pb.Fed) -> bool:
        """Take the next item of the subscription; whether it goes on."""
        self._words += 1
        replica, before = self._replica, self.position
        try:
            frame = frame_of(item)
            if isinstance(frame, SnapshotBegun):
                self._count("snapshots")
            refusal = replica.take(frame)
        except Exception as error:  # noqa: BLE001 - Whatever bytes that are no row may lead to.
            self._drop(f"{type(error).__name__}: {error}")
            return False
        if isinstance(frame, OtherHistory):
            self.trouble = CorruptLog(
                f"{self.topic_id_partition}: the log is another at position {frame.position} "
                "than the one that the replica was fed from"
            )
            self._is_over = True
        elif refusal is not None and refusal.is_dropped:
            self._drop(refusal.reason)
        if refusal is None and self.position > before:
            self._gained, self.trouble = True, None
        self._moved.set()
        return refusal is None

    def _drop(self, reason: str) -> None:
        tip = str(self.topic_id_partition)
        _log.warning("a replica is dropped and fetched again", partition=tip, reason=reason)
        self._count("dropped")
        former = self._replica
        self._replica = Replica(former.key, former.role)
        self._replica.floor = former.floor
        self._replica.expect(former.claim)

    def _count(self, what: str) -> None:
        self.counts = self.counts._replace(**{what: getattr(self.counts, what) + 1})

    async def close(self) -> None:
        """Be fed no further, and answer nothing. A repeat does nothing."""
        self._is_over = True
        self._moved.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Replicas:
    """Makes replicas, and feeds them over one stream from each host. Made on a running loop."""

    def __init__(
        self,
        url: str,
        cluster_id: str,
        broker_id: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`url`: `tierledger://HOST:PORT,…`, or with `tierledgers`; any host of the service.

        `broker_id`: the only one whose claims are expected; who expects none needs none.
        `settings`: as a manager has them, of TLS and token (`door.…`).

        Raises:
            InvalidArgument: One of them is not what it should be.
        """
        self._bootstraps = doors_in(url)
        security = ClientSecurity.of(settings or {}, tls=url.startswith(TLS_SCHEME))
        self._streams = FeedStreams(greeting_of(cluster_id, broker_id), security)
        self._learnt: deque[str] = deque(maxlen=DOORS_KEPT)
        self._replicas: list[FedReplica] = []

    def of(
        self, tip: TopicIdPartition, role: str = FOLLOWER, claim: Claim | None = None
    ) -> FedReplica:
        """A replica of a partition, fed by its leader or a follower from now on.

        `claim`: the announcement of the broker that keeps it. Without one it never is ready.
        """
        replica = FedReplica(self, tip, role, claim)
        self._replicas.append(replica)
        return replica

    async def stream(self, door: str, attempt: int) -> FeedStream:
        """The stream from `door`, or from any; further attempts go to further doors.

        Raises:
            RemoteStorageError: It cannot be opened.
        """
        if not door:
            doors = list(
                dict.fromkeys((*self._streams.doors, *self._bootstraps, *self._learnt))
            )
            door = doors[attempt % len(doors)]
        return await self._streams.feeding(door)

    def learn(self, door: str) -> None:
        """A host feeds at that door."""
        if door and door not in self._learnt:
            self._learnt.append(door)

    async def close(self) -> None:
        """End all of them. A repeat does nothing."""
        replicas, self._replicas = self._replicas, []
        await asyncio.gather(*(one.close() for one in replicas))
        await self._streams.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
