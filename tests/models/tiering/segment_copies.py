"""Segments in the form that a copy takes, and in the layouts of other programs."""

import json
from pathlib import Path

import obstore
from obstore.store import ObjectStore as ObstoreStore

from tests.models.tiering.tier_trace import TieredSegment
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.remote_storage_manager import LogSegmentData, RemoteStorageManager

_MANIFEST_NAMES = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}


def segment_data(folder: Path, segment: TieredSegment) -> LogSegmentData:
    """Write the segment's files below `folder`; returns them in the form that a copy takes."""
    stem = folder / str(segment.metadata.remote_log_segment_id.id)
    paths = {}
    for kind, content in segment.indexes.items():
        paths[kind] = stem.with_suffix(f".{kind.value}")
        paths[kind].write_bytes(content)
    log = stem.with_suffix(".log")
    log.write_bytes(segment.log)
    return LogSegmentData(
        log,
        paths[IndexType.OFFSET],
        paths[IndexType.TIMESTAMP],
        paths.get(IndexType.TRANSACTION),
        segment.indexes[IndexType.PRODUCER_SNAPSHOT],
        segment.indexes[IndexType.LEADER_EPOCH],
    )


async def copied(
    storage: RemoteStorageManager, folder: Path, segment: TieredSegment
) -> TieredSegment:
    """Copy the segment into `storage`; returns it with the custom metadata of the copy."""
    custom = await storage.copy_log_segment_data(
        segment.metadata, segment_data(folder, segment)
    )
    return segment._replace(metadata=segment.metadata.create_with_custom_metadata(custom))


async def whole_log(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bytes:
    return b"".join([piece async for piece in storage.fetch_log_segment(metadata, 0)])


def manifest_objects(
    segment: TieredSegment, prefix: str = "", **other: object
) -> dict[str, bytes]:
    """The three objects of `segment` in the three-object layout, by name.

    `other` replaces fields of the manifest; a field that is None is left out.
    """
    metadata = segment.metadata
    tip, segment_id = metadata.topic_id_partition, metadata.remote_log_segment_id.id
    main = (
        f"{tip.topic}-{tip.topic_id}/{tip.partition}/{metadata.start_offset:020}-{segment_id}"
    )
    indexes = b""
    places: dict[str, dict[str, int] | None] = {}
    for kind, name in _MANIFEST_NAMES.items():
        content = segment.indexes.get(kind, b"")
        place = {"position": len(indexes), "size": len(content)}
        places[name] = place if kind in segment.indexes else None
        indexes += content
    size = len(segment.log)
    manifest: dict[str, object] = {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": 4096,
            "originalFileSize": size,
            "transformedChunkSize": 4096,
            "finalTransformedChunkSize": size % 4096 or 4096,
        },
        "segmentIndexes": places,
        "compression": False,
        "remoteLogSegmentMetadata": _described(metadata),
        **other,
    }
    written = {key: value for key, value in manifest.items() if value is not None}
    return {
        f"{prefix}{main}.log": segment.log,
        f"{prefix}{main}.indexes": indexes,
        f"{prefix}{main}.rsm-manifest": json.dumps(written).encode(),
    }


def _described(metadata: RemoteLogSegmentMetadata) -> dict[str, object]:
    """The manifest's copy of the metadata; readers use only the segment's id in it."""
    tip = metadata.topic_id_partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": str(tip.topic_id),
                "topicPartition": {"topic": tip.topic, "partition": tip.partition},
            },
            "id": str(metadata.remote_log_segment_id.id),
        },
        "startOffset": metadata.start_offset,
        "endOffset": metadata.end_offset,
        "maxTimestampMs": metadata.max_timestamp_ms,
        "brokerId": metadata.broker_id,
        "eventTimestampMs": metadata.event_timestamp_ms,
        "segmentLeaderEpochs": dict(metadata.segment_leader_epochs),
    }


async def put_all(store: ObstoreStore, objects: dict[str, bytes]) -> None:
    for name, content in objects.items():
        await obstore.put_async(store, name, content)
