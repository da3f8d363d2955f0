"""Records of Kafka's metadata topic that tierledger has neither written nor imported.

While tierledger owns the metadata, only its mirror writes the topic. A broker without the
plugin writes it, too: what it tiers and deletes meanwhile, of which no log knows.

Nothing is stored about such records, as topic and logs tell them: a mirrored record has its
header, and each log has the offset up to which it was imported. So every look finds the same
ones, until an import has taken them over.
"""

from __future__ import annotations

from typing import Any

from tierledger.conformance.loaded_trace import RefusedRecord, imported_record, partition_of
from tierledger.conformance.recorded_segments import RecordedTopic
from tierledger.conformance.trace import TraceRecord
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import DataError, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.events.typed_fields import INT64_MAX
from tierledger.storage.catalog import Catalog

LISTED_MAX = 50
"""Segments that are listed; all are counted."""


class _ForeignRecords:
    """Those of one metadata partition, folded without the records of others."""

    def __init__(self, since_ms: int) -> None:
        self.count = 0
        self.since_ms = since_ms
        self.topic = RecordedTopic(())
        self.partitions: dict[tuple[Uuid, int], TopicIdPartition] = {}
        self.changed: set[Uuid] = set()
        """Segments that others added, and these records change."""

    def segments(self) -> list[dict[str, Any]]:
        """The segments that these records have added, and not removed again."""
        found = []
        for tip in self.partitions.values():
            known = self.topic.partition(tip.topic_id, tip.partition).segments
            for one, segment in known.items():
                added = segment.added
                found.append(
                    {
                        "topic": tip.topic,
                        "topic_id": str(tip.topic_id),
                        "partition": tip.partition,
                        "id": one,
                        "start_offset": added.start_offset,
                        "end_offset": added.end_offset,
                        "bytes": added.segment_size_in_bytes,
                        "state": segment.state.name,
                    }
                )
        return found


class ForeignRecords:
    """All that were met in the topic so far."""

    def __init__(self, catalog: Catalog) -> None:
        """`catalog`: the logs."""
        self._catalog = catalog
        self._imported: dict[tuple[Uuid, int], int] = {}
        """By partition: its records up to that offset are in its log."""
        self._found: dict[int, _ForeignRecords] = {}
        """By metadata partition."""
        self._report: dict[str, Any] | None = None
        """What `plain` last gave; None if something was met since."""

    @property
    def count(self) -> int:
        return sum(one.count for one in self._found.values())

    async def meet(self, record: TraceRecord, *, is_mirrored_before: bool) -> None:
        """Note a record that no mirror wrote, if it was not imported either.

        `is_mirrored_before`: whether a mirror wrote before it into its metadata partition. An
        import passes over a record that cannot be read, so only its place tells its age. One
        of a newer Kafka is never imported.
        """
        imported = imported_record(record)
        if isinstance(imported, RefusedRecord):
            if is_mirrored_before or imported.is_newer:
                self._of(record).count += 1
            return
        if not await self.has(imported):
            return
        tip = partition_of(imported)
        found = self._of(record)
        found.count += 1
        found.partitions.setdefault((tip.topic_id, tip.partition), tip)
        value = imported.record.value
        if isinstance(value, RemoteLogSegmentMetadataUpdate):
            known = found.topic.partition(tip.topic_id, tip.partition).segments
            if str(value.remote_log_segment_id.id) not in known:
                found.changed.add(value.remote_log_segment_id.id)
        assert record.value is not None, "it was decoded"
        found.topic.apply(record.value)

    async def has(self, unmirrored: ImportedRecord) -> bool:
        """Whether a record that no mirror wrote was not imported either."""
        tip, metadata_partition = partition_of(unmirrored), unmirrored.metadata_partition
        return unmirrored.offset > await self._imported_offset(tip, metadata_partition)

    def drop(self, metadata_partition: int) -> None:
        """Leave out what was met there: it stands before a seal, and will be deleted."""
        self._found.pop(metadata_partition, None)
        self._report = None

    def plain(self) -> dict[str, Any]:
        """The report: number and time of the records, and what they are about."""
        if self._report is None:
            self._report = self._made()
        return self._report

    def _made(self) -> dict[str, Any]:
        found = list(self._found.values())
        segments = [segment for one in found for segment in one.segments()]
        return {
            "foreign": self.count,
            "foreign_since_ms": min((one.since_ms for one in found), default=None),
            "foreign_tiered": len(segments),
            "foreign_bytes": sum(one["bytes"] for one in segments),
            "foreign_changed": sum(len(one.changed) for one in found),
            "foreign_segments": segments[:LISTED_MAX],
        }

    def _of(self, record: TraceRecord) -> _ForeignRecords:
        self._report = None
        return self._found.setdefault(record.partition, _ForeignRecords(record.timestamp_ms))

    async def _imported_offset(self, tip: TopicIdPartition, metadata_partition: int) -> int:
        key = (tip.topic_id, tip.partition)
        if key not in self._imported:
            self._imported[key] = await self._read_offset(tip, metadata_partition)
        return self._imported[key]

    async def _read_offset(self, tip: TopicIdPartition, metadata_partition: int) -> int:
        try:
            state, _ = await self._catalog.reader(tip).state()
        except RemoteResourceNotFound:
            return -1
        except DataError:
            return INT64_MAX  # A damaged log; the mirror reports that.
        if state.is_finished:
            return INT64_MAX  # Kafka's own manager ignores later records, too.
        return state.imported_offset(self._catalog.cluster_id, metadata_partition)
