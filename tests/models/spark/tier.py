"""A tier and the store of its metadata for Spark to read, and the rows that it must give."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tests.models.spark.rows import writing
from tests.models.storage.stored_partitions import TIME_MS, StoredPartition, import_trace
from tests.models.tiering import tier_trace
from tests.models.tiering.segment_copies import copied
from tests.models.tiering.tier_trace import TieredSegment
from tests.models.tiering.written_log import WrittenTier
from tierledger.events import commands as cmd
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import (
    DeletionCause,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.pipeline.records.source import RecordsSource
from tierledger.tiering.layouts.tier_url import open_tier

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
ORIGIN = Origin(1, None)
BROKERS_TIER = f"local-tiered:{tier_trace.TREE}"

Row = dict[str, Any]


async def import_metadata(url: str) -> None:
    """Import the metadata topic that the broker of `BROKERS_TIER` wrote."""
    async with writing(url) as backend:
        await import_trace(backend, tier_trace.TRACE)


async def copy_segments(url: str, place: Path, segments: Iterable[TieredSegment]) -> str:
    """Copy segments of one partition in our own layout, with metadata; returns the URL."""
    tier = place / "tier"
    is_new = not tier.exists()
    tier.mkdir(parents=True, exist_ok=True)
    parts = list(segments)
    async with writing(url) as backend, open_tier(f"dir:{tier}") as storage:
        begin = StoredPartition.led if is_new else StoredPartition.resumed
        partition = await begin(backend, parts[0].metadata.topic_id_partition)
        for segment in parts:
            metadata = (await copied(storage, place, segment)).metadata
            begun = replace(metadata, state=STARTED, custom_metadata=None)
            await partition.accept(cmd.AddSegment(partition.claim, ORIGIN, begun))
            await move(partition, metadata, FINISHED)
    return f"dir:{tier}"


async def delete_segment(url: str, tier: str, metadata: RemoteLogSegmentMetadata) -> None:
    """Delete a segment as a leader does."""
    async with writing(url) as backend, open_tier(tier) as storage:
        partition = await StoredPartition.resumed(backend, metadata.topic_id_partition)
        await move(partition, metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        await storage.delete_log_segment_data(metadata)
        await move(partition, metadata, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


async def delete_partition(url: str, tip: TopicIdPartition) -> None:
    """Delete a partition's metadata."""
    async with writing(url) as backend:
        partition = await StoredPartition.resumed(backend, tip)
        for state in RemotePartitionDeleteState:
            deleted = RemotePartitionDeleteMetadata(tip, state, TIME_MS, 1)
            await partition.accept(cmd.PutPartitionDelete(partition.claim, ORIGIN, deleted))


async def copy_written(url: str, place: Path, written: WrittenTier, first: int = 0) -> str:
    """Copy segments of a tier in memory from number `first` on, in order of their copies."""
    parts = [
        TieredSegment(
            metadata,
            written.storage.indexes[metadata.remote_log_segment_id.id],
            written.storage.logs[metadata.remote_log_segment_id.id],
        )
        for metadata, _ in written.copied[first:]
    ]
    return await copy_segments(url, place, parts)


async def keep_segment(url: str, metadata: RemoteLogSegmentMetadata) -> None:
    """Delete a segment as a leader does for a guarded broker, whose data stays."""
    async with writing(url) as backend:
        partition = await StoredPartition.resumed(backend, metadata.topic_id_partition)
        state = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        await move(partition, metadata, state, cmd.Keep(2 * TIME_MS, "undo"))


async def move(
    partition: StoredPartition,
    metadata: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
    keep: cmd.Keep | None = None,
) -> None:
    """Append the segment's next state to the log."""
    guarded_for = None if keep is None else DeletionCause.RETENTION
    update = RemoteLogSegmentMetadataUpdate(
        metadata.remote_log_segment_id, TIME_MS, state, 1, metadata.custom_metadata
    )
    command = cmd.UpdateSegment(partition.claim, ORIGIN, update, guarded_for, keep)
    await partition.accept(command)


def records(spark: SparkSession, store: str, tier: str, **options: object) -> DataFrame:
    given = {"store": store, "tier": tier, **options}
    texts = {name: str(value) for name, value in given.items()}
    return spark.read.format("tierledger.records").options(**texts).load()


def directly(store: str, tier: str, **options: object) -> tuple[list[Row], int]:
    """The rows, read without Spark, and the number of tasks, which are pickled as by Spark."""
    reader = reader_of(store, tier, **options)
    tasks = [pickle.loads(pickle.dumps(one)) for one in reader.partitions()]
    return read_all(reader, tasks), len(tasks)


def reader_of(store: str, tier: str, **options: object) -> DataSourceReader:
    """The reader that Spark would get: pickled and unpickled."""
    given = {"store": store, "tier": tier, **options}
    source = RecordsSource({name: str(value) for name, value in given.items()})
    reader: DataSourceReader = pickle.loads(pickle.dumps(source.reader(source.schema())))
    return reader


def read_all(reader: DataSourceReader, tasks: Iterable[InputPartition]) -> list[Row]:
    """The rows of `tasks`, in order."""
    batches: list[Any] = [batch for one in tasks for batch in reader.read(one)]
    found = [row for batch in batches for row in batch.to_pylist()]
    for row in found:
        headers = row["headers"]
        row["headers"] = headers and [(one["key"], one["value"]) for one in headers]
    return _in_order(found)


def consumed_rows(
    isolation: str, topic: str, partitions: Iterable[int] | None = None
) -> list[Row]:
    """The tiered records that a consumer got, as rows in order."""
    wanted = None if partitions is None else set(partitions)
    return [
        row_of(one)
        for (name, number), found in sorted(tier_trace.consumed(isolation).items())
        if name == topic and (wanted is None or number in wanted)
        for one in found
        if one["offset"] <= tier_trace.ends()[name, number]["latest_tiered_offset"]
    ]


def row_of(recorded: Mapping[str, Any]) -> Row:
    """The row of a recorded record, with the id of its segment."""
    topic, partition, offset = (recorded[name] for name in ("topic", "partition", "offset"))
    return {
        "key": _bytes(recorded["key_hex"]),
        "value": _bytes(recorded["value_hex"]),
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": recorded["timestamp_ms"],
        "timestampType": ["CreateTime", "LogAppendTime"].index(recorded["timestamp_type"]),
        "headers": [(name, _bytes(value)) for name, value in recorded["headers"]] or None,
        "header_names": None,
        "leader_epoch": recorded["leader_epoch"],
        "segment_id": segment_of(topic, partition, offset),
    }


def segment_of(topic: str, partition: int, offset: int) -> str:
    for segment in tier_trace.segments_of(topic, partition):
        if segment.metadata.start_offset <= offset <= segment.metadata.end_offset:
            return str(segment.metadata.remote_log_segment_id.id)
    raise AssertionError(f"no segment holds {offset}")


def plain(frame: DataFrame) -> list[Row]:
    """Rows from Spark in the form of the rows above, by partition and offset."""
    found = [one.asDict() for one in frame.collect()]
    for row in found:
        for name, value in row.items():
            if isinstance(value, bytearray):
                row[name] = bytes(value)
        if row.get("headers") is not None:
            row["headers"] = [(one.key, _maybe(one.value)) for one in row["headers"]]
    return _in_order(found)


def _in_order(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def _maybe(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
