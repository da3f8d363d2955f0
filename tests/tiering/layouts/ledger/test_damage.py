"""Errors of our own layout when objects differ from what it wrote."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from obstore.store import MemoryStore
from typing_extensions import override

from tests.models.storage.flipped_bits import flip, flipped
from tests.models.tiering.segment_copies import copied, whole_log
from tests.models.tiering.tier_trace import TieredSegment, segments
from tierledger.events.errors import (
    CorruptRemoteData,
    DataError,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.ledger.format import LedgerCustomMetadata, encode_indexes
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.objects.request_counts import Operation, RequestCounts
from tierledger.tiering.objects.store import ObjectStore, StoredObject

PARTS = LedgerSettings(part_bytes=5000)
SEGMENT = next(one for one in segments() if len(one.indexes) == 5)


class Damaged(NamedTuple):
    """A copied segment in a directory, where a test may change files."""

    storage: LedgerStorageManager
    segment: TieredSegment
    folder: Path


@pytest.fixture
async def damaged(tmp_path: Path) -> Damaged:
    root = tmp_path / "tier"
    root.mkdir()
    segment = await copied(open_tier(f"dir:{root}", ledger_settings=PARTS), tmp_path, SEGMENT)
    storage = open_tier(f"dir:{root}")
    assert isinstance(storage, LedgerStorageManager)
    return Damaged(storage, segment, next(root.rglob("indexes")).parent)


async def test_any_flipped_bit_of_the_indexes_is_noticed(damaged: Damaged) -> None:
    path = damaged.folder / "indexes"
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(flipped(content, position, 1 << position % 8))
        with pytest.raises(DataError, match="indexes: expected"):
            await damaged.storage.fetch_all_indexes(damaged.segment.metadata)


async def test_indexes_that_are_too_short_or_too_long_are_noticed(damaged: Damaged) -> None:
    path = damaged.folder / "indexes"
    content = path.read_bytes()
    for changed in (b"", content[:5], content[:60], content[:-1], content + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(CorruptRemoteData, match="indexes: expected"):
            await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    assert damaged.storage.counts.corrupt == {Operation.FETCH_INDEXES: 5}


async def test_a_damaged_index_is_noticed_in_a_ranged_read(damaged: Damaged) -> None:
    await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    path = damaged.folder / "indexes"
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    with pytest.raises(CorruptRemoteData, match="crc32c"):
        await damaged.storage.fetch_index(damaged.segment.metadata, IndexType.TRANSACTION)
    assert damaged.storage.counts.corrupt == {Operation.FETCH_INDEXES: 1}
    assert damaged.storage.counts.failures == {}


async def test_indexes_of_another_segment_are_noticed(damaged: Damaged, tmp_path: Path) -> None:
    other = await copied(open_tier(f"dir:{tmp_path / 'tier'}"), tmp_path, segments()[0])
    theirs = next(
        one for one in (tmp_path / "tier").rglob("indexes") if one.parent != damaged.folder
    )
    (damaged.folder / "indexes").write_bytes(theirs.read_bytes())

    with pytest.raises(CorruptRemoteData, match=other.metadata.remote_log_segment_id.id.hex()):
        await damaged.storage.fetch_all_indexes(damaged.segment.metadata)


async def test_a_truncated_part_is_never_short_data(damaged: Damaged) -> None:
    (damaged.folder / "log.00001").write_bytes(SEGMENT.log[5000:9000])

    for start, end in [(0, None), (5000, 9999), (9500, None)]:
        stream = damaged.storage.fetch_log_segment(damaged.segment.metadata, start, end)
        got: list[bytes] = []
        with pytest.raises(CorruptRemoteData, match=r"log\.00001"):
            await collect(stream, got)
        assert SEGMENT.log[start:].startswith(b"".join(got))
    assert damaged.storage.counts.corrupt == {Operation.FETCH_LOG: 3}


async def test_a_missing_part_is_named(damaged: Damaged) -> None:
    (damaged.folder / "log.00002").unlink()

    with pytest.raises(RemoteResourceNotFound, match=r"log\.00002 is not there"):
        await whole_log(damaged.storage, damaged.segment.metadata)


@pytest.mark.parametrize("is_known", [True, False], ids=["known header", "unknown header"])
async def test_a_flipped_bit_in_a_whole_part_is_found(is_known: bool, damaged: Damaged) -> None:
    if is_known:
        await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    flip(damaged.folder / "log.00001", bits=4)

    for start, end in [(0, None), (5000, 9999), (4999, 10000)]:
        stream = damaged.storage.fetch_log_segment(damaged.segment.metadata, start, end)
        with pytest.raises(CorruptRemoteData, match=r"log\.00001: expected crc32c"):
            await collect(stream, [])


async def test_an_unknown_header_is_fetched_once_for_a_whole_part(damaged: Damaged) -> None:
    asked = damaged.storage.counts

    for start, end in [(1, 4999), (4000, 9998), (len(SEGMENT.log) - 1, None)]:
        await collect(
            damaged.storage.fetch_log_segment(damaged.segment.metadata, start, end), []
        )
    assert asked.of(Operation.FETCH_INDEXES) == 0
    for _ in range(2):
        await whole_log(damaged.storage, damaged.segment.metadata)
    assert asked.of(Operation.FETCH_INDEXES) == 1


async def test_indexes_of_another_size_of_log_are_noticed(damaged: Damaged) -> None:
    size = len(SEGMENT.log)
    content = encode_indexes(
        SEGMENT.metadata.remote_log_segment_id.id, size + 1, 5000, (), SEGMENT.indexes
    )
    (damaged.folder / "indexes").write_bytes(content)

    with pytest.raises(CorruptRemoteData, match=f"of {size} bytes, found .* of {size + 1}"):
        await damaged.storage.fetch_all_indexes(damaged.segment.metadata)


@pytest.mark.parametrize("is_known", [True, False], ids=["known header", "unknown header"])
async def test_a_wrong_part_size_is_noticed(is_known: bool, damaged: Damaged) -> None:
    if is_known:
        await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    custom = LedgerCustomMetadata(2000, 1, None).to_custom_metadata()
    other = damaged.segment.metadata.create_with_custom_metadata(custom)

    with pytest.raises(CorruptRemoteData, match=r"parts of 2000 bytes .* indexes say 5000"):
        await collect(damaged.storage.fetch_log_segment(other, 0, 1999), [])


async def test_an_outdated_header_is_fetched_again(damaged: Damaged, tmp_path: Path) -> None:
    await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    larger = open_tier(
        f"dir:{tmp_path / 'tier'}", ledger_settings=LedgerSettings(part_bytes=7000)
    )
    again = await copied(larger, tmp_path, SEGMENT)

    assert await whole_log(damaged.storage, again.metadata) == SEGMENT.log


class OmittingStore(ObjectStore):
    """Its lists leave out one object, as long as there is another."""

    omitted = 0

    @override
    async def list(self, operation: Operation, folder: str) -> dict[str, StoredObject]:
        found = await super().list(operation, folder)
        if len(found) > 1:
            del found[list(found)[self.omitted]]
        return found


@pytest.mark.parametrize("omitted", [0, 3], ids=["indexes", "the last part"])
async def test_a_deletion_needs_no_complete_list(omitted: int, tmp_path: Path) -> None:
    files = MemoryStore()
    plain = ObjectStore(files, "memory:", RequestCounts(), is_near=True)
    segment = await copied(LedgerStorageManager(plain, settings=PARTS), tmp_path, SEGMENT)
    omitting = OmittingStore(files, "memory:", RequestCounts())
    omitting.omitted = omitted
    storage = LedgerStorageManager(omitting)

    await storage.delete_log_segment_data(segment.metadata)
    assert await plain.list(Operation.LIST, "") == {}


async def test_a_directory_that_is_away_is_not_an_empty_tier(damaged: Damaged) -> None:
    root = damaged.folder.parents[3]
    away = root.with_name("away")
    root.rename(away)

    for ask in (
        damaged.storage.fetch_all_indexes(damaged.segment.metadata),
        damaged.storage.delete_log_segment_data(damaged.segment.metadata),
        whole_log(damaged.storage, damaged.segment.metadata),
    ):
        with pytest.raises(StoreRefused, match="no such directory"):
            await ask
    away.rename(root)
    assert await whole_log(damaged.storage, damaged.segment.metadata) == SEGMENT.log


async def collect(stream: AsyncIterator[bytes], got: list[bytes]) -> None:
    async for piece in stream:
        got.append(piece)  # noqa: PERF401 - What came before an error counts.
