"""The history of a partition's log as its segments tell it, without a broker.

A leader knows its leader epochs; a table has only what the segments say of theirs. The newest
finished segment belongs to the newest leader's log, and what one leader epoch wrote comes from
one leader, so from there the chain is followed back: the epochs of any segment that holds the
oldest epoch known so far, and where that epoch begins with a segment, of the segment before;
over a hole, of the nearest before it: a leader knows its epochs whatever the tier has lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.answers import lookup
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.lineage import Lineage, without_empty_epochs
from tierledger.events.segment_rows import END, EPOCHS, STATE, Row, unpack_row

if TYPE_CHECKING:
    from tierledger.events.answers import Snapshot
    from tierledger.events.partition_state import PartitionState

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


class TierLineage(NamedTuple):
    """The newest history that a tier holds, and where it ends (exclusive)."""

    leader_epochs: dict[int, int]
    """Each leader epoch's first offset, ascending; of the oldest, the first that is known."""
    log_end_offset: int

    def made(self) -> Lineage:
        """What is asked whether a segment belongs to it."""
        return Lineage(self.leader_epochs)


def lineage_of(view: PartitionState | Snapshot) -> TierLineage | None:
    """The history of the newest finished segment; none if no segment is finished."""
    oldest_of: dict[int, dict[int, int]] = {}
    newest: tuple[int, int, dict[int, int]] | None = None
    for fields in map(unpack_row, view.rows):
        if fields[STATE] != _FINISHED:
            continue
        epochs = epochs_of(fields)
        last = max(epochs)
        if newest is None or (last, fields[END]) > newest[:2]:
            newest = (last, fields[END], epochs)
        for epoch, start in epochs.items():
            known = oldest_of.get(epoch)
            if known is None or (start, -len(epochs)) < (known[epoch], -len(known)):
                oldest_of[epoch] = epochs
    if newest is None:
        return None
    return TierLineage(_followed_back(view, newest[2], oldest_of), newest[1] + 1)


def _followed_back(
    view: PartitionState | Snapshot,
    newest: dict[int, int],
    oldest_of: dict[int, dict[int, int]],
) -> dict[int, int]:
    chain = dict(newest)
    while True:
        first = min(chain)
        for epoch, start in oldest_of[first].items():
            if epoch < first or (epoch == first and start < chain[epoch]):
                chain[epoch] = start
        before = min(chain)
        if before < first:
            continue
        found = _epoch_before(view, before, chain[before], oldest_of)
        if found is None:
            return ascending(chain)
        chain[found] = oldest_of[found][found]


def _epoch_before(
    view: PartitionState | Snapshot,
    epoch: int,
    start: int,
    oldest_of: dict[int, dict[int, int]],
) -> int | None:
    """The highest older epoch that holds the offset before `start`, else any before it."""
    over_hole: int | None = None
    for older in sorted((one for one in oldest_of if one < epoch), reverse=True):
        row = lookup(view, older, start - 1)
        if row is not None and unpack_row(row)[STATE] == _FINISHED:
            return older
        if over_hole is None and oldest_of[older][older] < start:
            over_hole = older
    return over_hole


def ascending(chain: dict[int, int]) -> dict[int, int]:
    """`chain`, without epochs that begin where a newer one has begun: no leader wrote that."""
    kept: list[tuple[int, int]] = []
    for epoch, start in sorted(chain.items(), reverse=True):
        if not kept or start < kept[-1][1]:
            kept.append((epoch, start))
    return dict(reversed(kept))


def epochs_of(fields: Row) -> dict[int, int]:
    """The leader epochs that have records in a segment, each with its first offset in it."""
    flat = fields[EPOCHS]
    if len(flat) == 3:
        return {flat[0]: flat[1]}
    return without_empty_epochs(dict(zip(flat[::3], flat[1::3], strict=True)))
