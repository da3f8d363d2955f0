"""A store and a tier of some partitions, into which a test puts what does not belong there."""

import asyncio
import os
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from tests.models.storage.stored_partitions import CLUSTER, SERDE, StoredPartition
from tierledger.actors.coordinator.events import CoordinatorBody
from tierledger.actors.coordinator.log import folded
from tierledger.events import log_events as log
from tierledger.events.errors import CorruptLog
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata, RemoteLogSegmentMetadata
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.catalog import Catalog
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.tiering.layouts.ledger.format import LedgerCustomMetadata
from tierledger.tiering.layouts.ledger.layout import place_of

OLD_S = 1_700_100_000
"""When old objects were written, in seconds."""

SIZE = 40
"""Bytes of a segment's log."""

SEGMENTS = 4
"""Finished segments of each partition, of ten offsets each, from `FIRST` on."""

FIRST = 20
"""Segments of lower offsets were deleted."""

COPYING, FINISHED, DELETING, DELETED = RemoteLogSegmentState


class ClutteredPart(NamedTuple):
    """A partition of the world."""

    stored: StoredPartition
    tip: TopicIdPartition


class ClutteredTier:
    """The world; what it is built with lives."""

    def __init__(self, folder: Path, seed: int, partitions: int) -> None:
        self.random = Random(seed)
        self.root = folder / "tier"
        self.root.mkdir(parents=True)
        self.path = folder / "store.sqlite"
        self.prefix = ""
        self.parts: list[ClutteredPart] = []
        self.finished: dict[ClutteredPart, list[Uuid]] = {}
        """Ids of the segments that `build` has finished."""
        self._partitions = partitions

    @property
    def store(self) -> tuple[str, str]:
        return "--store", f"sqlite:{self.path}"

    @property
    def tier(self) -> tuple[str, str]:
        return "--tier", f"dir:{self.root}"

    def id(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    async def build(self) -> None:
        """Partitions that live: some segments were deleted, some are finished."""
        backend = await SqliteBackend.open(self.path)
        for number in range(self._partitions):
            tip = TopicIdPartition(self.id(), number % 3, f"topic-{number}")
            stored = await StoredPartition.led(backend, tip)
            part = ClutteredPart(stored, tip)
            self.parts.append(part)
            bodies: list[log.Body] = []
            for start in range(0, FIRST + 10 * SEGMENTS, 10):
                bodies += self.life(part, start, DELETED if start < FIRST else FINISHED)
                if start >= FIRST:
                    finished = self.finished.setdefault(part, [])
                    finished.append(self.last.remote_log_segment_id.id)
            await stored.append(bodies)
        await backend.close()

    def life(
        self,
        part: ClutteredPart,
        start: int,
        state: RemoteLogSegmentState | None,
        *,
        objects: bool | None = None,
        time_ms: int = 5,
        kept_until_ms: int | None = None,
        is_old: bool = False,
        offsets: int = 10,
    ) -> list[log.Body]:
        """The events of a new segment up to `state`, and its objects unless it is deleted."""
        metadata = self.segment(part, start, time_ms, offsets)
        segment_id = bytes(metadata.remote_log_segment_id.id)
        custom = self.custom().value
        if objects or (objects is None and state != DELETED):
            self.put(metadata, is_old=is_old)
        bodies: list[log.Body] = [] if state is None else [log.added_body(metadata)]
        for later in (FINISHED, DELETING, DELETED):
            if state is not None and later <= state:
                value = custom if later == FINISHED else None
                bodies.append(log.SegmentUpdated(segment_id, int(later), 1, time_ms, value))
        if kept_until_ms is not None:
            bodies.append(log.SegmentKept(segment_id, kept_until_ms, 1, 1, time_ms, "undo"))
        self.last = metadata
        return bodies

    def segment(
        self, part: ClutteredPart, start: int, time_ms: int = 5, offsets: int = 10
    ) -> RemoteLogSegmentMetadata:
        return RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(part.tip, self.id()),
            start_offset=start,
            end_offset=start + offsets - 1,
            max_timestamp_ms=5,
            broker_id=1,
            event_timestamp_ms=time_ms,
            segment_size_in_bytes=SIZE,
            state=COPYING,
            segment_leader_epochs={0: start},
        )

    def custom(self) -> CustomMetadata:
        return LedgerCustomMetadata(64, SIZE + 7, None).to_custom_metadata()

    def put(self, metadata: RemoteLogSegmentMetadata, *, is_old: bool = False) -> list[Path]:
        place = self.root / place_of(metadata, self.prefix)
        place.mkdir(parents=True, exist_ok=True)
        paths = [place / "log.00000", place / "indexes"]
        for path, size in zip(paths, (SIZE, 7), strict=True):
            path.write_bytes(self.random.randbytes(size))
            if is_old:
                os.utime(path, (OLD_S, OLD_S))
        return paths

    async def append(self, part: ClutteredPart, bodies: list[log.Body]) -> None:
        backend = await SqliteBackend.open(self.path)
        part.stored.backend = backend
        await part.stored.append(bodies)
        await backend.close()

    async def close(self, *led: ClutteredPart) -> None:
        """End all sessions but those of `led`."""
        backend = await SqliteBackend.open(self.path)
        for part in self.parts:
            if part not in led:
                part.stored.backend = backend
                await part.stored.close()
        await backend.close()

    async def coordinator(self, *bodies: CoordinatorBody) -> None:
        """Append to the coordinator's log."""
        backend = await SqliteBackend.open(self.path)
        keys = DefaultMetadataKeyFactory(CLUSTER)
        fold = await folded(Catalog(backend, keys, SERDE, CLUSTER))
        _, stored = fold.events_of(bodies, fold.state, 1_000)
        await backend.create(fold.key(fold.next_batch), fold.batch_of(stored))
        await backend.close()

    def finished_objects(self, part: ClutteredPart) -> list[Path]:
        """The objects of the partition's segments that `build` has finished."""
        folder = self.root / part.tip.topic / str(part.tip.topic_id) / str(part.tip.partition)
        places = [place for one in self.finished[part] for place in folder.glob(f"*-{one}")]
        return [place / name for place in places for name in ("indexes", "log.00000")]

    def objects(self) -> dict[str, bytes]:
        """The whole tier."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def rows(self) -> dict[tuple[TopicIdPartition, bytes], bytes]:
        """All segments of the store, by partition and id, also what is kept.

        Of a damaged log, all that is stored of it.
        """

        async def read() -> dict[tuple[TopicIdPartition, bytes], bytes]:
            found = {}
            backend = await SqliteBackend.open(self.path, read_only=True)
            for part in self.parts:
                try:
                    stored = await StoredPartition.resumed(backend, part.tip)
                except CorruptLog:
                    stored_as = await backend.get_like(part.stored.keys.log(part.tip))
                    found[part.tip, b""] = repr(stored_as).encode()
                    continue
                for row in stored.state.rows:
                    found[part.tip, row[3:19]] = row
                for _, kept in stored.state.kept.all():
                    found[part.tip, kept.row[3:19]] = kept.row
            await backend.close()
            return found

        return asyncio.run(read())


def moved(metadata: RemoteLogSegmentMetadata, start: int) -> RemoteLogSegmentMetadata:
    """The same segment id, at another offset."""
    return replace(metadata, start_offset=start, end_offset=start + 9)
