"""One leader epoch's tables: what Kafka's cache would hold, exactly, and what it loses.

`referenced` (offset to segment id), `unreferenced` and `highest` are Kafka's own
(`offsetToId`, `unreferencedSegmentIds`, `highestLogOffset`), with everything that repeated and
late events do to them, because Kafka's table drives its own future. `lost` holds segments that
Kafka has dropped from both sets. `hidden` is an interval index of the finished segments that a
floor search in `referenced` can miss:

Rule: a finished segment of the epoch is in `hidden` iff it is not referenced, or the next
referenced key lies within it. So a segment that holds an offset which the floor search misses
is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tierledger.events.tables.paged_map import PagedMap

OFFSET_BIAS = 1 << 63
"""Added to an offset so that its 8 bytes sort as the number does."""


def interval_key(start: int, segment_id: bytes) -> bytes:
    return (start + OFFSET_BIAS).to_bytes(8, "big") + segment_id


class EpochTables:
    """The tables of one leader epoch. Only `index` changes them."""

    __slots__ = (
        "changed",
        "hidden",
        "highest",
        "lost",
        "proof",
        "referenced",
        "size",
        "unreferenced",
    )

    def __init__(self) -> None:
        self.referenced: PagedMap[int, bytes] = PagedMap()
        self.unreferenced: PagedMap[bytes, None] = PagedMap()
        self.lost: PagedMap[bytes, None] = PagedMap()
        self.hidden: PagedMap[bytes, int] = PagedMap()
        self.highest: int | None = None
        self.size = 0
        """Bytes over `list(epoch)`, each segment once."""
        self.changed = True
        self.proof = 0
        """Checksum of this epoch's stored value; true unless `changed`."""

    def tables(self) -> Iterator[tuple[str, PagedMap[Any, Any]]]:
        """The tables by the names under which they are stored."""
        yield "referenced", self.referenced
        yield "unreferenced", self.unreferenced
        yield "lost", self.lost
        yield "hidden", self.hidden

    def snapshot(self) -> EpochTables:
        """These tables as they stand, unaffected by what comes."""
        return self._copied([table.snapshot() for _, table in self.tables()])

    def freeze(self, *, whole: bool = False) -> EpochTables:
        """A snapshot that takes over what a checkpoint has still to write: all, if `whole`."""
        self.changed = False
        return self._copied([table.freeze(whole=whole) for _, table in self.tables()])

    def _copied(self, tables: list[PagedMap[Any, Any]]) -> EpochTables:
        copy = EpochTables.__new__(EpochTables)
        copy.referenced, copy.unreferenced, copy.lost, copy.hidden = tables
        copy.highest, copy.size = self.highest, self.size
        copy.changed, copy.proof = False, self.proof
        return copy

    def holders(self, offset: int) -> Iterator[bytes]:
        """Ids of hidden segments that hold `offset`.

        A page is skipped unless some interval in it reaches `offset`, so that a miss costs one
        comparison per 512 hidden segments.
        """
        hidden = self.hidden
        until = interval_key(offset, b"\xff" * 17)
        for at in range(hidden.page_at(until), -1, -1):
            page = hidden.pages[at]
            if page.summary is None:
                page.summary = max(page.values)
            if page.summary < offset:
                continue
            for key, end in zip(page.keys, page.values, strict=True):
                if key < until and end >= offset:
                    yield key[8:]
