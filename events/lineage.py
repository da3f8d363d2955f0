"""Tells which remote segments belong to the present history of a leader's log.

An unclean election leaves segments in the tier whose records the new leader never had. Their
leader epochs tell them apart, as in Kafka's `isRemoteSegmentWithinLeaderEpochs`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping


class Lineage:
    """A log's leader epochs, each with the offset at which it starts.

    Create it once for many segments; `holds` takes one binary search.
    """

    __slots__ = ("epochs", "offsets")

    def __init__(self, leader_epochs: Mapping[int, int]) -> None:
        """`leader_epochs`: those of the log; epochs without records are left out."""
        kept = without_empty_epochs(leader_epochs)
        self.epochs = tuple(kept)
        self.offsets = tuple(kept.values())

    @property
    def first_epoch(self) -> int | None:
        """The epoch of the log's first record; None without any."""
        return self.epochs[0] if self.epochs else None

    def holds(
        self, segment_epochs: Mapping[int, int], end_offset: int, log_end_offset: int
    ) -> bool:
        """Whether a segment with these epochs, up to `end_offset`, is part of the log.

        The segment's epochs, from the log's first one on, must all be in the log. Each but the
        last must end at the same offset as in the log; the last may end earlier. Older epochs
        of the segment do not matter, and it may begin before the log, whose start moves up.
        """
        if not self.epochs or not segment_epochs or end_offset >= log_end_offset:
            return False
        segment = without_empty_epochs(segment_epochs)
        first = self.epochs[0]
        kept = [(epoch, offset) for epoch, offset in segment.items() if epoch >= first]
        if not kept:
            return False
        at = bisect_left(self.epochs, kept[0][0])
        here = self.epochs[at : at + len(kept)]
        if here != tuple(epoch for epoch, _ in kept):
            return False
        if at > 0 and kept[0][1] < self.offsets[at]:
            return False
        if self.offsets[at + 1 : at + len(kept)] != tuple(offset for _, offset in kept[1:]):
            return False
        following = at + len(kept)
        return following == len(self.epochs) or end_offset < self.offsets[following]


def without_empty_epochs(leader_epochs: Mapping[int, int]) -> dict[int, int]:
    """The epochs that have records, ascending (Kafka's `buildFilteredLeaderEpochMap`).

    An epoch that starts at the same offset as the next one has no records.
    """
    kept: dict[int, int] = {}
    previous: int | None = None
    for epoch, offset in sorted(leader_epochs.items()):
        if previous is not None and kept[previous] == offset:
            del kept[previous]
        kept[epoch] = offset
        previous = epoch
    return kept
