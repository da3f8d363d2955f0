"""A state of which only the parts that an answer needs are fetched from a checkpoint.

The log's tail is applied on top, so a few reads answer for a million segments. Rule: access to
a part that was not fetched yet raises `Absent`; the part is never taken for missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from typing_extensions import override

from tierledger.events.errors import CorruptCheckpoint
from tierledger.events.partition.state import KeptSegments, PartitionState
from tierledger.events.tables.epoch_tables import EpochTables
from tierledger.events.tables.paged_map import K, Page, PagedMap, StoredPage, V
from tierledger.events.tables.segment_rows import SegmentRows, id_of_row
from tierledger.storage.partition.checkpoint import (
    CheckpointStore,
    Directory,
    PagePlace,
    PartitionValue,
)

PAGES_PER_FETCH = 100
"""Pages of `hidden` fetched at once, as a search through it goes from page to page."""

ROWS_ALONE = 4
"""Rows that are fetched one by one; after that all rows of a page are fetched together."""


class Absent(Exception):
    """A stored part that has to be fetched before the answer can continue."""


class AbsentRow(Absent):
    """A segment's row."""

    def __init__(self, segment_id: bytes) -> None:
        super().__init__(segment_id)
        self.segment_id = segment_id


class AbsentEpoch(Absent):
    """A leader epoch's tables."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.epoch = epoch


class AbsentPage(Absent):
    """One page of a table."""

    def __init__(self, page: SparsePage[Any, Any], table: SparseMap[Any, Any]) -> None:
        super().__init__(page, table)
        self.page = page
        self.table = table


class AbsentKept(Absent):
    """The segments that were kept from deletion."""


class SparsePage(Page[K, V]):
    """A page; its bytes are empty before they are fetched, as no stored page's are."""

    __slots__ = ("table",)

    table: SparseMap[K, V]

    @override
    def _unpack(self) -> None:
        if not self.packed:
            raise AbsentPage(self, self.table)
        super()._unpack()


class SparseMap(PagedMap[K, V]):
    """A table whose pages are known only from their directory until they are fetched."""

    __slots__ = ("epoch", "name")

    def __init__(self, epoch: int, name: str) -> None:
        super().__init__()
        self.epoch = epoch
        self.name = name

    @override
    def _adopted(self, stored: StoredPage) -> Page[K, V]:
        sparse = SparsePage[K, V](stored.number, self._owner, [stored.first], [])
        sparse.size, sparse.proof, sparse.packed = stored.size, stored.proof, stored.packed
        sparse.table = self
        return sparse


class SparseRows(SegmentRows):
    """Rows that the tail changed, on top of the fetched ones."""

    __slots__ = ("_dropped", "_fetched")

    def __init__(self, fetched: Mapping[bytes, bytes | None]) -> None:
        super().__init__()
        self._fetched = fetched
        self._dropped: set[bytes] = set()

    @override
    def get(self, segment_id: bytes) -> bytes | None:
        row = super().get(segment_id)
        if row is not None or segment_id in self._dropped:
            return row
        try:
            return self._fetched[segment_id]
        except KeyError:
            raise AbsentRow(segment_id) from None

    @override
    def put(self, segment_id: bytes, row: bytes) -> None:
        super().put(segment_id, row)
        self._dropped.discard(segment_id)

    @override
    def drop(self, segment_id: bytes) -> None:
        super().drop(segment_id)
        self._dropped.add(segment_id)

    @override
    def __len__(self) -> int:  # noqa: PLE0303 - It never returns.
        self._refuse()

    @override
    def __iter__(self) -> Iterator[bytes]:
        self._refuse()

    @override
    def snapshot(self) -> SegmentRows:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotImplementedError("a sparse state cannot list its rows; load the whole one")


