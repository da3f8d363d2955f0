"""A store and a tier in a directory, in each layout, and ways to make them disagree."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from tests.models import tier_trace
from tests.models.s3_server import S3Server
from tests.models.segment_copies import manifest_objects, segment_data
from tests.models.spark_rows import writing
from tests.models.stored_partitions import StoredPartition
from tests.models.tier_trace import TieredSegment
from tierledger.events import log_events as log
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.listed_objects import LayoutNames, names_of
from tierledger.tiering.layouts.tier_url import Layout, open_tier, parse

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

PART_BYTES = 4096
"""The segments have 11 KB: three parts each."""

OLD_S = 1_600_000_000
"""When an old object was written, in seconds."""


class AuditedTier:
    """Segments of partition `codec-none-0` as a broker recorded them, copied anew."""

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
            # The server's own files: what becomes of them becomes of the objects.
            self.root = bucket.data / place.removeprefix("s3://")
            end = "/" if layout == Layout.MANIFEST else ""  # Its prefix is no folder.
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
        """Everything noted so far, to the store."""
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
        """Segment `number` into the tier, and into the log up to `state`; none: not at all."""
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
        """An event that the next `write` writes."""
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
            for name, content in manifest_objects(segment).items():
                self.put(name, content, is_old=False)
            return None
        place = self.names.expected(segment.metadata).place
        self.put(f"{place}.log", segment.log, is_old=False)
        for kind, content in segment.indexes.items():
            self.put(f"{place}.{kind.value}", content, is_old=False)
        return None

    def put(self, name: str, content: bytes, *, is_old: bool = True) -> None:
        """Any object; in a bucket its age is what it is."""
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
        """What lies in the tier of a segment, by name."""
        text = str(metadata.remote_log_segment_id.id)
        return sorted(one for one in self.root.rglob("*") if one.is_file() and text in str(one))

    def log_objects(self, metadata: RemoteLogSegmentMetadata) -> list[Path]:
        return [
            one for one in self.objects(metadata) if ".log" in one.name or "log." in one.name
        ]

    def age(self, metadata: RemoteLogSegmentMetadata) -> None:
        """As if its objects had been written long ago."""
        for one in self.objects(metadata):
            os.utime(one, (OLD_S, OLD_S))

    def renamed(self, number: int, **other: object) -> TieredSegment:
        """Segment `number` as that of another id, topic or partition."""
        segment = self.segments[number]
        tip = replace(self.tip, **other)  # type: ignore[arg-type]
        segment_id = RemoteLogSegmentId(tip, Uuid(bytes(15) + bytes([number + 1])))
        metadata = replace(segment.metadata, remote_log_segment_id=segment_id)
        return segment._replace(metadata=metadata)

    async def put_segment(self, segment: TieredSegment, *, is_old: bool = True) -> None:
        """Objects of a segment of which the store hears nothing."""
        await self._put(segment)
        if is_old:
            self.age(segment.metadata)


def other_partition(tip: TopicIdPartition, further: int = 7) -> TopicIdPartition:
    return replace(tip, partition=tip.partition + further)
