"""A partition's log as a leader writes it, in Kafka's own bytes, and its segments in a tier."""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import google_crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]
from msgspec.structs import replace
from typing_extensions import override

from tests.models.tiering.memory_metadata import MemoryLedger, MemoryMetadataStore
from tests.models.tiering.memory_storage import MemoryStorage
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.tiering.formats.index_files import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.formats.producer_snapshot import ProducerState, format_producer_snapshot
from tierledger.tiering.local.leader_epochs import epochs_between, epochs_until

TIP = TopicIdPartition(Uuid(bytes(range(16))), 3, "orders")
NOW_MS = 1_700_000_000_000
NO_PRODUCER = -1
ABORT, COMMIT = 0, 1


class WrittenBatch(NamedTuple):
    """A batch's bytes, with the values that its writer put into it."""

    data: bytes
    first: int
    last: int
    epoch: int
    producer: int
    timestamps: tuple[int, ...]
    marker: int | None = None
    """ABORT or COMMIT; none if the batch holds data."""


class EndedTransaction(NamedTuple):
    """An aborted transaction."""

    producer: int
    first: int
    last: int
    stable: int


def encoded(
    first: int,
    epoch: int,
    records: Sequence[tuple[int, bytes | None, bytes | None]],
    *,
    deltas: Sequence[int] | None = None,
    codec: int = 0,
    producer: int = NO_PRODUCER,
    control: bool = False,
    append_time_ms: int | None = None,
) -> bytes:
    """The bytes of a batch; each of `records` is a time, a key and a value.

    `deltas` are the records' offsets from `first`, if compaction has left gaps between them.
    """
    builder = DefaultRecordBatchBuilder(
        2, codec, int(producer != NO_PRODUCER), producer, 0, 0, 1 << 24
    )
    for delta, (timestamp, key, value) in zip(
        deltas or range(len(records)), records, strict=True
    ):
        builder.append(delta, timestamp, key, value, [("at", b"%d" % (first + delta))])
    data = bytearray(builder.build())
    (attributes,) = struct.unpack_from(">h", data, 21)
    if control:
        attributes |= 0x20
    if append_time_ms is not None:
        attributes |= 0x08
        struct.pack_into(">q", data, 35, append_time_ms)
    struct.pack_into(">h", data, 21, attributes)
    struct.pack_into(">q", data, 0, first)
    struct.pack_into(">i", data, 12, epoch)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


@dataclass
class WrittenLog:
    """A log that grows at its end; a test copies it by `copy()` before an election."""

    batches: list[WrittenBatch] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0})

    @property
    def epoch(self) -> int:
        return max(self.epochs)

    @property
    def end(self) -> int:
        """The next offset."""
        return self.batches[-1].last + 1 if self.batches else 0

    def copy(self) -> "WrittenLog":
        return WrittenLog(list(self.batches), dict(self.epochs))

    def append(
        self,
        count: int,
        producer: int = NO_PRODUCER,
        *,
        timestamps: Sequence[int] | None = None,
        codec: int = 0,
    ) -> WrittenBatch:
        """Append a batch of data, which is transactional if it has a producer."""
        times = tuple(timestamps or (NOW_MS + self.end + at for at in range(count)))
        records = [
            (time, b"key-%d" % (self.end + at), b"value-%d" % (self.end + at))
            for at, time in enumerate(times)
        ]
        data = encoded(self.end, self.epoch, records, codec=codec, producer=producer)
        return self._take(data, len(times), producer, times)

    def fill(self, batches: int, count: int, producer: int = NO_PRODUCER) -> None:
        for _ in range(batches):
            self.append(count, producer)

    def end_transaction(self, producer: int, marker: int) -> WrittenBatch:
        """Append the marker that commits or aborts the open transaction of `producer`."""
        time = NOW_MS + self.end
        record = (time, struct.pack(">hh", 0, marker), struct.pack(">hi", 0, 0))
        data = encoded(self.end, self.epoch, [record], producer=producer, control=True)
        batch = self._take(data, 1, producer, (time,))
        self.batches[-1] = batch._replace(marker=marker)
        return self.batches[-1]

    def elect(self, epoch: int, end: int | None = None) -> None:
        """Elect a new leader, whose log ends before `end`; records from `end` on are lost."""
        if end is not None:
            self.batches = [one for one in self.batches if one.last < end]
        self.epochs = epochs_until(self.epochs, self.end) | {epoch: self.end}

    def open_transactions(self, before: int) -> dict[int, int]:
        """By producer, the first offset of its transaction that is open at `before`."""
        found: dict[int, int] = {}
        for one in self.batches:
            if one.first >= before or one.producer == NO_PRODUCER:
                continue
            if one.marker is None:
                found.setdefault(one.producer, one.first)
            else:
                found.pop(one.producer, None)
        return found

    def aborted(self) -> list[EndedTransaction]:
        """All aborted transactions, in the order of their markers."""
        found = []
        for one in self.batches:
            first = self.open_transactions(one.first).get(one.producer)
            if one.marker == ABORT and first is not None:
                still_open = self.open_transactions(one.last + 1).values()
                stable = min(still_open, default=one.last + 1)
                found.append(EndedTransaction(one.producer, first, one.last, stable))
        return found

    def last_stable_offset(self, end: int) -> int:
        """The last stable offset of the log that ends before offset `end`."""
        return min(self.open_transactions(end).values(), default=end)

    def offsets(self, start: int, end: int, *, committed: bool) -> list[int]:
        """The offsets that a consumer gets from `start` on, if the log ends before `end`."""
        limit = self.last_stable_offset(end) if committed else end
        aborted = self.aborted() if committed else []
        return [
            offset
            for one in self.batches
            for offset in range(max(one.first, start), min(one.last + 1, limit))
            if one.marker is None
            and not any(
                gone.producer == one.producer and gone.first <= one.first <= gone.last
                for gone in aborted
            )
        ]

    def _take(
        self, data: bytes, count: int, producer: int, times: tuple[int, ...]
    ) -> WrittenBatch:
        batch = WrittenBatch(data, self.end, self.end + count - 1, self.epoch, producer, times)
        self.batches.append(batch)
        return batch


