"""One leader epoch's tables: exactly what Kafka's cache has, and the segments that it loses.

`referenced` (offset to segment id), `unreferenced` and `highest` are Kafka's own
(`offsetToId`, `unreferencedSegmentIds`, `highestLogOffset`), with all effects of repeated and
late events, as Kafka's later tables depend on them. `lost` has segments that Kafka has dropped
from both sets. `hidden` is an interval index of the finished segments that a floor search in
`referenced` can miss:

Rule: a finished segment of the epoch is in `hidden` if and only if it is not referenced, or the
next referenced key lies within it. So `hidden` has every segment with an offset that the floor
search misses.
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
    """The tables of one leader epoch; only `placement` changes their entries."""

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
        """Bytes of all segments that the epoch lists, each once."""
        self.changed = True
        self.proof = 0
        """Checksum of this epoch's stored value; valid unless `changed`."""

    def tables(self) -> Iterator[tuple[str, PagedMap[Any, Any]]]:
        """The tables, with the names under which they are stored."""
        yield "referenced", self.referenced
        yield "unreferenced", self.unreferenced
        yield "lost", self.lost
        yield "hidden", self.hidden

    def snapshot(self) -> EpochTables:
        """A copy of the present tables, unaffected by later changes."""
        return self._copied([table.snapshot() for _, table in self.tables()])

    def freeze(self, *, whole: bool = False) -> EpochTables:
        """A snapshot that takes over the pages a checkpoint has to write; all if `whole`."""
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

        A page is skipped if all its intervals end before `offset`, so a miss takes one
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
