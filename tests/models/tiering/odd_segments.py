"""A tier of Kafka's LocalTieredStorage with segments of any content, and its store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.models.storage.stored_partitions import CLAIM, TIP, StoredPartition
from tests.models.tiering.raw_batches import NOW_MS
from tierledger.events import commands as cmd
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.tiering.formats.index_files import TIME_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.formats.producer_snapshot import format_producer_snapshot
from tierledger.tiering.formats.record_batches import BatchSplitter


@dataclass
class OddSegment:
    """A segment of leader epoch 0 with the log `log`; `indexes` replaces or (none) removes."""

    start: int
    end: int
    log: bytes
    indexes: Mapping[IndexType, bytes | None] = field(default_factory=dict)

    @property
    def max_timestamp_ms(self) -> int:
        splitter = BatchSplitter("written", 0, 0)
        return max((one.max_timestamp_ms for one in splitter.feed(self.log)), default=-1)

    def files(self) -> dict[IndexType, bytes]:
        """All indexes, as a broker writes them of a log with few batches."""
        times = TIME_ENTRY.pack(self.max_timestamp_ms, 0) if self.log else b""
        found: dict[IndexType, bytes | None] = {
            IndexType.OFFSET: b"",
            IndexType.TIMESTAMP: times,
            IndexType.PRODUCER_SNAPSHOT: format_producer_snapshot([]),
            IndexType.LEADER_EPOCH: format_leader_epochs({0: 0}),
            **self.indexes,
        }
        return {kind: data for kind, data in found.items() if data is not None}


async def write_odd_tier(folder: Path, segments: Sequence[OddSegment]) -> tuple[str, str]:
    """Write the segments of `TIP` below `folder`; returns the store's and the tier's URL."""
    store, tier = folder / "store.sqlite", folder / "tier"
    below = tier / f"{TIP.topic}-{TIP.partition}-{TIP.topic_id}"
    below.mkdir(parents=True)
    backend = await SqliteBackend.open(store)
    partition = await StoredPartition.led(backend, TIP)
    for number, one in enumerate(segments):
        segment = RemoteLogSegmentId(TIP, Uuid(number.to_bytes(16, "big")))
        files = one.files()
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=one.start,
            end_offset=one.end,
            max_timestamp_ms=one.max_timestamp_ms,
            broker_id=1,
            event_timestamp_ms=NOW_MS,
            segment_size_in_bytes=len(one.log),
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs={0: one.start},
            txn_index_empty=IndexType.TRANSACTION not in files,
        )
        finished = RemoteLogSegmentMetadataUpdate(
            segment, NOW_MS, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, broker_id=1
        )
        origin = Origin(1, None)
        await partition.accept(cmd.AddSegment(CLAIM, origin, metadata))
        await partition.accept(cmd.UpdateSegment(CLAIM, origin, finished))
        stem = below / f"{one.start:020d}-{segment.id}"
        stem.with_suffix(".log").write_bytes(one.log)
        for kind, data in files.items():
            stem.with_suffix(f".{kind.value}").write_bytes(data)
    await backend.close()
    return f"sqlite:{store}", f"local-tiered:{tier}"
