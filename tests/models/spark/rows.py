"""Stores for Spark to read, and the rows that it must find, made from event objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from tests.models.storage.stored_partitions import CLUSTER, StoredPartition
from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.schema import EVENT_SCHEMA
from tierledger.pipeline.source.source import TierledgerReader
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.connector import URL_SETTING, load_connector

Row = dict[str, Any]

NO_COLUMNS: Row = dict.fromkeys(
    (
        "segment_id",
        "state",
        "start_offset",
        "end_offset",
        "max_timestamp_ms",
        "event_timestamp_ms",
        "broker_id",
        "size_in_bytes",
        "leader_epochs",
        "custom_metadata",
        "custom_metadata_dropped_bytes",
        "txn_index_empty",
        "delete_state",
        "source_partition",
        "source_offset",
        "reason",
        "body",
    )
)


@asynccontextmanager
async def writing(url: str) -> AsyncIterator[MetadataStorageBackend]:
    backend = await load_connector({URL_SETTING: url}).backend(read_only=False)
    try:
        yield backend
    finally:
        await backend.close()


def options_of(url: str, **options: object) -> dict[str, str]:
    """Options in the form in which Spark passes them."""
    return {name: str(value) for name, value in {"store": url, **options}.items()}


def read(spark: SparkSession, url: str, **options: object) -> DataFrame:
    return spark.read.format("tierledger").options(**options_of(url, **options)).load()


def reader_of(url: str, **options: object) -> TierledgerReader:
    """The source's reader, to plan and read without Spark."""
    return TierledgerReader(SourceOptions.of(options_of(url, **options)), EVENT_SCHEMA)


def read_here(url: str, **options: object) -> list[Row]:
    """All rows, read in this process task by task, without Spark."""
    reader = reader_of(url, **options)
    schema = to_arrow_schema(EVENT_SCHEMA)
    found: list[Row] = []
    for task in reader.partitions():
        for batch in reader.read(task):
            assert batch.schema.equals(schema)
            found += batch.to_pylist()
    return in_order(found)


async def partition_of(url: str, tip: TopicIdPartition, batches: int) -> None:
    """Write a partition: its session, then `batches` batches of two events, 1 s apart."""
    async with writing(url) as backend:
        partition = await StoredPartition.led(backend, tip)
        await partition.fill(range(batches), step_ms=1000)


def row_of(tip: TopicIdPartition, event: log.Event, version: int = 1) -> Row:
    """The row that `event` must give according to docs/pipeline.md."""
    if isinstance(event.body, log.SessionDisputed):
        version = 2
    return {
        "cluster": CLUSTER,
        "topic": tip.topic,
        "topic_id": str(tip.topic_id),
        "partition": tip.partition,
        "position": event.position,
        "session": event.session,
        "type": type(event.body).__name__,
        "version": version,
        "log_time_ms": event.log_time_ms,
        "origin_broker_id": event.broker_id,
        "origin_request_id": event.request_id,
        **NO_COLUMNS,
        **_columns_of(event.body),
    }


def _columns_of(body: log.Body) -> Row:
    match body:
        case log.SegmentKept():
            return {
                "segment_id": str(Uuid(body.segment_id)),
                "broker_id": body.broker_id,
                "event_timestamp_ms": body.event_timestamp_ms,
                "reason": body.reason,
                "body": _json(body),
            }
        case log.SegmentPurgeStarted():
            return {"segment_id": str(Uuid(body.segment_id)), "body": _json(body)}
        case log.SegmentPurged():
            return {"segment_id": str(Uuid(body.segment_id))}
        case log.SegmentAdded():
            flat = body.epochs
            return {
                "segment_id": str(Uuid(body.segment_id)),
                "state": "COPY_SEGMENT_STARTED",
                "start_offset": body.start_offset,
                "end_offset": body.end_offset,
                "max_timestamp_ms": body.max_timestamp_ms,
                "event_timestamp_ms": body.event_timestamp_ms,
                "broker_id": body.broker_id,
                "size_in_bytes": body.size,
                "leader_epochs": {flat[at]: flat[at + 1] for at in range(0, len(flat), 2)},
                "custom_metadata": body.custom_metadata,
                "txn_index_empty": body.txn_index_empty,
                **_source(body.source),
            }
        case log.SegmentUpdated():
            return {
                "segment_id": str(Uuid(body.segment_id)),
                "state": RemoteLogSegmentState(body.state).name,
                "event_timestamp_ms": body.event_timestamp_ms,
                "broker_id": body.broker_id,
                "custom_metadata": body.custom_metadata,
                "custom_metadata_dropped_bytes": body.dropped_bytes,
                **_source(body.source),
            }
        case log.PartitionDeleteUpdated():
            return {
                "delete_state": RemotePartitionDeleteState(body.state).name,
                "event_timestamp_ms": body.event_timestamp_ms,
                "broker_id": body.broker_id,
                **_source(body.source),
            }
        case log.ImportRecordDropped(segment_id=found):
            segment_id = None if found is None else str(Uuid(found))
            return {"segment_id": segment_id, "reason": body.reason, **_source(body.source)}
        case log.SessionOpened(broker_id=broker) | log.SessionDisputed(broker_id=broker):
            return {"broker_id": broker, "body": _json(body)}
        case log.SessionClosed():
            return {"reason": body.reason, "body": _json(body)}
        case log.TombstonesDropped():
            return {"body": _json(body)}


def _source(source: log.Source) -> Row:
    return {} if source is None else {"source_partition": source[0], "source_offset": source[1]}


def _json(body: log.Body) -> str:
    return json.dumps(body._asdict(), ensure_ascii=False, default=bytes.hex)


def rows(found: Iterable[Any]) -> list[Row]:
    """Rows from Spark as dictionaries, in the order of logs and positions."""
    plain = [row.asDict() for row in found]
    for row in plain:
        for name, value in row.items():
            if isinstance(value, bytearray):
                row[name] = bytes(value)
    return in_order(plain)


def in_order(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: (row["topic_id"], row["partition"], row["position"]))
