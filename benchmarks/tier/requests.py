"""The cost of a segment's first read: requests, and time if each takes 20 ms."""

import asyncio
import json
import shutil
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from obstore.store import LocalStore
from typing_extensions import override

from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.services import new_partition
from tierledger.benchmarks.tier.logs import write_log
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.index_cache.entry import fetch_entry
from tierledger.tiering.layouts.kafka import KafkaLayoutStorageManager
from tierledger.tiering.layouts.ledger.layout import LedgerStorageManager
from tierledger.tiering.layouts.manifest.layout import ManifestStorageManager
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.local.producer_snapshots import ProducerSnapshots
from tierledger.tiering.local.segment_data import describe_segment
from tierledger.tiering.objects.request_counts import Operation, RequestCounts, RequestKind
from tierledger.tiering.objects.store import ObjectStore
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager

Open = Callable[[ObjectStore], RemoteStorageManager]

T = TypeVar("T")

REQUEST_S = 0.02
SEGMENT_BYTES = 1 << 20
READ_BYTES = 1 << 16
"""Bytes that are read of the log, from the position that the indexes give."""
TURNS = 15
TIP = new_partition("asked")


async def requests(bench: Bench) -> None:
    """Requests of a first read in each layout; all indexes at once compared with one by one."""
    folder = bench.new_store("tier-requests").with_suffix("")
    write_log(folder / "asked-0", 1, SEGMENT_BYTES)
    # Kafka's transaction index: version, producer, first and last offset, last stable offset.
    aborted = struct.pack(">hqqqq", 0, 1, 2, 3, 4)
    (folder / "asked-0" / f"{0:020}.txnindex").write_bytes(aborted)
    log = await LogDirectory.open(folder / "asked-0", TIP)
    metadata, data = describe_segment(
        RemoteLogSegmentId(TIP, Uuid(b"one asked about.")),
        log.segments()[0],
        log.leader_epochs,
        ProducerSnapshots(),
        broker_id=1,
        now_ms=0,
    )
    tier = folder / "tier"
    tier.mkdir()
    custom = await LedgerStorageManager(SlowStore(tier, 0), "ours").copy_log_segment_data(
        metadata, data
    )
    ours = metadata.create_with_custom_metadata(custom)
    write_kafka(tier, metadata, data)
    write_manifest(tier, metadata, data)
    layouts: dict[str, Open] = {
        "ours": lambda store: LedgerStorageManager(store, "ours"),
        "three": lambda store: ManifestStorageManager(store, "three/"),
        "single": KafkaLayoutStorageManager,
    }
    bench.say("tier: a first read")
    for name, opened in layouts.items():
        asked = ours if name == "ours" else metadata
        store = SlowStore(tier, 0)
        storage = opened(store)
        await _first_read(storage, asked)
        first = store.counts.total()
        await _first_read(storage, asked)
        bench.note(**{name: first, f"{name}_again": store.counts.total() - first})
        for _ in range(TURNS):
            storage = opened(SlowStore(tier, REQUEST_S))
            with bench.timed(f"{name}_ms", 1e3):
                await _first_read(storage, asked)


async def _first_read(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata
) -> None:
    entry = await fetch_entry(storage, metadata)
    position = entry.lookup_offset(metadata.start_offset + 100).position
    pieces = storage.fetch_log_segment(metadata, position, position + READ_BYTES - 1)
    read = sum([len(piece) async for piece in pieces])
    assert read == READ_BYTES


class SlowStore(ObjectStore):
    """A directory in which each request takes some time, like a remote store."""

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(LocalStore(folder), f"dir:{folder}", RequestCounts(), directory=folder)
        self._seconds = seconds

    @override
    async def _ask(
        self,
        operation: Operation,
        request: RequestKind,
        name: str,
        send: Callable[[], Awaitable[T]],
    ) -> T:
        await asyncio.sleep(self._seconds)
        return await super()._ask(operation, request, name, send)


def files_of(data: LogSegmentData) -> dict[IndexType, bytes]:
    """The content of a segment's five indexes."""
    return {
        IndexType.OFFSET: data.offset_index.read_bytes(),
        IndexType.TIMESTAMP: data.time_index.read_bytes(),
        IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot_index,
        IndexType.LEADER_EPOCH: data.leader_epoch_index,
        IndexType.TRANSACTION: (data.transaction_index or Path()).read_bytes(),
    }


def write_kafka(tier: Path, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
    """The segment as LocalTieredStorage keeps it."""
    folder = tier / f"{TIP.topic}-{TIP.partition}-{TIP.topic_id}"
    folder.mkdir()
    stem = f"{metadata.start_offset:020}-{metadata.remote_log_segment_id.id}"
    shutil.copy(data.log_segment, folder / f"{stem}.log")
    for kind, content in files_of(data).items():
        (folder / f"{stem}.{kind.value}").write_bytes(content)


def write_manifest(
    tier: Path, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
) -> None:
    """The segment in three objects."""
    folder = tier / "three" / f"{TIP.topic}-{TIP.topic_id}" / str(TIP.partition)
    folder.mkdir(parents=True)
    stem = f"{metadata.start_offset:020}-{metadata.remote_log_segment_id.id}"
    shutil.copy(data.log_segment, folder / f"{stem}.log")
    names = {
        IndexType.OFFSET: "offset",
        IndexType.TIMESTAMP: "timestamp",
        IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
        IndexType.LEADER_EPOCH: "leaderEpoch",
        IndexType.TRANSACTION: "transaction",
    }
    indexes = bytearray()
    places = {}
    for kind, content in files_of(data).items():
        places[names[kind]] = {"position": len(indexes), "size": len(content)}
        indexes += content
    size = metadata.segment_size_in_bytes
    chunks = {
        "type": "fixed",
        "originalChunkSize": size,
        "originalFileSize": size,
        "transformedChunkSize": size,
        "finalTransformedChunkSize": size,
    }
    manifest = {
        "version": "1",
        "chunkIndex": chunks,
        "segmentIndexes": places,
        "compression": False,
    }
    (folder / f"{stem}.indexes").write_bytes(bytes(indexes))
    (folder / f"{stem}.rsm-manifest").write_text(json.dumps(manifest))
