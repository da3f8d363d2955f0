"""A remote tier that a stock broker wrote, with the metadata of its segments.

The tree, the metadata topic and the records that consumers got are in `tests/traces/tier`.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tierledger.conformance.trace import read_records
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.kafka.codec import decode
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.tiering.formats.index_type import IndexType

TRACE = Path(__file__).parents[2] / "traces" / "tier"
TREE = TRACE / "tier"
"""`<topic>-<partition>-<topic id>/<20 digits>-<segment id>.<suffix>`."""


class TieredSegment(NamedTuple):
    """A finished segment with its log and indexes in the tier."""

    metadata: RemoteLogSegmentMetadata
    indexes: Mapping[IndexType, bytes]
    """Has no TRANSACTION if the broker wrote none."""
    log: bytes


@cache
def segments() -> tuple[TieredSegment, ...]:
    """All finished segments, by topic, partition and start offset."""
    finished = sorted(_finished(), key=lambda one: (*_name(one), one.start_offset))
    return tuple(_loaded(one) for one in finished)


@cache
def topics() -> tuple[TopicIdPartition, ...]:
    """Every partition that has tiered segments, by topic and number."""
    return tuple(dict.fromkeys(one.metadata.topic_id_partition for one in segments()))


def segments_of(topic: str, partition: int) -> list[TieredSegment]:
    """The finished segments of one partition, by start offset."""
    return [one for one in segments() if _name(one.metadata) == (topic, partition)]


def consumed(isolation: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The records that a consumer got, in order, by topic and partition.

    `isolation` is `read_uncommitted` or `read_committed`. Records after `ends()`, which were
    still local, are included.
    """
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with gzip.open(TRACE / f"consumed-{isolation}.jsonl.gz", "rt") as lines:
        for line in lines:
            record = json.loads(line)
            found.setdefault((record["topic"], record["partition"]), []).append(record)
    return found


def ends() -> dict[tuple[str, int], dict[str, int]]:
    """`latest_tiered_offset`, `earliest_local_offset`, `log_end_offset` of each partition."""
    listed = json.loads((TRACE / "ends.json").read_text())
    return {(one["topic"], one["partition"]): one for one in listed}


def local_log_directory(folder: Path, topic: str, partition: int) -> Path:
    """A broker's `<topic>-<partition>` under `folder`, with the tiered segments as local ones.

    An empty active segment follows them, as after a roll. The leader epochs are those of the
    last tiered segment's index.
    """
    log = folder / f"{topic}-{partition}"
    log.mkdir(parents=True)
    tiered = segments_of(topic, partition)
    for metadata, indexes, data in tiered:
        base = f"{metadata.start_offset:020}"
        (log / f"{base}.log").write_bytes(data)
        for kind in (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION):
            if kind in indexes:
                (log / f"{base}.{kind.value}").write_bytes(indexes[kind])
        snapshot = log / f"{metadata.end_offset + 1:020}.snapshot"
        snapshot.write_bytes(indexes[IndexType.PRODUCER_SNAPSHOT])
    active = f"{tiered[-1].metadata.end_offset + 1:020}"
    for suffix in ("log", IndexType.OFFSET.value, IndexType.TIMESTAMP.value):
        (log / f"{active}.{suffix}").write_bytes(b"")
    epochs = tiered[-1].indexes[IndexType.LEADER_EPOCH]
    (log / "leader-epoch-checkpoint").write_bytes(epochs)
    return log


def _finished() -> Iterator[RemoteLogSegmentMetadata]:
    added: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
    for record in read_records(TRACE):
        value = decode(record.value or b"").value
        if isinstance(value, RemoteLogSegmentMetadata):
            added[value.remote_log_segment_id] = value
        elif isinstance(value, RemoteLogSegmentMetadataUpdate):
            now = added[value.remote_log_segment_id].create_with_updates(value)
            if now.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                yield now


def _name(metadata: RemoteLogSegmentMetadata) -> tuple[str, int]:
    return metadata.topic_id_partition.topic, metadata.topic_id_partition.partition


def _loaded(metadata: RemoteLogSegmentMetadata) -> TieredSegment:
    tip, segment_id = metadata.topic_id_partition, metadata.remote_log_segment_id.id
    folder = TREE / f"{tip.topic}-{tip.partition}-{tip.topic_id}"
    stem = folder / f"{metadata.start_offset:020}-{segment_id}"
    indexes = {
        kind: Path(f"{stem}.{kind.value}").read_bytes()
        for kind in IndexType
        if Path(f"{stem}.{kind.value}").exists()
    }
    return TieredSegment(metadata, indexes, Path(f"{stem}.log").read_bytes())
