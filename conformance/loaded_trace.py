"""A recorded trace, loaded by user partition, with the records that were refused.

The file is sorted by metadata partition, so only the order within a user partition is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tierledger.conformance.answers import After
from tierledger.conformance.trace import OffsetGap, TraceRecord, read_records
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import InvalidArgument, MetadataParseError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.kafka import codec as kafka_codec
from tierledger.events.metadata import (
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
)

RECORDS_PER_COMMAND = 128
"""Most records of one import command: half a full batch, so that two fit into one."""

CUSTOM_BYTES_PER_COMMAND = 4 * 1024 * 1024
"""Bytes of custom metadata after which an import command takes no further record."""

RECORD_BYTES_MAX = 16 * 1024 * 1024
"""Most bytes of one record: 16 times a broker's default limit, a quarter of a store's longest
value."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that cannot be read, and so belongs to no partition."""

    partition: int
    offset: int
    reason: str
    is_newer: bool = False
    """Whether a newer Kafka wrote it, so that it may be about segments."""


@dataclass(slots=True)
class FedPartition:
    """One user partition: its records, and the number of those already fed."""

    topic_id_partition: TopicIdPartition
    records: list[ImportedRecord] = field(default_factory=list)
    fed: int = 0

    def due(self, after: After) -> list[ImportedRecord]:
        """The records up to `after` that are not fed yet."""
        until = self.fed
        while until < len(self.records) and _is_due(self.records[until], after):
            until += 1
        return self.records[self.fed : until]


def _is_due(record: ImportedRecord, after: After) -> bool:
    return after is None or record.offset <= after.get(record.metadata_partition, -1)


def runs_by_broker(
    records: Iterable[ImportedRecord],
) -> Iterator[tuple[int, list[ImportedRecord]]]:
    """Runs of successive records of one broker, each within the limits of one command."""
    run: list[ImportedRecord] = []
    size = 0
    for record in records:
        is_full = len(run) == RECORDS_PER_COMMAND or size > CUSTOM_BYTES_PER_COMMAND
        if run and (is_full or broker_of(run[0]) != broker_of(record)):
            yield broker_of(run[0]), run
            run, size = [], 0
        run.append(record)
        size += _custom_bytes(record)
    if run:
        yield broker_of(run[0]), run


def partition_of(record: ImportedRecord) -> TopicIdPartition:
    """The partition of the record."""
    value = record.record.value
    assert not isinstance(value, RemoteLogSegmentMetadataSnapshot), "those are refused"
    return value.topic_id_partition


def broker_of(record: ImportedRecord) -> int:
    """The broker that wrote the record."""
    return record.record.value.broker_id


def _custom_bytes(record: ImportedRecord) -> int:
    value = record.record.value
    if isinstance(value, RemotePartitionDeleteMetadata) or value.custom_metadata is None:
        return 0
    return len(value.custom_metadata.value)


@dataclass(slots=True)
class LoadedTrace:
    """A whole trace in memory."""

    origin: str
    raw: list[TraceRecord]
    partitions: list[FedPartition]
    refused: list[RefusedRecord]
    gaps: list[OffsetGap]
    names: dict[str, list[str]]
    """Topic ids with several names, an anomaly, and these names; the first name is used."""

    @property
    def record_count(self) -> int:
        return sum(len(partition.records) for partition in self.partitions)

    @property
    def brokers(self) -> list[int]:
        """All brokers that wrote records, ascending."""
        return sorted({broker_of(r) for part in self.partitions for r in part.records})


def load_trace(
    directory: Path, *, origin: str | None = None, allow_gaps: bool = False
) -> LoadedTrace:
    """Read the trace in `directory`.

    Raises:
        InvalidArgument: There is no trace, or it has no record.
        MetadataParseError: The file is damaged: a malformed line, a gap or a repeated record.
    """
    gaps: list[OffsetGap] = []
    raw = list(read_records(directory, allow_gaps=allow_gaps, on_gap=gaps.append))
    if not raw:
        raise InvalidArgument(f"{directory}: expected records, found none")
    trace = LoadedTrace(origin or directory.resolve().name, raw, [], [], gaps, {})
    partitions: dict[TopicIdPartition, FedPartition] = {}
    for record in raw:
        imported = imported_record(record)
        if isinstance(imported, RefusedRecord):
            trace.refused.append(imported)
            continue
        tip = partition_of(imported)
        known = partitions.setdefault(tip, FedPartition(tip))
        if known.topic_id_partition.topic != tip.topic:
            names = trace.names.setdefault(str(tip.topic_id), [known.topic_id_partition.topic])
            if tip.topic not in names:
                names.append(tip.topic)
        known.records.append(imported)
    trace.partitions = list(partitions.values())
    return trace


def imported_record(record: TraceRecord) -> ImportedRecord | RefusedRecord:
    """The record to import, or the reason why it is refused."""
    is_newer = False
    if record.value is None:
        reason = "a null value"
    elif len(record.value) > RECORD_BYTES_MAX:
        reason = f"a value of {len(record.value)} bytes, at most {RECORD_BYTES_MAX} are taken"
    else:
        try:
            decoded = kafka_codec.decode(record.value)
        except MetadataParseError as error:
            reason, is_newer = str(error), kafka_codec.is_newer(record.value)
        else:
            if not isinstance(decoded.value, RemoteLogSegmentMetadataSnapshot):
                return ImportedRecord(
                    record.partition, record.offset, record.timestamp_ms, decoded
                )
            reason = "a snapshot record, which names no partition"
    return RefusedRecord(record.partition, record.offset, reason, is_newer)
