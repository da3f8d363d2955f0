"""A tier of each layout in memory, whose objects a test damages one at a time."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from obstore.store import MemoryStore
from typing_extensions import override

from tests.models.storage.flipped_bits import flipped
from tests.models.tiering import tier_trace
from tests.models.tiering.memory_metadata import MemoryLedger, MemoryMetadataStore
from tests.models.tiering.segment_copies import copied, manifest_objects
from tests.models.tiering.tier_trace import TieredSegment
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.pipeline.jobs.audit.kinds import (
    FINISHED,
    AuditKind,
    FoundObjects,
    KnownSegment,
    LogStanding,
    verdicts,
)
from tierledger.tiering.formats.index_files import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.producer_snapshot import SNAPSHOT_ENTRY_SIZE
from tierledger.tiering.layouts.kafka import KafkaLayoutStorageManager
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.listed_objects import LayoutNames, ListedObject, names_of
from tierledger.tiering.layouts.manifest.layout import ManifestStorageManager
from tierledger.tiering.layouts.tier_url import Layout
from tierledger.tiering.objects.request_counts import Operation, RequestCounts
from tierledger.tiering.objects.store import ObjectStore
from tierledger.tiering.reader.reader import RemoteLogReader
from tierledger.tiering.remote_storage_manager import RemoteStorageManager
from tierledger.tiering.scrub.segment_source import FinishedSegments

PART_BYTES = 5000
"""Size of a part; the segments have 12 KB, so three parts each."""

ENTRIES = {
    IndexType.OFFSET.value: OFFSET_ENTRY.size,
    IndexType.TIMESTAMP.value: TIME_ENTRY.size,
    IndexType.TRANSACTION.value: TRANSACTION_ENTRY.size,
    IndexType.PRODUCER_SNAPSHOT.value: SNAPSHOT_ENTRY_SIZE,
    IndexType.LEADER_EPOCH.value: len(b"0 0\n"),
}


class Damage(NamedTuple):
    """Damage of one object."""

    name: str
    """The object's name."""
    role: str
    segment: TieredSegment
    kind: str
    before: bytes
    content: bytes | None
    """The damaged content; none: the object is missing."""

    @override
    def __str__(self) -> str:
        return f"{self.role} of {self.segment.metadata.start_offset} {self.kind}"


