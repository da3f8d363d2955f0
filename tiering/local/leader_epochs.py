"""Leader epochs of a log, as Kafka's LeaderEpochFileCache answers for them. Pure.

Everywhere a mapping of leader epoch to the offset at which it starts; both ascend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

UNDEFINED = -1
"""Kafka's word for no epoch and no offset."""


class OffsetAndEpoch(NamedTuple):
    """An offset and the leader epoch it was written in."""

    offset: int
    epoch: int


NOWHERE = OffsetAndEpoch(UNDEFINED, UNDEFINED)


def epochs_from(epochs: Mapping[int, int], start: int) -> dict[int, int]:
    """The epochs of a log that begins at `start`.

    Of those that start there or before it the last is kept, and starts at `start`.
    """
    ordered = sorted(epochs.items())
    before = [epoch for epoch, offset in ordered if offset <= start]
    kept = {before[-1]: start} if before else {}
    return kept | {epoch: offset for epoch, offset in ordered if offset > start}


def epochs_until(epochs: Mapping[int, int], end: int) -> dict[int, int]:
    """The epochs of a log that ends before `end`."""
    return {epoch: offset for epoch, offset in sorted(epochs.items()) if offset < end}


def epochs_between(epochs: Mapping[int, int], start: int, end: int) -> dict[int, int]:
    """The epochs of the segment from `start` up to, not including, `end`.

    The first may start behind `start`, where the log's beginning has moved into the segment.
    """
    return epochs_until(epochs_from(epochs, start), end)


def epoch_for_offset(epochs: Mapping[int, int], offset: int) -> int | None:
    """The epoch in which `offset` was written; none before the first epoch."""
    found = None
    for epoch, start in sorted(epochs.items()):
        if start > offset:
            break
        found = epoch
    return found


def end_offset_for(
    epochs: Mapping[int, int], epoch: int, log_end_offset: int
) -> OffsetAndEpoch:
    """Where `epoch` ended (exclusive), and in which epoch of this log that is.

    The newest ends at the log's end. One that this log has not had ended where the next one
    begins, in the epoch before it; one above all is unknown, `NOWHERE`.
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
