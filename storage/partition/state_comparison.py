"""Compares two states of the same position, down to single segments and pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tierledger.events.identifiers import Uuid
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.epoch_tables import EpochTables
from tierledger.events.tables.paged_map import PagedMap

NAMED_MAX = 3
"""Segments or keys that a difference names; the others are only counted."""


def differences(folded: PartitionState, stored: PartitionState) -> Iterator[str]:
    """The differences of `stored` from the fold, one sentence each; empty if equal."""
    if stored.chain_hash != folded.chain_hash:
        yield "the chain hash is not that of the log"
    if stored.head_fields() != folded.head_fields():
        yield f"the partition's own fields differ: {_first_difference(folded, stored)}"
    yield from _rows(folded, stored)
    for epoch in sorted(folded.epochs.keys() | stored.epochs.keys()):
        yield from _epoch(epoch, folded.epochs.get(epoch), stored.epochs.get(epoch))
    yield from _table(
        "the remembered deletions", folded.tombstones.by_position, stored.tombstones.by_position
    )
    yield from _table("the kept segments", folded.kept.by_position, stored.kept.by_position)
    if stored.digest() != folded.digest():
        yield "the digest is not that of the fold"


def _first_difference(folded: PartitionState, stored: PartitionState) -> str:
    pairs = zip(folded.head_fields(), stored.head_fields(), strict=True)
    return "; ".join(
        f"{theirs!r:.80} for {ours!r:.80}" for ours, theirs in pairs if ours != theirs
    )


def _rows(folded: PartitionState, stored: PartitionState) -> Iterator[str]:
    other = [row[3:19] for row in folded.rows if stored.rows.get(row[3:19]) != row]
    gained = [row[3:19] for row in stored.rows if folded.rows.get(row[3:19]) is None]
    if other:
        yield f"{len(other)} segments are missing or differ: {_named(other)}"
    if gained:
        yield f"{len(gained)} segments should not be there: {_named(gained)}"


def _epoch(epoch: int, folded: EpochTables | None, stored: EpochTables | None) -> Iterator[str]:
    if folded is None or stored is None:
        yield f"leader epoch {epoch} " + (
            "should not be there" if folded is None else "is missing"
        )
        return
    ours, theirs = (folded.highest, folded.size), (stored.highest, stored.size)
    if ours != theirs:
        yield f"leader epoch {epoch}: highest offset and size are {theirs}, expected {ours}"
    for (name, table), (_, other) in zip(folded.tables(), stored.tables(), strict=True):
        yield from _table(f"leader epoch {epoch}, {name}", table, other)


def _table(name: str, folded: PagedMap[Any, Any], stored: PagedMap[Any, Any]) -> Iterator[str]:
    ours, theirs = dict(folded.items()), dict(stored.items())
    if ours != theirs:
        keys = [key for key in {**ours, **theirs} if ours.get(key, ...) != theirs.get(key, ...)]
        shown = ", ".join(repr(key) for key in keys[:NAMED_MAX])
        yield f"{name}: {len(keys)} entries differ: {shown}"


def _named(ids: list[bytes]) -> str:
    more = "" if len(ids) <= NAMED_MAX else ", …"
    return ", ".join(str(Uuid(one)) for one in islice(ids, NAMED_MAX)) + more
