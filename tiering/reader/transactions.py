"""Which transactions were aborted, by the segments' transaction indexes.

The index entry of an aborted transaction is in the segment of its marker, which may come after
the segments of its records. So the walk continues behind the segment being read, until all
transactions that begin in it are known to have ended. An entry's last stable offset shows that,
or a producer snapshot.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from contextlib import suppress
from typing import TYPE_CHECKING

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.tiering.formats.record_batches import RecordBatch
from tierledger.tiering.reader.tier import Stretch, Tier, stable_offset_after

if TYPE_CHECKING:
    from tierledger.tiering.reader.indexes import SegmentIndexes


class AbortedTransactions:
    """Aborted transactions, collected while a log is read forwards; reads each index once."""

    def __init__(self, tier: Tier, indexes: SegmentIndexes) -> None:
        self._tier = tier
        self._indexes = indexes
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        self._next_offset = 0
        """Aborted transactions that ended before this offset are collected."""
        self._decided_offset = 0
        """All transactions that began before this offset are known to have ended."""

    async def collect(self, stretch: Stretch, before: int) -> None:
        """Collect the aborted transactions with records in `stretch` below offset `before`.

        Args:
            stretch: The next one to read; it leaves no gap behind the one before.
            before: At most the tier's last stable offset.

        Raises:
            RemoteResourceNotFound: A segment is missing in which a transaction may have ended.
            CorruptRemoteData: An index or a snapshot cannot be parsed.
        """
        self._next_offset = max(self._next_offset, stretch.first)
        while self._decided_offset < before and self._next_offset < self._tier.next_offset:
            at = self._next_offset
            here = stretch if at <= stretch.last else await self._tier.stretch_at(at)
            await self._take(here)
            self._next_offset = here.last + 1
            # The snapshot is of the segment's end. If the stretch ends earlier, that end is of
            # a lost lineage, and the snapshot does not apply.
            if self._decided_offset < before and here.last == here.metadata.end_offset:
                # A segment from before Kafka 2.8 may have no snapshot; the walk then goes on.
                with suppress(RemoteResourceNotFound):
                    stable = await stable_offset_after(self._tier.storage, here.metadata)
                    self._decided_offset = max(self._decided_offset, stable)

    def has_aborted(self, batch: RecordBatch) -> bool:
        """Whether `batch` belongs to a transaction that was aborted."""
        if not batch.is_transactional:
            return False
        ranges = self._by_producer.get(batch.producer_id)
        if not ranges:
            return False
        at = bisect_right(ranges, batch.base_offset, key=lambda one: one[0]) - 1
        return at >= 0 and batch.base_offset <= ranges[at][1]

    def forget_before(self, offset: int) -> None:
        """Drop the transactions that ended before `offset`: they are not needed any more."""
        for producer_id, ranges in list(self._by_producer.items()):
            kept = [one for one in ranges if one[1] >= offset]
            if kept:
                self._by_producer[producer_id] = kept
            else:
                del self._by_producer[producer_id]

    async def _take(self, here: Stretch) -> None:
        for one in await self._indexes.aborted_transactions(here.metadata):
            if not here.first <= one.last_offset <= here.last:
                continue  # It ended before the stretch, or in a lost lineage.
            ranges = self._by_producer.setdefault(one.producer_id, [])
            insort(ranges, (one.first_offset, one.last_offset))
            self._decided_offset = max(self._decided_offset, one.last_stable_offset)