class DamagedTier:
    """Segments that a broker wrote, all finished, in one layout."""

    def __init__(self, layout: Layout, segments: list[TieredSegment]) -> None:
        self.layout = layout
        self.segments = segments
        self.counts = RequestCounts()
        self._files = MemoryStore()
        self.store = ObjectStore(self._files, "memory:", self.counts, is_near=True)

    @classmethod
    async def written(
        cls, layout: Layout, folder: Path, segments: list[TieredSegment]
    ) -> "DamagedTier":
        tier = cls(layout, segments)
        if layout == Layout.LEDGER:
            storage = LedgerStorageManager(tier.store, "", LedgerSettings(PART_BYTES))
            tier.segments = [await copied(storage, folder, one) for one in segments]
            return tier
        for segment in segments:
            objects = manifest_objects(segment)
            if layout == Layout.LOCAL_TIERED:
                place = tier.names.expected(segment.metadata).place
                objects = {
                    f"{place}.{kind.value}": one for kind, one in segment.indexes.items()
                }
                objects[f"{place}.log"] = segment.log
            for name, content in objects.items():
                await tier.store.put(Operation.COPY, name, content)
        return tier

    @property
    def names(self) -> LayoutNames:
        return names_of(self.layout, "")

    def storage(self) -> RemoteStorageManager:
        """A new storage manager, which has no cached state."""
        if self.layout == Layout.LEDGER:
            return LedgerStorageManager(self.store)
        if self.layout == Layout.MANIFEST:
            return ManifestStorageManager(self.store)
        return KafkaLayoutStorageManager(self.store)

    async def metadata(self) -> MemoryMetadataStore:
        """The metadata of all segments, finished."""
        store = MemoryLedger().store(self.segments[0].metadata.topic_id_partition)
        for metadata, _, _ in self.segments:
            await store.enter(metadata)
        return store

    async def reader(self) -> RemoteLogReader:
        metadata = await self.metadata()
        tip = self.segments[0].metadata.topic_id_partition
        return RemoteLogReader(metadata, self.storage(), tip)

    async def listed(self) -> dict[str, tuple[ListedObject, int]]:
        """The tier's objects by name: the parsed name and the size of each."""
        found = {}
        for name, one in (await self.store.list(Operation.LIST, "")).items():
            parsed = self.names.parse(name)
            assert parsed is not None, name
            found[name] = parsed, one.size
        return found

    async def audited(self) -> dict[Uuid, str]:
        """The audit's findings by segment; whole segments have none."""
        found: dict[tuple[Uuid, str], list[tuple[str, int]]] = {}
        for one, size in (await self.listed()).values():
            found.setdefault((one.segment_id, one.place), []).append((one.role, size))
        findings = {}
        for metadata, _, _ in self.segments:
            segment_id, must = metadata.remote_log_segment_id.id, self.names.expected(metadata)
            known = KnownSegment(FINISHED, True, *must, None)
            sets = [
                FoundObjects(place, True, len(some), sum(size for _, size in some), some, None)
                for (owner, place), some in found.items()
                if owner == segment_id
            ]
            for verdict in verdicts(known, sets, LogStanding.KNOWN, 0):
                if verdict.kind != AuditKind.WHOLE:
                    findings[segment_id] = f"{verdict.kind}: {verdict.detail}"
        return findings

    async def damages(self, number: int) -> list[Damage]:
        """Each possible damage of each object of segment `number`."""
        segment, other = self.segments[number], self.segments[number - 1]
        contents = {
            (one.segment_id, one.role): (name, await self.store.get(Operation.LIST, name))
            for name, (one, _) in (await self.listed()).items()
        }
        found = []
        for (segment_id, role), (name, content) in contents.items():
            if segment_id != segment.metadata.remote_log_segment_id.id:
                continue
            theirs = contents.get((other.metadata.remote_log_segment_id.id, role))
            for kind, changed in _changes(role, content, None if theirs is None else theirs[1]):
                if changed != content:
                    found.append(Damage(name, role, segment, kind, content, changed))
        return found

    @asynccontextmanager
    async def damaged(self, damage: Damage) -> AsyncIterator[None]:
        """Damage the tier during the block; the object is restored at its end."""
        if damage.content is None:
            await self.store.delete(Operation.DELETE, [damage.name])
        else:
            await self.store.put(Operation.COPY, damage.name, damage.content)
        try:
            yield
        finally:
            await self.store.put(Operation.COPY, damage.name, damage.before)


def _changes(
    role: str, content: bytes, theirs: bytes | None
) -> Iterator[tuple[str, bytes | None]]:
    yield "missing", None
    yield "emptied", b""
    yield "longer by a byte", content + b"\0"
    yield "shorter by a byte", content[:-1]
    yield "halved", content[: len(content) // 2]
    if role in ENTRIES:
        entry = ENTRIES[role]
        yield "shorter by an entry", content[:-entry]
        yield "longer by an entry", content + content[-entry:]
    if theirs is not None:
        yield "another's", theirs
    for at in sorted({0, 3, 7, 9, len(content) // 3, len(content) // 2, len(content) - 1}):
        if 0 <= at < len(content):
            yield f"flipped at {at}", flipped(content, at, 1 << (at + 1) % 8)


def payments() -> list[TieredSegment]:
    """Segments with overlapping transactions, some of them aborted."""
    return tier_trace.segments_of("payments-tx", 0)[:3]


class TierSegments:
    """The tier's metadata for a scrubber; a `SegmentSource`."""

    def __init__(self, tier: DamagedTier) -> None:
        self._tier = tier
        self.gone: set[Uuid] = set()
        """Segments that are deleted right after they were listed."""

    async def partitions(self) -> AsyncIterator[TopicIdPartition]:
        found = {one.metadata.topic_id_partition for one in self._tier.segments}
        for tip in sorted(found, key=lambda one: (str(one.topic_id), one.partition)):
            yield tip

    async def segments(self, topic_id_partition: TopicIdPartition) -> FinishedSegments:
        tip = topic_id_partition
        ours = [one.metadata for one in self._tier.segments]
        return FinishedSegments([one for one in ours if one.topic_id_partition == tip], {})

    async def is_finished(self, segment_id: RemoteLogSegmentId) -> bool:
        return segment_id.id not in self.gone