class SparseKept(KeptSegments):
    """Kept segments that are stored and not fetched: all that is asked of them is absent."""

    def __init__(self) -> None:
        """Without any attribute, so that access to each is one to an absent part."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AbsentKept(name)


class SparseEpochs(dict[int, EpochTables]):
    """The fetched leader epochs; access to other stored ones raises `AbsentEpoch`."""

    def __init__(self, stored: Iterable[int]) -> None:
        super().__init__()
        self._stored = frozenset(stored)

    def __missing__(self, epoch: int) -> EpochTables:
        if epoch in self._stored:
            raise AbsentEpoch(epoch)
        raise KeyError(epoch)

    @override
    def get(self, epoch: int, default: Any = None) -> Any:
        try:
            return self[epoch]
        except KeyError:
            return default

    @override
    def __contains__(self, epoch: object) -> bool:
        return epoch in self._stored or super().__contains__(epoch)

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._stored.union(super().__iter__())))

    @override
    def __len__(self) -> int:
        return len(self._stored.union(super().__iter__()))


class FetchedParts:
    """The fetched parts of one checkpoint, and fresh states made from them."""

    def __init__(self, checkpoints: CheckpointStore, value: PartitionValue) -> None:
        self._checkpoints = checkpoints
        self._value = value
        self._proofs = dict(value.epochs)
        self._rows: dict[bytes, bytes | None] = {}
        self._epochs: dict[int, tuple[EpochTables, dict[str, Directory]]] = {}
        self._pages: dict[tuple[int, str, int], bytes] = {}
        self._rows_asked = 0
        self._kept: tuple[tuple[int, bytes], ...] | None = None if value.kept else ()

    def state(self) -> PartitionState:
        """A fresh state with the fetched parts of the checkpoint, without tombstones."""
        state = self._checkpoints.blank(self._value)
        state.rows = SparseRows(self._rows)
        state.epochs = SparseEpochs(self._proofs)
        self._enter_kept(state)
        for epoch in self._epochs:
            self._enter(state, epoch)
        return state

    async def fetch_rows(self, segment_ids: Iterable[bytes]) -> None:
        """Fetch the rows of `segment_ids`, noting those that are not stored."""
        wanted = [one for one in dict.fromkeys(segment_ids) if one not in self._rows]
        checkpoints = self._checkpoints
        keys = [checkpoints.keys.segment(checkpoints.topic_id_partition, one) for one in wanted]
        found = await checkpoints.backend.get_each(keys)
        for segment_id, stored in zip(wanted, found, strict=True):
            row = None if stored is None else checkpoints.serde.deserialize_row(stored)
            if row is not None and id_of_row(row) != segment_id:
                raise CorruptCheckpoint(f"segment {segment_id.hex()} has another segment's row")
            self._rows[segment_id] = row

    async def fetch(self, absent: Absent, state: PartitionState) -> None:
        """Fetch the `absent` part, and add it to `state`.

        Raises:
            CorruptCheckpoint: The part is missing, or is not the one the checkpoint names.
        """
        match absent:
            case AbsentRow(segment_id=segment_id):
                await self._fetch_row(segment_id)
            case AbsentEpoch(epoch=epoch):
                wanted = [(epoch, self._proofs[epoch])]
                (self._epochs[epoch],) = await self._checkpoints.read_epochs(wanted)
                self._enter(state, epoch)
            case AbsentPage(page=page, table=table):
                await self._fetch_pages(page, table)
            case AbsentKept():
                pages = await self._checkpoints.read_kept(self._value)
                self._kept = tuple(pages.items())
                self._enter_kept(state)
            case _:
                raise AssertionError(f"nothing else can be absent: {absent}")

    def _enter_kept(self, state: PartitionState) -> None:
        if self._kept is None:
            state.kept = SparseKept()
            return
        state.kept = KeptSegments()
        for position, entry in self._kept:
            state.kept.put(position, entry)

    def _enter(self, state: PartitionState, epoch: int) -> None:
        stored, directories = self._epochs[epoch]
        tables = EpochTables()
        tables.highest, tables.size = stored.highest, stored.size
        for name, _ in stored.tables():
            table: SparseMap[Any, Any] = SparseMap(epoch, name)
            table.adopt(
                StoredPage(
                    number, first, size, proof, self._pages.get((epoch, name, number), b"")
                )
                for number, first, size, proof in directories[name]
            )
            setattr(tables, name, table)
        state.epochs[epoch] = tables

    async def _fetch_row(self, segment_id: bytes) -> None:
        self._rows_asked += 1
        wanted = [segment_id]
        if self._rows_asked > ROWS_ALONE:
            wanted += self._neighbours(segment_id)
        await self.fetch_rows(wanted)
        # The id came from a table, and each segment in a table has a row.
        if self._rows[segment_id] is None:
            raise CorruptCheckpoint(f"segment {segment_id.hex()} has no row")

    def _neighbours(self, segment_id: bytes) -> list[bytes]:
        """The ids on the fetched page of `referenced` that has `segment_id`."""
        for (_, name, _), packed in self._pages.items():
            if name == "referenced" and segment_id in packed:
                ids: list[bytes] = _unpacked_values(packed)
                return ids
        return []

    async def _fetch_pages(
        self, page: SparsePage[Any, Any], table: SparseMap[Any, Any]
    ) -> None:
        wanted: list[Page[Any, Any]] = [page]
        if table.name == "hidden":
            at = table.page_at(page.first)
            before = table.pages[max(at - PAGES_PER_FETCH + 1, 0) : at + 1]
            wanted = [one for one in before if one.packed == b""]
        stored = [StoredPage(one.number, one.first, one.size, one.proof, b"") for one in wanted]
        found = await self._checkpoints.read_pages(
            [PagePlace(table.epoch, table.name, one) for one in stored]
        )
        for one, fetched in zip(wanted, found, strict=True):
            self._pages[table.epoch, table.name, one.number] = fetched.packed
            one.packed = fetched.packed


def _unpacked_values(packed: bytes) -> list[Any]:
    page: Page[Any, Any] = Page.stored(StoredPage(0, None, 0, 0, packed), None)
    return page.values
