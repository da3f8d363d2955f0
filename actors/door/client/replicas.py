"""Replicas of partitions in a client's memory, which hosts feed through their doors.

Rule 1: when a stream breaks, a replica keeps its contents and goes on from there on the next.
Rule 2: if its contents do not match the checksum, a replica drops all of them, fetches them
again and counts that; meanwhile its answers are `NotReady`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import TLS_SCHEME, doors_in
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.feed_stream import FeedStream, FeedStreams
from tierledger.actors.door.client.streams import Opened
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.door.wire.feed import frame_of
from tierledger.actors.feed.frames import OtherHistory, SnapshotBegun
from tierledger.actors.feed.replica import Replica
from tierledger.actors.foreign_errors import failure_of
from tierledger.events.commands import Claim
from tierledger.events.errors import CorruptLog, NotReady, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import metadata_of
from tierledger.storage.own_process import OwnProcess
from tierledger.storage.process_log import ProcessLog

PAUSE_S = 0.05
PAUSE_MAX_S = 2.0
"""Shortest and longest pause before a replica subscribes again; doubles with each failure."""

SILENCE_S = 10.0
"""How long a replica waits for an item that it needs before it subscribes at another host."""

DOORS_KEPT = 64
"""Doors learnt from hosts that are kept; the oldest is dropped for a new one."""

_log = ProcessLog("tierledger.replica")


class ReplicaCounts(NamedTuple):
    """Counts of what happened to one replica."""

    subscriptions: int = 0
    snapshots: int = 0
    """Snapshots that were begun."""
    dropped: int = 0
    """How often it dropped its contents, as they or an item were wrong."""


class FedReplica:
    """One partition's answers from memory, each as of `position`; made by `Replicas.of`.

    An answer raises `NotReady` if it may be wrong: while the replica has no whole snapshot, or
    if it has not applied all that the log held when its claim was announced. In the latter case
    it still returns segments that it finds. `PartitionDeleted` once the partition's deletion
    has finished; `CorruptLog` if the service came back with another history: make a new
    replica.
    """

    def __init__(
        self, home: Replicas, tip: TopicIdPartition, role: str, claim: Claim | None
    ) -> None:
        self.topic_id_partition = tip
        self.counts = ReplicaCounts()
        self.trouble: RemoteStorageError | None = None
        """Why the last attempt to be fed failed; None while it is fed."""
        self._home = home
        self._replica = Replica(PartitionKey.of(tip), role)
        self._replica.expect(claim)
        self._stream: FeedStream | None = None
        self._is_over = False
        self._items = 0
        """Items that have arrived."""
        self._gained = False
        """Whether the present subscription has moved its position on."""
        self._moved = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._keep_fed())
        self._task.add_done_callback(self._finished)

    # What it holds.

    @property
    def position(self) -> int:
        """The position that the replica has applied; -1 if it has no whole snapshot."""
        return self._replica.position if self._replica.is_whole else -1

    @property
    def is_ready(self) -> bool:
        """Whether it has applied all that the log held when its claim was announced."""
        return self._replica.is_ready

    def expect(self, claim: Claim | None) -> None:
        """The broker announced itself anew: not ready before a host reports so for `claim`."""
        self._replica.expect(claim)
        if self._stream is not None:
            self._stream.expect(self, claim)

    async def when_ready(self) -> None:
        """Return once the replica is ready, however long that takes."""
        await self._until(lambda: self._replica.is_ready)

    async def reached(self, position: int) -> None:
        """Return once answers are as of `position` or later, however long that takes."""
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
        """The finished segment that holds `offset` in that leader epoch; None if none does."""
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
        """The highest offset that ever finished in `leader_epoch`; None if none did."""
        return self._known().highest_offset_for_epoch(leader_epoch)

    def remote_log_size(self, leader_epoch: int) -> int:
        """Bytes of all segments listed for `leader_epoch`."""
        return self._known().remote_log_size(leader_epoch)

    def _known(self) -> Replica:
        self._home.process.check()  # Nothing feeds a copy in a forked process.
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
            # Go to a better door at once, but pause if hosts keep naming each other.
            door = better
            if in_vain > 1 or not door:
                await asyncio.sleep(min(PAUSE_S * 2 ** min(in_vain, 16), PAUSE_MAX_S))

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._home.gone(self)
        if (error := failure_of(task)) is not None:
            _log.error("a replica is not fed any more", exc_info=error)
            self.trouble = NotReady(f"the replica failed: {type(error).__name__}: {error}")
            self._is_over = True
            self._moved.set()

    async def _fed(self, stream: FeedStream) -> str:
        """Be fed until the subscription ends; returns the door to go on at, if known."""
        self._count("subscriptions")
        self._stream = stream
        feeding = asyncio.ensure_future(stream.feed(self._replica.subscription(), self))
        try:
            is_fed = {feeding}
            while is_fed:
                items = self._items
                _, is_fed = await asyncio.wait(is_fed, timeout=SILENCE_S)
                if is_fed and items == self._items and self._is_waiting():
                    raise NotReady(f"{stream.door} has sent nothing for {SILENCE_S:g} s")
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
        """Take the next item of the subscription; returns whether the subscription goes on."""
        self._items += 1
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
                f"{self.topic_id_partition}: the log differs at position {frame.position} "
                "from the one that the replica was fed from"
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
        """End the feed; later queries fail. A repeat does nothing."""
        self._is_over = True
        self._moved.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Replicas:
    """Makes replicas, and feeds them over one stream per host. Make it on a running loop."""

    def __init__(
        self,
        url: str,
        cluster_id: str,
        broker_id: int | None = None,
        settings: Mapping[str, str] | None = None,
        opened: Opened | None = None,
    ) -> None:
        """`url`: `tierledger://HOST:PORT,…`, or with `tierledgers`; any hosts of the service.

        `broker_id`: the broker whose claims replicas wait for; None if they wait for none.
        `settings`: a manager's settings of TLS and token (`door.…`).
        `opened`: makes a stream of feeds; by default over gRPC.

        Raises:
            InvalidArgument: An argument is wrong.
        """
        self.process = OwnProcess("this replica")
        self._bootstraps = doors_in(url)
        security = ClientSecurity.of(settings or {}, tls=url.startswith(TLS_SCHEME))
        self._streams = FeedStreams(greeting_of(cluster_id, broker_id), security, opened)
        self._learnt: deque[str] = deque(maxlen=DOORS_KEPT)
        self._replicas: dict[FedReplica, None] = {}
        """Those that are fed, in the order in which they were made."""

    def of(
        self, tip: TopicIdPartition, role: str = FOLLOWER, claim: Claim | None = None
    ) -> FedReplica:
        """A replica of a partition, fed by its leader or a follower from now on.

        `claim`: that of the broker that keeps the replica. Without one it is never ready.
        """
        replica = FedReplica(self, tip, role, claim)
        self._replicas[replica] = None
        return replica

    async def stream(self, door: str, attempt: int) -> FeedStream:
        """The stream from `door`; if that is empty, each `attempt` takes another known door.

        Raises:
            RemoteStorageError: The stream cannot be opened.
        """
        if not door:
            doors = list(
                dict.fromkeys((*self._streams.doors, *self._bootstraps, *self._learnt))
            )
            door = doors[attempt % len(doors)]
        return await self._streams.feeding(door)

    def gone(self, replica: FedReplica) -> None:
        """Forget a replica that is not fed any more."""
        self._replicas.pop(replica, None)

    def learn(self, door: str) -> None:
        """Keep the door of a host that feeds."""
        if door and door not in self._learnt:
            self._learnt.append(door)

    async def close(self) -> None:
        """Close all replicas. A repeat does nothing."""
        await asyncio.gather(*(one.close() for one in list(self._replicas)))
        await self._streams.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
