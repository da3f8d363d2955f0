"""A metadata store in memory that obeys the leader's own rules, for tasks of the tier.

`MemoryLedger` stands for the service, `MemoryMetadataStore` for one broker's client. The rules
of `events` decide each write under that broker's session, and apply its events.
"""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from msgspec.structs import replace

from tests.models.tiering.planned_faults import PlannedFaults
from tierledger.events import commands as cmd
from tierledger.events.errors import NotLeader, PartitionDeleted, RemoteResourceNotFound
from tierledger.events.event_codec import chain, encode_event, genesis
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition import answers
from tierledger.events.partition.decide import Accepted, Limits, Rejected, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState

T = TypeVar("T")

PAGE_ROWS = 1000
"""Rows after which a list fetches its next page."""

Written = (
    RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
)


class MemoryLedger:
    """The states of all partitions, with their sessions."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.now_ms = 1_700_000_000_000
        self._states: dict[TopicIdPartition, PartitionState] = {}
        self._claims: dict[TopicIdPartition, int] = {}

    def store(
        self, *led: TopicIdPartition, broker_id: int = 1, faults: PlannedFaults | None = None
    ) -> "MemoryMetadataStore":
        """A broker's client of this ledger; the broker leads `led` from now on."""
        store = MemoryMetadataStore(self, broker_id, faults or PlannedFaults())
        for tip in led:
            store.lead(tip)
        return store

    def state(self, tip: TopicIdPartition) -> PartitionState:
        """The state of `tip`, which the caller must not change."""
        found = self._states.get(tip)
        if found is None:
            raise RemoteResourceNotFound(f"{tip} is not known")
        return found

    def segments(self, tip: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """All segments by start offset, then id; planned faults do not apply."""
        rows = answers.list_all(answers.Snapshot(self.state(tip)))
        found = [answers.metadata_of(tip, row) for row in rows]
        return sorted(found, key=lambda one: (one.start_offset, one.remote_log_segment_id.id))

    def open_session(self, tip: TopicIdPartition, broker_id: int) -> cmd.Claim:
        """Open a session in which `broker_id` leads `tip`; returns its claim."""
        number = self._claims.get(tip, 0) + 1
        self._claims[tip] = number
        fresh = PartitionState(tip, genesis("cluster", tip.topic_id, tip.partition))
        self._states.setdefault(tip, fresh)
        claim = cmd.Claim(broker_id, incarnation=number, announcement=number)
        self.change(tip, cmd.OpenSession(claim, number, None, tip.topic))
        return claim

    def change(self, tip: TopicIdPartition, command: cmd.Command) -> int:
        """Decide on `command` as a leader does; returns the position from which it holds."""
        state = self.state(tip)
        self.now_ms += 1
        decision = decide(Overlay(state), command, self.now_ms, self.limits)
        if isinstance(decision, Rejected):
            raise decision.error
        assert isinstance(decision, Accepted), "no claim has a leader epoch to dispute"
        last = state.chain_hash
        for event in decision.events:
            last = chain(encode_event(event, last))
        evolve_all(state, decision.events, last)
        return decision.position


class MemoryMetadataStore:
    """A `RemoteLogMetadataStore` of one broker; faults name calls by their methods."""

    def __init__(self, ledger: MemoryLedger, broker_id: int, faults: PlannedFaults) -> None:
        self.ledger = ledger
        self.broker_id = broker_id
        self.faults = faults
        self.written: list[Written] = []
        """Accepted writes of this broker, in order."""
        self._claims: dict[TopicIdPartition, cmd.Claim] = {}

    def lead(self, tip: TopicIdPartition) -> None:
        """Open a session for this broker."""
        self._claims[tip] = self.ledger.open_session(tip, self.broker_id)

    def updates(self) -> list[RemoteLogSegmentState]:
        """The new states in this broker's accepted updates, in order."""
        return [
            one.state for one in self.written if isinstance(one, RemoteLogSegmentMetadataUpdate)
        ]

    # Writes.

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        return await self._write(
            "add_remote_log_segment_metadata",
            metadata,
            lambda claim, origin: cmd.AddSegment(claim, origin, metadata),
        )

    async def update_remote_log_segment_metadata(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> int:
        return await self._write(
            "update_remote_log_segment_metadata",
            update,
            lambda claim, origin: cmd.UpdateSegment(claim, origin, update),
        )

    async def put_remote_partition_delete_metadata(
        self, metadata: RemotePartitionDeleteMetadata
    ) -> int:
        return await self._write(
            "put_remote_partition_delete_metadata",
            metadata,
            lambda claim, origin: cmd.PutPartitionDelete(claim, origin, metadata),
        )

    async def _write(
        self, name: str, written: Written, make: Callable[[cmd.Claim, Origin], cmd.Command]
    ) -> int:
        tip = written.topic_id_partition

        async def work() -> int:
            claim = self._claims.get(tip)
            if claim is None:
                raise NotLeader(
                    f"broker {self.broker_id} has not announced that it leads {tip}"
                )
            position = self.ledger.change(tip, make(claim, Origin(self.broker_id, None)))
            self.written.append(written)
            return position

        return await self.faults.call(name, work)

    async def enter(self, metadata: RemoteLogSegmentMetadata, *, finish: bool = True) -> None:
        """Write that the copy of a segment starts, and unless `finish` is false, finishes."""
        started = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        await self.add_remote_log_segment_metadata(
            replace(metadata, state=started, custom_metadata=None)
        )
        if finish:
            segment_id, now_ms = metadata.remote_log_segment_id, metadata.event_timestamp_ms
            custom = metadata.custom_metadata
            update = RemoteLogSegmentMetadataUpdate(segment_id, now_ms, finished, 1, custom)
            await self.update_remote_log_segment_metadata(update)

    # Questions.

    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        tip = topic_id_partition
        return await self._ask(
            "remote_log_segment_metadata",
            tip,
            lambda state: _metadata(tip, answers.lookup(state, epoch_for_offset, offset)),
        )

    async def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        return await self._ask(
            "highest_offset_for_epoch",
            topic_id_partition,
            lambda state: answers.highest_offset_for_epoch(state, leader_epoch),
        )

    async def remote_log_size(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int:
        return await self._ask(
            "remote_log_size",
            topic_id_partition,
            lambda state: answers.remote_log_size(state, leader_epoch),
        )

    async def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        tip = topic_id_partition
        return await self._ask(
            "next_segment_with_txn_index", tip, lambda state: _next_txn(state, epoch, offset)
        )

    async def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        tip, name = topic_id_partition, "list_remote_log_segments"
        snapshot = await self._ask(name, tip, answers.Snapshot)
        if leader_epoch is None:
            rows = answers.list_all(snapshot)
        else:
            listed = answers.list_epoch(snapshot, leader_epoch)
            rows = (row for row in listed if row is not None)
        for number, row in enumerate(rows, 1):
            yield answers.metadata_of(tip, row)
            if number % PAGE_ROWS == 0:
                await self._ask(name, tip, answers.summary)  # For the next page.

    async def partition_summary(
        self, topic_id_partition: TopicIdPartition
    ) -> answers.PartitionSummary:
        return await self._ask("partition_summary", topic_id_partition, answers.summary)

    async def _ask(
        self, name: str, tip: TopicIdPartition, question: Callable[[PartitionState], T]
    ) -> T:
        async def work() -> T:
            state = self.ledger.state(tip)
            if state.is_finished:
                raise PartitionDeleted(f"{tip}: its deletion is finished")
            return question(state)

        return await self.faults.call(name, work)


def _metadata(tip: TopicIdPartition, row: bytes | None) -> RemoteLogSegmentMetadata | None:
    return None if row is None else answers.metadata_of(tip, row)


def _next_txn(
    state: PartitionState, epoch: int, offset: int
) -> RemoteLogSegmentMetadata | None:
    while True:
        found = answers.next_segment_with_txn_index(state, epoch, offset)
        if not isinstance(found, answers.WalkPaused):
            return _metadata(state.topic_id_partition, found)
        offset = found.offset
