"""The segments that a tier must hold by a store's metadata, in the same order in every run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.answers import metadata_of
from tierledger.events.tables.segment_rows import EPOCHS, ID, START, STATE, unpack_row
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.point_reads import ask

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class FinishedSegments(NamedTuple):
    """The finished segments of one partition at one moment."""

    segments: Iterable[RemoteLogSegmentMetadata]
    """Ordered by start offset, then id; iterate it once."""
    known_epochs: Mapping[int, int]
    """Leader epochs that begin within a segment, with their first offsets."""


class SegmentSource(Protocol):
    """The metadata that a scrubber reads."""

    def partitions(self) -> AsyncIterator[TopicIdPartition]:
        """All partitions, in every run by text of the topic's id, then by number."""
        ...

    async def segments(self, topic_id_partition: TopicIdPartition) -> FinishedSegments:
        """The partition's segments that are finished now.

        Raises:
            DataError: The partition's log is damaged.
            RemoteResourceNotFound: The partition is unknown or forgotten.
        """
        ...

    async def is_finished(self, segment_id: RemoteLogSegmentId) -> bool: ...


class CatalogSegments:
    """The segments of a store: a `SegmentSource`."""

    def __init__(self, catalog: Catalog, partitions: Sequence[TopicIdPartition]) -> None:
        """Use `partitions`, which must be in the catalog's order."""
        self._catalog = catalog
        self._partitions = partitions

    async def partitions(self) -> AsyncIterator[TopicIdPartition]:
        for one in self._partitions:
            yield one

    async def segments(self, topic_id_partition: TopicIdPartition) -> FinishedSegments:
        tip = topic_id_partition
        state, _ = await self._catalog.reader(tip).state()
        known: dict[int, int] = {}
        found = []
        for row in state.rows:
            fields = unpack_row(row)
            if fields[STATE] != _FINISHED:
                continue
            found.append((fields[START], fields[ID], row))
            epochs = fields[EPOCHS]
            starts = zip(epochs[::3], epochs[1::3], strict=True)
            known |= {epoch: start for epoch, start in starts if start > fields[START]}
        found.sort()
        return FinishedSegments((metadata_of(tip, row) for *_, row in found), known)

    async def is_finished(self, segment_id: RemoteLogSegmentId) -> bool:
        reader = self._catalog.reader(segment_id.topic_id_partition)
        try:
            row = await ask(reader, lambda state: state.rows.get(segment_id.id))
        except RemoteResourceNotFound:  # The whole partition was deleted.
            return False
        return row is not None and unpack_row(row)[STATE] == _FINISHED
