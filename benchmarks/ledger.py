"""One partition of a SQLite store, written without actors: a leader's work, step by step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tierledger.benchmarks.workload import (
    BROKER,
    CLUSTER,
    OFFSETS_PER_SEGMENT,
    PARTITION,
    START_MS,
    Workload,
)
from tierledger.events import commands as cmd
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event
from tierledger.events.partition.decide import Accepted, Limits, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.backend import CreateOutcome, MetadataStorageBackend
from tierledger.storage.connector import load_connector
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.event_log import EncodedBatch, encode_batch
from tierledger.storage.partition.reader import LogEntry, PartitionReader
from tierledger.storage.serde import MsgpackSerDe

LIMITS = Limits()
CLAIM = cmd.Claim(BROKER, 1, 1)
SERDE = MsgpackSerDe()

VALUES_PER_COPY = 200
"""Values copied in one step: a batch takes 30 kB, and a step at most 16 MiB."""


def prepared(
    state: PartitionState, commands: Sequence[cmd.Command]
) -> tuple[list[Event], EncodedBatch]:
    """The events of `commands`, as one batch."""
    overlay = Overlay(state)
    events: list[Event] = []
    for command in commands:
        decision = decide(overlay, command, START_MS, LIMITS)
        assert isinstance(decision, Accepted), decision
        events += decision.events
    return events, encode_batch(SERDE, events, state.chain_hash)


def blank(tip: TopicIdPartition = PARTITION, *, tracks_changes: bool = False) -> PartitionState:
    origin = genesis(CLUSTER, tip.topic_id, tip.partition)
    return PartitionState(tip, origin, tracks_changes=tracks_changes)


class Ledger:
    """The partition's state and its log; `open` it, and leave its block to close it."""

    def __init__(self, reader: PartitionReader, state: PartitionState, segments: int) -> None:
        """Not called directly."""
        self.reader = reader
        self.state = state
        self.next_batch = 0
        self.workload = Workload(segments, CLAIM, state.topic_id_partition)
        self.stored_partition: bytes | None = None
        self._segments = segments

    @classmethod
    async def open(cls, path: Path, segments: int, tip: TopicIdPartition = PARTITION) -> Self:
        """The partition `tip` in the store at `path`; both are made if missing.

        It is loaded as a leader loads it: the checkpoint, verified, then the log's tail.
        """
        reader = partition_reader(await opened(path, read_only=False), tip)
        stored = await reader.checkpoints.read_stored()
        if stored is None:
            ledger = cls(reader, blank(tip, tracks_changes=True), segments)
            await ledger.commit([cmd.OpenSession(CLAIM, 0, None, tip.topic)])
            return ledger
        value = reader.checkpoints.parse_partition(stored)
        state = await reader.checkpoints.load(stored, value, tracks_changes=True)
        ledger = cls(reader, state, segments)
        ledger.stored_partition, ledger.next_batch = stored, value.next_batch
        entry = LogEntry(state.next_position, value.next_batch, state.chain_hash)
        async for batch in reader.decoded_batches(entry):
            evolve_all(state, batch.events, batch.chain_hash)
            ledger.next_batch = batch.number + 1
        ledger.workload = Workload(segments, CLAIM, tip, first_request=state.next_position)
        return ledger

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.reader.backend.close()

    @property
    def head(self) -> int:
        """The number of the oldest segment."""
        epochs = sorted(self.state.epochs.items())
        tables = next(one for _, one in epochs if len(one.referenced))
        return tables.referenced.pages[0].first // OFFSETS_PER_SEGMENT

    @property
    def tail(self) -> int:
        """The number that the next new segment gets."""
        ends = [tables.highest for tables in self.state.epochs.values()]
        return (max(end for end in ends if end is not None) + 1) // OFFSETS_PER_SEGMENT

    async def commit(self, commands: Sequence[cmd.Command]) -> None:
        """Decide, encode, make durable, apply."""
        events, encoded = prepared(self.state, commands)
        await self.store(encoded)
        self.apply(events, encoded)

    def lead(self) -> None:
        """Open a session in memory only: nothing that follows may be stored.

        A service may have led the partition since it was made.
        """
        tip, session = self.state.topic_id_partition, self.state.session
        assert session is not None, "it was made with one"
        claim = CLAIM._replace(incarnation=session.incarnation + 1)
        command = cmd.OpenSession(claim, session.assignment + 1, None, tip.topic)
        self.apply(*prepared(self.state, [command]))
        first = self.state.next_position
        self.workload = Workload(self._segments, claim, tip, first_request=first)

    async def store(self, encoded: EncodedBatch) -> None:
        key = self.reader.log.key(self.next_batch)
        outcomes = await self.reader.backend.create_each([(key, encoded.value)])
        assert outcomes == [CreateOutcome.CREATED], "nobody else writes here"

    def apply(self, events: list[Event], encoded: EncodedBatch) -> None:
        """Apply a batch that is durable to the state."""
        evolve_all(self.state, events, encoded.chain_hash)
        self.next_batch += 1

    async def checkpoint(self) -> None:
        """Store what changed since the last checkpoint."""
        plan = self.reader.checkpoints.plan(self.state, self.next_batch, self.stored_partition)
        await self.reader.backend.execute_atomically(plan.operations)
        self.stored_partition = plan.partition_value

    async def turn_over(self, count: int) -> None:
        """About `count` events, half of them deletions at the head, half copies at the tail."""
        head, tail = self.head, self.tail
        for step in range(count // 4):
            await self.commit(self.workload.delete(head + step))
            new = tail + step
            await self.commit([self.workload.add(new), self.workload.finish(new)])


def url_of(path: Path) -> str:
    return f"sqlite:{path}"


async def opened(store: Path | str, *, read_only: bool = True) -> MetadataStorageBackend:
    """The store at a path or URL, as settings would open it; made if it may be written to."""
    url = store if isinstance(store, str) else url_of(store)
    return await load_connector({"metadata.storage.url": url}).backend(read_only=read_only)


async def copy_to(url: str, path: Path) -> None:
    """Copy the content of the SQLite store at `path` to the store at `url`."""
    source, target = await opened(path), await opened(url, read_only=False)
    try:
        after: str | None = None
        while values := await source.get_like("", after=after, limit=VALUES_PER_COPY):
            await target.create_each(values)
            after = values[-1][0]
    finally:
        await target.close()
        await source.close()


def partition_reader(
    backend: MetadataStorageBackend,
    tip: TopicIdPartition = PARTITION,
    spill: Spill | None = None,
) -> PartitionReader:
    keys = DefaultMetadataKeyFactory(CLUSTER)
    return PartitionReader(backend, keys, SERDE, CLUSTER, tip, spill)
