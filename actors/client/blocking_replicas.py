"""Replicas for Python programs that block: those of `replicas`, on a loop in a thread.

Answers come from memory as well. Each is made on that loop, so that it is as of one position,
whichever thread asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self, TypeVar

from tierledger.actors.calls import FOLLOWER
from tierledger.actors.client.sync_client import LoopThread
from tierledger.actors.door.client.replicas import FedReplica, ReplicaCounts, Replicas
from tierledger.events.commands import Claim
from tierledger.events.errors import NotReady
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata

T = TypeVar("T")

DEADLINE_S = 30.0
"""Default time (s) in which a replica has to be ready, or at a position."""


class BlockingFedReplica:
    """One partition's answers from memory, each as of `position`; see `FedReplica`."""

    def __init__(self, replica: FedReplica, loop: LoopThread) -> None:
        """Made by `BlockingReplicas.of`."""
        self.topic_id_partition = replica.topic_id_partition
        self._replica = replica
        self._loop = loop

    def _now(self, look: Callable[[FedReplica], T]) -> T:
        async def looked() -> T:
            return look(self._replica)

        return self._loop.run(looked())

    def _in_time(self, work: Coroutine[Any, Any, None], timeout_s: float) -> None:
        async def bounded() -> None:
            try:
                await asyncio.wait_for(work, timeout_s)
            except TimeoutError:
                why = self._replica.trouble or "its host has not applied so much"
                raise NotReady(
                    f"{self.topic_id_partition}: not there within {timeout_s:g} s: {why}"
                ) from None

        self._loop.run(bounded())

    @property
    def position(self) -> int:
        """The position that the replica has applied; -1 if it has no whole snapshot."""
        return self._now(lambda one: one.position)

    @property
    def is_ready(self) -> bool:
        """Whether it has applied all that the log held when its claim was announced."""
        return self._now(lambda one: one.is_ready)

    @property
    def counts(self) -> ReplicaCounts:
        """Counts of what happened to the replica."""
        return self._now(lambda one: one.counts)

    def expect(self, claim: Claim | None) -> None:
        """The broker announced itself anew: not ready before a host reports so for `claim`."""
        self._now(lambda one: one.expect(claim))

    def when_ready(self, timeout_s: float = DEADLINE_S) -> None:
        """Return once it is ready.

        Raises:
            NotReady: It is not ready within `timeout_s`; the message says why, if known.
        """
        self._in_time(self._replica.when_ready(), timeout_s)

    def reached(self, position: int, timeout_s: float = DEADLINE_S) -> None:
        """Return once answers are as of `position` or later; raises as `when_ready` does."""
        self._in_time(self._replica.reached(position), timeout_s)

    def remote_log_segment_metadata(
        self, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` in that leader epoch; None if none does."""
        return self._now(lambda one: one.remote_log_segment_metadata(epoch_for_offset, offset))

    def next_segment_with_txn_index(
        self, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment from `offset` on that may have a transaction index (KIP-1058)."""
        return self._now(lambda one: one.next_segment_with_txn_index(epoch, offset))

    def list_remote_log_segments(
        self, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """All segments in no order, or those of `leader_epoch` by start offset."""
        return self._now(lambda one: one.list_remote_log_segments(leader_epoch))

    def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        """The highest offset that ever finished in `leader_epoch`; None if none did."""
        return self._now(lambda one: one.highest_offset_for_epoch(leader_epoch))

    def remote_log_size(self, leader_epoch: int) -> int:
        """Bytes of all segments listed for `leader_epoch`."""
        return self._now(lambda one: one.remote_log_size(leader_epoch))

    def close(self) -> None:
        """End the feed; later queries fail. A repeat does nothing."""
        self._loop.run(self._replica.close())


class BlockingReplicas:
    """Makes replicas, and feeds them over one stream from each host; see `Replicas`.

    May be used from several threads at a time. A `with` block closes it.
    """

    def __init__(
        self,
        url: str,
        cluster_id: str,
        broker_id: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Arguments and errors are those of `Replicas`."""
        self._loop = LoopThread("this replica")

        async def made() -> Replicas:
            return Replicas(url, cluster_id, broker_id, settings)

        try:
            self._replicas = self._loop.run(made())
        except BaseException:
            self._loop.close(_nothing)
            raise

    def of(
        self, tip: TopicIdPartition, role: str = FOLLOWER, claim: Claim | None = None
    ) -> BlockingFedReplica:
        """A replica of a partition, fed by its leader or a follower from now on."""

        async def made() -> FedReplica:
            return self._replicas.of(tip, role, claim)

        return BlockingFedReplica(self._loop.run(made()), self._loop)

    def close(self) -> None:
        """Close all replicas. A repeat does nothing."""
        self._loop.close(self._replicas.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _nothing() -> None:
    """Does nothing: no stream was opened."""
