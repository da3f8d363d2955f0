"""A store and a tier in a directory or bucket, in any layout, which a test lets disagree."""

import os
from pathlib import Path
from typing import Any

import obstore
from msgspec.structs import replace
from obstore.store import S3Store

from tests.models.spark.rows import writing
from tests.models.storage.stored_partitions import StoredPartition
from tests.models.tiering import tier_trace
from tests.models.tiering.raw_batches import varint
from tests.models.tiering.segment_copies import manifest_objects, segment_data
from tests.models.tiering.tier_trace import TieredSegment
from tierledger.events import log_events as log
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.primitives import tag_section
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.simulation.live.s3_server import S3Server
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.listed_objects import LayoutNames, names_of
from tierledger.tiering.layouts.tier_url import Layout, open_tier, parse

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

PART_BYTES = 4096
"""Size of a part; the segments have 11 KB, so three parts each."""

OLD_S = 1_600_000_000
"""Modification time of old objects, in seconds."""


class AuditedTier:
    """Segments of partition `codec-none-0` that a broker wrote, copied into a new tier."""

    def __init__(
        self, folder: Path, layout: Layout = Layout.LEDGER, bucket: S3Server | None = None
    ) -> None:
        self.layout = layout
        self.root = folder / "tier"
        self.options: dict[str, str] = {}
        self.files = folder / "files"
        self.files.mkdir()
        self.url = f"sqlite:{folder / 'store.sqlite'}"
        scheme = "" if layout == Layout.LEDGER else f"{layout}:"
        self.tier = f"{scheme}dir:{self.root}"
        if bucket is not None:
            place = bucket.place()
            # The server's own files, so that a change to a file changes the object.
            self.root = bucket.data / place.removeprefix("s3://")
            end = "/" if layout == Layout.MANIFEST else ""  # A prefix is no folder.
            self.tier, self.options = f"{scheme}{place}{end}", bucket.options()
        self.root.mkdir(parents=True)
        self.segments = tier_trace.segments_of("codec-none", 0)
        self.tip = self.segments[0].metadata.topic_id_partition
        self.partition: StoredPartition | None = None
        self._bodies: list[log.Body] = []

    @property
    def names(self) -> LayoutNames:
        return names_of(self.layout, parse(self.tier).prefix)

    async def write(self) -> None:
        """Append all noted events to the store."""
        async with writing(self.url) as backend:
            if self.partition is None:
                self.partition = StoredPartition(backend, self.tip)
                await self.partition.open()
            self.partition.backend = backend
            if self._bodies:
                await self.partition.append(self._bodies)
        self._bodies = []

    async def copy(
        self, number: int, *, state: RemoteLogSegmentState | None = FINISHED
    ) -> RemoteLogSegmentMetadata:
        """Copy segment `number` into the tier, and note its events up to `state`, if any."""
        segment = self.segments[number]
        custom = await self._put(segment)
        metadata = segment.metadata
        if state is not None:
            self.note(metadata, RemoteLogSegmentState.COPY_SEGMENT_STARTED)
        if state in {FINISHED, DELETING, DELETED}:
            self.note(metadata, FINISHED, custom)
        for later in (DELETING, DELETED):
            if state in {later, DELETED}:
                self.note(metadata, later, custom)
        return metadata.create_with_custom_metadata(custom) if custom else metadata

    def note(
        self,
        metadata: RemoteLogSegmentMetadata,
        state: RemoteLogSegmentState,
        custom: CustomMetadata | None = None,
    ) -> None:
        """Note an event, which the next `write` appends."""
        segment_id = bytes(metadata.remote_log_segment_id.id)
        if state == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            started = replace(metadata, state=state, custom_metadata=None)
            self._bodies.append(log.added_body(started))
            return
        value = None if custom is None else custom.value
        self._bodies.append(log.SegmentUpdated(segment_id, int(state), 1, 6, value))

    async def _put(self, segment: TieredSegment) -> CustomMetadata | None:
        if self.layout == Layout.LEDGER:
            settings = LedgerSettings(part_bytes=PART_BYTES)
            storage = open_tier(self.tier, self.options, ledger_settings=settings)
            assert isinstance(storage, LedgerStorageManager)
            data = segment_data(self.files, segment)
            return await storage.copy_log_segment_data(segment.metadata, data)
        if self.layout == Layout.MANIFEST:
            objects = manifest_objects(segment)
            for name, content in objects.items():
                self.put(name, content, is_old=False)
            size = varint(sum(map(len, objects.values())))
            return CustomMetadata(tag_section(((0, size),)))
        place = self.names.expected(segment.metadata).place
        self.put(f"{place}.log", segment.log, is_old=False)
        for kind, content in segment.indexes.items():
            self.put(f"{place}.{kind.value}", content, is_old=False)
        return None

    def put(self, name: str, content: bytes, *, is_old: bool = True) -> None:
        """Put an object into the tier; in a bucket it is always new."""
        if self.options:
            place = parse(self.tier)
            options: Any = {k: v for k, v in self.options.items() if k != "allow_http"}
            client = S3Store.from_url(
                place.root, config=options, client_options={"allow_http": True}
            )
            join = "/" if self.layout == Layout.LEDGER else ""
            obstore.put(client, f"{place.prefix}{join}{name}", content)
            return
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if is_old:
            os.utime(path, (OLD_S, OLD_S))

    def objects(self, metadata: RemoteLogSegmentMetadata) -> list[Path]:
        """The files of a segment's objects in the tier, by name."""
        text = str(metadata.remote_log_segment_id.id)
        return sorted(one for one in self.root.rglob("*") if one.is_file() and text in str(one))

    def log_objects(self, metadata: RemoteLogSegmentMetadata) -> list[Path]:
        return [
            one for one in self.objects(metadata) if ".log" in one.name or "log." in one.name
        ]

    def age(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Date the segment's objects back to `OLD_S`."""
        for one in self.objects(metadata):
            os.utime(one, (OLD_S, OLD_S))

    def renamed(self, number: int, **other: object) -> TieredSegment:
        """Segment `number` under another id, and with other fields of its partition."""
        segment = self.segments[number]
        tip = replace(self.tip, **other)
        segment_id = RemoteLogSegmentId(tip, Uuid(bytes(15) + bytes([number + 1])))
        metadata = replace(segment.metadata, remote_log_segment_id=segment_id)
        return segment._replace(metadata=metadata)

    async def put_segment(self, segment: TieredSegment, *, is_old: bool = True) -> None:
        """Put a segment's objects into the tier without events in the store."""
        await self._put(segment)
        if is_old:
            self.age(segment.metadata)


def other_partition(tip: TopicIdPartition, further: int = 7) -> TopicIdPartition:
    return replace(tip, partition=tip.partition + further)
