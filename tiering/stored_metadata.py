"""Answers about segments straight from a store, without a service, actors or announcements."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

from tierledger.events.errors import CorruptLog, PartitionDeleted
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition import answers
from tierledger.events.partition.answers import PartitionSummary
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.restored import restored
from tierledger.events.partition.state import PartitionState
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.point_reads import ask, next_segment_with_txn_index
from tierledger.storage.partition.reader import LogEntry, PartitionReader

HELD_MAX: Final = 4
"""Whole partitions kept in memory; one of a million segments takes 200 MB."""

ROWS_PER_TURN: Final = 1000
"""Rows of a list between two turns of other tasks: 2 ms."""

T = TypeVar("T")


class StoredMetadata:
    """A `RemoteLogMetadataSource` over a store. Its answers are as of the newest durable state.

    A lookup reads only the few values that it needs. Once a partition has been listed, its
    whole state is held, and brought up to date from its log before each answer.

    Raises, in addition to the port's errors:
        CorruptLog: The partition's log does not verify.
    """

    def __init__(
        self,
        reader: Callable[[TopicIdPartition], PartitionReader],
        *,
        with_deleted: bool = False,
    ) -> None:
        """`reader` makes a partition's reader, as `storage.catalog.Catalog.reader` does.

        `with_deleted`: answer as if segments that are kept had not been deleted, as of the
        first question about a partition.
        """
        self._reader = reader
        self._with_deleted = with_deleted
        self._held: OrderedDict[TopicIdPartition, _HeldState | _RestoredState] = OrderedDict()

    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        tip = topic_id_partition
        row = await self._ask(
            tip, lambda state: answers.lookup(state, epoch_for_offset, offset)
        )
        return None if row is None else answers.metadata_of(tip, row)

    async def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        return await self._ask(
            topic_id_partition,
            lambda state: answers.highest_offset_for_epoch(state, leader_epoch),
        )

    async def remote_log_size(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int:
        return await self._ask(
            topic_id_partition, lambda state: answers.remote_log_size(state, leader_epoch)
        )

    async def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        tip = topic_id_partition
        row = await self._ask(
            tip, lambda state: next_segment_with_txn_index(state, epoch, offset)
        )
        return None if row is None else answers.metadata_of(tip, row)

    async def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        tip = topic_id_partition
        held = await self._hold(tip)
        snapshot = await held.answer(lambda state: answers.Snapshot(state, leader_epoch))
        if leader_epoch is None:
            rows = (row for row in answers.list_all(snapshot))
        else:
            rows = (
                row for row in answers.list_epoch(snapshot, leader_epoch) if row is not None
            )
        for number, row in enumerate(rows, 1):
            yield answers.metadata_of(tip, row)
            if number % ROWS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def partition_summary(self, topic_id_partition: TopicIdPartition) -> PartitionSummary:
        return await self._ask(topic_id_partition, _summary)

    async def _ask(self, tip: TopicIdPartition, question: Callable[[PartitionState], T]) -> T:
        held = self._held.get(tip)
        if held is None and self._with_deleted:
            held = await self._hold(tip)
        if held is not None:
            self._held.move_to_end(tip)
            return await held.answer(question)
        return await ask(self._reader(tip), _unless_deleted(question))

    async def _hold(self, tip: TopicIdPartition) -> _HeldState | _RestoredState:
        held = self._held.get(tip)
        if held is None:
            reader = self._reader(tip)
            loaded = await reader.state()
            held = self._held[tip] = (
                _RestoredState(restored(loaded.state))
                if self._with_deleted
                else _HeldState(reader, loaded)
            )
        self._held.move_to_end(tip)
        while len(self._held) > HELD_MAX:
            self._held.popitem(last=False)
        return held


class _RestoredState:
    """A partition's state with what it keeps; it stays as it is."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    async def answer(self, question: Callable[[PartitionState], T]) -> T:
        return question(self._state)


class _HeldState:
    """A partition's whole state, which is brought up to date before each answer."""

    def __init__(self, reader: PartitionReader, loaded: LoadedPartition) -> None:
        self._reader = reader
        self._loaded = loaded
        self._refreshing = asyncio.Lock()

    async def answer(self, question: Callable[[PartitionState], T]) -> T:
        """The result of `question` on the newest state."""
        async with self._refreshing:
            try:
                await self._refresh()
            except CorruptLog:
                # The log may have been forgotten up to a boundary. Then a new load succeeds.
                self._loaded = await self._reader.state()
            return _unless_deleted(question)(self._loaded.state)

    async def _refresh(self) -> None:
        state, next_batch = self._loaded
        entry = LogEntry(state.next_position, next_batch, state.chain_hash)
        async for batch in self._reader.decoded_batches(entry):
            evolve_all(state, batch.events, batch.chain_hash)
            self._loaded = self._loaded._replace(next_batch=batch.number + 1)


def _summary(state: PartitionState) -> PartitionSummary:
    # A sparse state loads only the epochs that are accessed, and would count no others.
    for epoch in state.epochs:
        state.epochs.get(epoch)
    return answers.summary(state)


def _unless_deleted(question: Callable[[PartitionState], T]) -> Callable[[PartitionState], T]:
    def asked(state: PartitionState) -> T:
        if state.is_finished:
            raise PartitionDeleted(f"{state.topic_id_partition}: its deletion is finished")
        return question(state)

    return asked
