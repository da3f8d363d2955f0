"""Lookups in the leader epochs of a log, like Kafka's LeaderEpochFileCache. Pure.

Leader epochs are always a mapping of epoch to its first offset; both ascend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

UNDEFINED = -1
"""Kafka's value for no epoch and no offset."""


class OffsetAndEpoch(NamedTuple):
    """An offset and the leader epoch it was written in."""

    offset: int
    epoch: int


NOWHERE = OffsetAndEpoch(UNDEFINED, UNDEFINED)


def epochs_from(epochs: Mapping[int, int], start: int) -> dict[int, int]:
    """The epochs of a log that begins at `start`.

    Of the epochs that begin at `start` or before it, only the last is kept, beginning at
    `start`.
    """
    ordered = sorted(epochs.items())
    before = [epoch for epoch, offset in ordered if offset <= start]
    kept = {before[-1]: start} if before else {}
    return kept | {epoch: offset for epoch, offset in ordered if offset > start}


def epochs_until(epochs: Mapping[int, int], end: int) -> dict[int, int]:
    """The epochs of a log that ends before `end`."""
    return {epoch: offset for epoch, offset in sorted(epochs.items()) if offset < end}


def epochs_between(epochs: Mapping[int, int], start: int, end: int) -> dict[int, int]:
    """The epochs of the segment from `start` to `end` (exclusive).

    The first epoch may begin behind `start` if the log start offset is within the segment.
    """
    return epochs_until(epochs_from(epochs, start), end)


def epoch_for_offset(epochs: Mapping[int, int], offset: int) -> int | None:
    """The epoch in which `offset` was written; none if it is before the first epoch."""
    found = None
    for epoch, start in sorted(epochs.items()):
        if start > offset:
            break
        found = epoch
    return found


def end_offset_for(
    epochs: Mapping[int, int], epoch: int, log_end_offset: int
) -> OffsetAndEpoch:
    """Where `epoch` ended (exclusive), and the epoch of this log to which that end belongs.

    The newest epoch ends at the log's end. An epoch that this log does not have ends where the
    next higher one begins, and the end belongs to the next lower one. `NOWHERE` for an epoch
    above all of the log's.
    """
    ordered = sorted(epochs.items())
    if not ordered or epoch == UNDEFINED:
        return NOWHERE
    if epoch == ordered[-1][0]:
        return OffsetAndEpoch(log_end_offset, epoch)
    higher = [start for one, start in ordered if one > epoch]
    if not higher:
        return NOWHERE
    lower = [one for one, _ in ordered if one <= epoch]
    return OffsetAndEpoch(higher[0], lower[-1] if lower else epoch)
