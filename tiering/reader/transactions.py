"""Which transactions were aborted, as the segments' transaction indexes say.

The entry of an aborted transaction lies in the segment that its marker is in, which may be a
later one than those of its records. So the walk goes on behind the segment that is read, until
everything that begins in that one is known to have ended: an entry's last stable offset says
it, or a producer snapshot.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from tierledger.tiering.formats.record_batches import RecordBatch
from tierledger.tiering.reader.tier import Stretch, Tier, stable_offset_after

if TYPE_CHECKING:
    from tierledger.tiering.reader.indexes import SegmentIndexes


class AbortedTransactions:
    """Collected while a log is read from its beginning to its end; each index is read once."""

    def __init__(self, tier: Tier, indexes: SegmentIndexes) -> None:
        self._tier = tier
        self._indexes = indexes
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        self._next_offset = 0
        """All that ended before it is known."""
        self._decided_offset = 0
        """All that began before it has ended, and that is known."""

    async def collect(self, stretch: Stretch, before: int) -> None:
        """Learn of all that touch `stretch` below the offset `before`.

        Args:
            stretch: Not behind the end of the one before.
            before: Not behind the tier's last stable offset.

        Raises:
            RemoteResourceNotFound: A segment is missing in which one of them may have ended.
            CorruptRemoteData: An index is none.
        """
        self._next_offset = max(self._next_offset, stretch.first)
        while self._decided_offset < before and self._next_offset < self._tier.next_offset:
            at = self._next_offset
            here = stretch if at <= stretch.last else await self._tier.stretch_at(at)
            await self._take(here)
            self._next_offset = here.last + 1
            # The snapshot is of the segment's end; another lineage's says nothing of ours.
            if self._decided_offset < before and here.last == here.metadata.end_offset:
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
        """Nothing before `offset` will be asked for any more."""
        for producer_id, ranges in list(self._by_producer.items()):
            kept = [one for one in ranges if one[1] >= offset]
            if kept:
                self._by_producer[producer_id] = kept
            else:
                del self._by_producer[producer_id]

    async def _take(self, here: Stretch) -> None:
        for one in await self._indexes.aborted_transactions(here.metadata):
            if not here.first <= one.last_offset <= here.last:
                continue  # Before what is read, or of a lineage that was lost.
            ranges = self._by_producer.setdefault(one.producer_id, [])
            insort(ranges, (one.first_offset, one.last_offset))
            self._decided_offset = max(self._decided_offset, one.last_stable_offset)