class PiecewiseStorage(MemoryStorage):
    """Storage that returns logs in small pieces, and records its requests."""

    def __init__(self, piece_bytes: int = 100) -> None:
        super().__init__()
        self.piece_bytes = piece_bytes
        self.requests: list[tuple[str, Uuid]] = []
        self.open_fetches = 0
        self.gate: asyncio.Event | None = None
        """If there is one, a fetch waits for this event before its third piece."""

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        self.requests.append(("log", metadata.remote_log_segment_id.id))
        self.open_fetches += 1
        try:
            async for found in super().fetch_log_segment(
                metadata, start_position, end_position
            ):
                for at in range(0, len(found), self.piece_bytes):
                    if self.gate is not None and at == 2 * self.piece_bytes:
                        await self.gate.wait()
                    if metadata.remote_log_segment_id.id not in self.logs:
                        segment = metadata.remote_log_segment_id
                        raise RemoteResourceNotFound(f"{segment}: its log is gone")
                    yield found[at : at + self.piece_bytes]
        finally:
            self.open_fetches -= 1

    @override
    async def fetch_index(
        self, metadata: RemoteLogSegmentMetadata, index_type: IndexType
    ) -> bytes:
        self.requests.append((index_type.name, metadata.remote_log_segment_id.id))
        return await super().fetch_index(metadata, index_type)


class WrittenTier:
    """Segments of one partition in a tier in memory, with the metadata of each."""

    def __init__(self, piece_bytes: int = 100) -> None:
        self.storage = PiecewiseStorage(piece_bytes)
        self.metadata: MemoryMetadataStore = MemoryLedger().store(TIP)
        self.copied: list[tuple[RemoteLogSegmentMetadata, WrittenLog]] = []
        """The copied segments, each with the log that it was copied from."""

    async def copy(
        self,
        log: WrittenLog,
        start: int,
        end: int,
        *,
        index_every: int = 2,
        finish: bool = True,
    ) -> RemoteLogSegmentMetadata:
        """Copy the batches of `log` from `start` to below `end`, as one segment."""
        batches = [one for one in log.batches if start <= one.first and one.last < end]
        segment = RemoteLogSegmentId(TIP, Uuid(len(self.copied).to_bytes(16, "big")))
        indexes = _indexes(log, batches, index_every)
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=start,
            end_offset=end - 1,
            max_timestamp_ms=max(time for one in batches for time in one.timestamps),
            broker_id=1,
            event_timestamp_ms=NOW_MS,
            segment_size_in_bytes=sum(len(one.data) for one in batches),
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs=epochs_between(log.epochs, start, end),
            txn_index_empty=IndexType.TRANSACTION not in indexes,
        )
        self.storage.logs[segment.id] = b"".join(one.data for one in batches)
        self.storage.indexes[segment.id] = indexes
        metadata = await self.enter(metadata, finish=finish)
        self.copied.append((metadata, log.copy()))
        return metadata

    async def enter(
        self, metadata: RemoteLogSegmentMetadata, *, finish: bool = True
    ) -> RemoteLogSegmentMetadata:
        """Write that the segment's copy starts, and unless `finish` is false, finishes."""
        await self.metadata.enter(metadata, finish=finish)
        state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED if finish else metadata.state
        return replace(metadata, state=state)

    async def move(
        self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
    ) -> None:
        update = RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id, NOW_MS, state, broker_id=1
        )
        await self.metadata.update_remote_log_segment_metadata(update)

    async def delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete a segment's data and metadata."""
        await self.move(metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        await self.storage.delete_log_segment_data(metadata)
        await self.move(metadata, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

    def requests(self, name: str) -> int:
        """The number of requests of kind `name`: "log", or the name of an index type."""
        return sum(1 for asked, _ in self.storage.requests if asked == name)


def _indexes(
    log: WrittenLog, batches: Sequence[WrittenBatch], index_every: int
) -> dict[IndexType, bytes]:
    start, end = batches[0].first, batches[-1].last + 1
    offsets, times = b"", b""
    position, latest, latest_at = 0, -1, start
    for number, one in enumerate(batches):
        if max(one.timestamps) > latest:
            # Kafka enters the batch's last offset, whichever of its records has that time.
            latest, latest_at = max(one.timestamps), one.last
        if number % index_every == 1:
            offsets += OFFSET_ENTRY.pack(one.last - start, position)
            times += TIME_ENTRY.pack(latest, latest_at - start)
        position += len(one.data)
    producers = [
        ProducerState(producer, 0, 0, first, 0, NOW_MS, 0, first)
        for producer, first in log.open_transactions(end).items()
    ]
    found = {
        IndexType.OFFSET: offsets,
        IndexType.TIMESTAMP: times,
        IndexType.PRODUCER_SNAPSHOT: format_producer_snapshot(producers),
        IndexType.LEADER_EPOCH: format_leader_epochs(epochs_until(log.epochs, end)),
    }
    aborted = [one for one in log.aborted() if start <= one.last < end]
    if aborted:
        found[IndexType.TRANSACTION] = b"".join(
            TRANSACTION_ENTRY.pack(0, *one) for one in aborted
        )
    return found
