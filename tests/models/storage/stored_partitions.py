"""Partitions in a store, written without a leader in the way in which leaders write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from sortedcontainers import SortedDict

from tests.models.storage.flipped_bits import flipped
from tierledger.conformance.trace import read_records
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import decode
from tierledger.events.partition.decide import Accepted, Limits, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.storage.backend import MetadataStorageBackend, Remove
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.catalog import Catalog
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.checkpoint import CheckpointStore
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.serde import MsgpackSerDe
from tierledger.tiering.stored_metadata import StoredMetadata

TRACES = Path(__file__).parents[2] / "traces"
CLUSTER = "test-cluster"
CLAIM = cmd.Claim(broker_id=1, incarnation=1, announcement=1)
TIP = TopicIdPartition(Uuid(bytes(range(16))), 3, "orders")
TIME_MS = 1_700_000_000_000
SERDE = MsgpackSerDe()


class StoredPartition:
    """One partition in `backend`, with the state that its leader would have."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        tip: TopicIdPartition = TIP,
        cluster: str = CLUSTER,
    ) -> None:
        self.backend = backend
        self.tip = tip
        self.cluster = cluster
        self.keys = DefaultMetadataKeyFactory(cluster)
        first = genesis(cluster, tip.topic_id, tip.partition)
        self.state = PartitionState(tip, first, tracks_changes=True)
        self.next_batch = 0
        self.partition_value: bytes | None = None

    @classmethod
    async def led(
        cls, backend: MetadataStorageBackend | None = None, tip: TopicIdPartition = TIP
    ) -> StoredPartition:
        """A new partition whose session is open; in memory, unless a backend is given."""
        partition = cls(backend or MemoryBackend(), tip)
        await partition.open()
        return partition

    @classmethod
    async def resumed(
        cls,
        backend: MetadataStorageBackend,
        tip: TopicIdPartition = TIP,
        cluster: str = CLUSTER,
    ) -> StoredPartition:
        """A stored partition, with its state at the end of its log."""
        partition = cls(backend, tip, cluster)
        partition.state, partition.next_batch = await partition.reader().state()
        return partition

    @property
    def claim(self) -> cmd.Claim:
        """The claim of the open session."""
        assert self.state.session is not None
        return self.state.session.claim

    def reader(self) -> PartitionReader:
        return PartitionReader(self.backend, self.keys, SERDE, self.cluster, self.tip)

    @property
    def values(self) -> SortedDict[str, bytes]:
        """The content of the store, which must be in memory."""
        assert isinstance(self.backend, MemoryBackend)
        return self.backend.values

    def batch_key(self, number: int) -> str:
        return self.keys.log_batch(self.tip, number)

    async def batch(self, number: int) -> bytes:
        """The stored bytes of batch `number`."""
        value = await self.backend.get(self.batch_key(number))
        assert value is not None
        return value

    async def open(self, *, imports: bool = False, time_ms: int = TIME_MS) -> None:
        origin = "recorded" if imports else None
        number = 0 if self.state.session is None else self.state.session.assignment
        claim = CLAIM._replace(announcement=number + 1)
        command = cmd.OpenSession(claim, number + 1, None, self.tip.topic, origin)
        await self.accept(command, time_ms)

    async def close(self, time_ms: int = TIME_MS) -> None:
        await self.accept(cmd.CloseSession(self.claim, "done"), time_ms)

    async def accept(self, command: cmd.Command, time_ms: int = TIME_MS) -> None:
        decided = decide(Overlay(self.state), command, time_ms, Limits())
        assert isinstance(decided, Accepted), decided
        if decided.events:
            await self.commit(decided.events)

    async def append(self, bodies: Sequence[log.Body], *, step_ms: int = 0) -> None:
        """Append one batch of events without a decision of the rules, `step_ms` apart."""
        state = self.state
        session = 0 if state.session is None else state.session.number
        first = max(state.log_time_ms, TIME_MS)
        events = [
            log.Event(state.next_position + at, session, first + at * step_ms, 1, None, body)
            for at, body in enumerate(bodies)
        ]
        await self.commit(events)

    async def fill(self, numbers: Iterable[int], *, step_ms: int = 0) -> None:
        """Append a batch for each of these segments: its copy starts and finishes."""
        for number in numbers:
            await self.append(finished(number), step_ms=step_ms)

    async def commit(self, events: Sequence[log.Event]) -> None:
        batch = encode_batch(SERDE, events, self.state.chain_hash)
        await self.backend.create(self.batch_key(self.next_batch), batch.value)
        evolve_all(self.state, events, batch.chain_hash)
        self.next_batch += 1

    async def checkpoint(self) -> None:
        store = CheckpointStore(self.backend, self.keys, SERDE, self.tip)
        plan = store.plan(self.state, self.next_batch, self.partition_value)
        await self.backend.execute_atomically(plan.operations)
        self.partition_value = plan.partition_value

    async def flip(self, number: int) -> None:
        """Flip a bit of batch `number`."""
        value = flipped(await self.batch(number))
        await self.backend.update(self.batch_key(number), value)

    async def lose(self, *numbers: int) -> None:
        """Remove these batches."""
        await self.backend.execute_atomically([Remove(self.batch_key(one)) for one in numbers])


async def import_trace(
    backend: MetadataStorageBackend, trace: Path, *, batch: int = 5, checkpoint_at: float = 0.5
) -> list[StoredPartition]:
    """Import the partitions of a recorded trace, `batch` records at a time.

    Each partition gets a checkpoint after the share `checkpoint_at` of its records; none if it
    is above 1.
    """
    items: list[tuple[TopicIdPartition, cmd.ImportedRecord]] = []
    for record in read_records(trace):
        assert record.value is not None
        recorded = decode(record.value)
        tip = recorded.value.topic_id_partition  # type: ignore[union-attr]
        items.append(
            (
                tip,
                cmd.ImportedRecord(
                    record.partition, record.offset, record.timestamp_ms, recorded
                ),
            )
        )
    items.sort(key=lambda one: (one[0].topic_id, one[0].partition))
    stored = []
    for tip, run in groupby(items, key=lambda one: one[0]):
        records = [item for _, item in run]
        partition = StoredPartition(backend, tip)
        await partition.open(imports=True, time_ms=0)
        for at in range(0, len(records), batch):
            claim = CLAIM
            await partition.accept(cmd.ImportRecords(claim, tuple(records[at : at + batch])), 0)
            if at <= len(records) * checkpoint_at < at + batch:
                await partition.checkpoint()
        stored.append(partition)
    return stored


def metadata_in(backend: MetadataStorageBackend) -> StoredMetadata:
    """The metadata of the partitions in `backend`, as readers get it."""
    keys = DefaultMetadataKeyFactory(CLUSTER)
    return StoredMetadata(Catalog(backend, keys, SERDE, CLUSTER).reader)


def segment_id(number: int) -> bytes:
    return (number * 2654435761 % 2**32).to_bytes(4, "big") + number.to_bytes(12, "big")


def added(
    number: int, start: int, end: int, *, epoch: int = 0, empty: bool = False
) -> log.Body:
    return log.SegmentAdded(
        segment_id(number), start, end, (epoch, start), 1000, 5, 1, 5, None, empty
    )


def updated(number: int, state: int) -> log.Body:
    return log.SegmentUpdated(segment_id(number), state, 2, 6, None)


def finished(number: int, *, epoch: int = 0, empty: bool = False) -> list[log.Body]:
    """The events of segment `number`, of ten offsets: its copy starts and finishes."""
    start = number * 10
    return [added(number, start, start + 9, epoch=epoch, empty=empty), updated(number, 1)]
