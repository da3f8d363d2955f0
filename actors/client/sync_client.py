"""Kafka's `RemoteLogMetadataManager` for Python programs that block.

The same operations as those of `actors.client`, which does the work on an event loop in a
thread. The docstrings there say what each operation returns and raises.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from typing import Any, Self, TypeVar

from tierledger.actors.client.client import DEADLINE_S, AsyncRemoteLogMetadataManager
from tierledger.actors.client.history import PartitionHistory
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.messages import Query
from tierledger.actors.ports import IdSource
from tierledger.events.errors import InvalidArgument, NotReady, OutcomeUnknown
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.answers import PartitionSummary, metadata_of
from tierledger.storage.own_process import OwnProcess

T = TypeVar("T")


class RemoteLogMetadataManager:
    """Stores and fetches remote log segment metadata, with strong consistency.

    May be used from several threads at a time. Every call ends within the deadline; only
    `as_of` takes as long as it takes to read the log. After `close` each call fails at once
    with `NotReady`; in a process that was forked from this one, with `InvalidArgument`. A
    `with` block closes the manager.
    """

    def __init__(
        self,
        connect: Callable[[ServiceSettings], Awaitable[ServiceConnection]] | None = None,
        ids: IdSource | None = None,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """A manager that does nothing before `configure`.

        `connect` finds the service; by default it does so by the configured URL.
        """
        self._manager = AsyncRemoteLogMetadataManager(connect, ids, deadline_s=deadline_s)
        self._loop = LoopThread("this manager")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Life.

    def configure(self, config: Mapping[str, object]) -> None:
        """Connect to the service for the broker that `config` describes."""
        self._ask(self._manager.configure(config))

    def close(self) -> None:
        """Leave the service; announcements stay in force. A repeat does nothing."""
        self._loop.close(self._manager.close)

    # Notifications.

    def on_partition_leadership_changes(
        self,
        leader_partitions: Collection[TopicIdPartition],
        follower_partitions: Collection[TopicIdPartition],
        *,
        leader_epochs: Mapping[TopicIdPartition, int] | None = None,
    ) -> None:
        """Announce which partitions this broker leads and follows now; durable on return."""
        self._change(
            self._manager.on_partition_leadership_changes(
                leader_partitions, follower_partitions, leader_epochs=leader_epochs
            )
        )

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Announce that this broker no longer hosts `partitions`. Nothing is deleted."""
        self._change(self._manager.on_stop_partitions(partitions))

    def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Whether this broker's announcement is in force and its replica has caught up."""
        return self._ask(self._manager.is_ready(topic_id_partition))

    def when_ready(self, partitions: Collection[TopicIdPartition]) -> None:
        """Return once all `partitions` are ready."""
        self._ask(self._manager.when_ready(partitions))

    # Writes. Durable on return; each returns the position from which it holds.

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Store a segment whose copy starts."""
        return self._change(self._manager.add_remote_log_segment_metadata(metadata))

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> int:
        """Move a segment on in its life."""
        return self._change(self._manager.update_remote_log_segment_metadata(update))

    def put_remote_partition_delete_metadata(
        self, metadata: RemotePartitionDeleteMetadata
    ) -> int:
        """Move the deletion of a whole partition on."""
        return self._change(self._manager.put_remote_partition_delete_metadata(metadata))

    # Reads.

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` in that leader epoch; None if none does."""
        return self._ask(
            self._manager.remote_log_segment_metadata(
                topic_id_partition, epoch_for_offset, offset
            )
        )

    def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        """The highest offset that finished in `leader_epoch`; None if none did."""
        return self._ask(
            self._manager.highest_offset_for_epoch(topic_id_partition, leader_epoch)
        )

    def remote_log_size(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int:
        """Bytes of all segments listed for `leader_epoch`; O(1) (KIP-852)."""
        return self._ask(self._manager.remote_log_size(topic_id_partition, leader_epoch))

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment from `offset` on that may have a transaction index (KIP-1058)."""
        return self._ask(
            self._manager.next_segment_with_txn_index(topic_id_partition, epoch, offset)
        )

    def partition_summary(self, topic_id_partition: TopicIdPartition) -> PartitionSummary:
        """What the partition holds, in numbers, from one query, however large it is."""
        return self._ask(self._manager.partition_summary(topic_id_partition))

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """All segments, or those of `leader_epoch` by start offset, as of one position.

        All of them have been read on return: errors are raised here, not by the iterator.
        """
        kind = "list" if leader_epoch is None else "list_epoch"
        query = Query(kind, 0 if leader_epoch is None else leader_epoch)
        rows = self._ask(self._manager.rows(topic_id_partition, query))
        return (metadata_of(topic_id_partition, row) for row in rows)

    def as_of(
        self,
        topic_id_partition: TopicIdPartition,
        *,
        position: int | None = None,
        time_ms: int | None = None,
    ) -> BlockingPartitionHistory:
        """The partition's answers as they were at a position or a time (ms)."""
        history = self._manager.as_of(topic_id_partition, position=position, time_ms=time_ms)
        return BlockingPartitionHistory(history, self._ask)

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(work)
        except CancelledError:
            raise NotReady("the manager was closed during the call") from None

    def _change(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(work)
        except CancelledError:
            raise OutcomeUnknown("the manager was closed during the call") from None


class BlockingPartitionHistory:
    """One partition at a position or time; usable as long as its manager is open."""

    def __init__(
        self, history: PartitionHistory, run: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        """`run` waits for a coroutine; see `RemoteLogMetadataManager.as_of`."""
        self._history = history
        self._run = run

    def remote_log_segment_metadata(
        self, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        found: RemoteLogSegmentMetadata | None = self._run(
            self._history.remote_log_segment_metadata(epoch_for_offset, offset)
        )
        return found

    def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        found: int | None = self._run(self._history.highest_offset_for_epoch(leader_epoch))
        return found

    def remote_log_size(self, leader_epoch: int) -> int:
        size: int = self._run(self._history.remote_log_size(leader_epoch))
        return size

    def next_segment_with_txn_index(
        self, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        found: RemoteLogSegmentMetadata | None = self._run(
            self._history.next_segment_with_txn_index(epoch, offset)
        )
        return found

    def list_remote_log_segments(
        self, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        async def listed() -> list[RemoteLogSegmentMetadata]:
            return [one async for one in self._history.list_remote_log_segments(leader_epoch)]

        return iter(self._run(listed()))


class LoopThread:
    """An event loop on a thread of its own, until it is closed."""

    def __init__(self, whose: str) -> None:
        """`whose`: what calls it, for messages."""
        self._home = OwnProcess(whose)
        self._loop = asyncio.new_event_loop()
        # A daemon: a program that forgets to close its manager can still end.
        self._thread = threading.Thread(target=self._serve, name="tierledger", daemon=True)
        self._gate = threading.Lock()
        self._is_open = True
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`.

        Raises:
            NotReady: The loop is closed; `work` was not begun.
            InvalidArgument: The caller would wait for ever: it runs on the loop itself, or in
                a process that was forked from the thread's.
            CancelledError: The loop was closed meanwhile.
        """
        try:
            self._home.check()
        except InvalidArgument:
            work.close()
            raise
        if threading.current_thread() is self._thread:
            work.close()
            raise InvalidArgument("a blocking call on the manager's own loop")
        with self._gate:
            if not self._is_open:
                work.close()
                raise NotReady("the manager is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `leave`, cancel all other work, end the thread; a repeat waits for the end.

        In a process that was forked from the thread's there is nothing to end.
        """
        if not self._home.is_here:
            return
        with self._gate:
            was_open, self._is_open = self._is_open, False
        if was_open:
            try:
                asyncio.run_coroutine_threadsafe(self._end(leave), self._loop).result()
            finally:
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await leave()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
