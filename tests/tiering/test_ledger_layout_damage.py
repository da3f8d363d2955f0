"""What our own layout says when objects are not what it wrote."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.models.segment_copies import copied, whole_log
from tests.models.tier_trace import TieredSegment, segments
from tierledger.events.errors import (
    CorruptRemoteData,
    DataError,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.tiering.index_type import IndexType
from tierledger.tiering.ledger_layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.tier_url import open_tier

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
        bit = 1 << position % 8
        changed = bytearray(content)
        changed[position] ^= bit
        path.write_bytes(changed)
        with pytest.raises(DataError, match="indexes: expected"):
            await damaged.storage.fetch_all_indexes(damaged.segment.metadata)


async def test_indexes_that_are_too_short_or_too_long_are_noticed(damaged: Damaged) -> None:
    path = damaged.folder / "indexes"
    content = path.read_bytes()
    for changed in (b"", content[:5], content[:60], content[:-1], content + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(CorruptRemoteData, match="indexes: expected"):
            await damaged.storage.fetch_all_indexes(damaged.segment.metadata)


async def test_a_damaged_index_is_noticed_in_a_ranged_read(damaged: Damaged) -> None:
    await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    path = damaged.folder / "indexes"
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    with pytest.raises(CorruptRemoteData, match="crc32c"):
        await damaged.storage.fetch_index(damaged.segment.metadata, IndexType.TRANSACTION)


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


async def test_a_missing_part_is_named(damaged: Damaged) -> None:
    (damaged.folder / "log.00002").unlink()

    with pytest.raises(RemoteResourceNotFound, match=r"log\.00002 is not there"):
        await whole_log(damaged.storage, damaged.segment.metadata)


async def test_a_flipped_bit_of_a_part_is_noticed_when_the_header_is_known(
    damaged: Damaged,
) -> None:
    await damaged.storage.fetch_all_indexes(damaged.segment.metadata)
    path = damaged.folder / "log.00001"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes((content[-1] ^ 4,)))

    with pytest.raises(CorruptRemoteData, match=r"log\.00001: expected crc32c"):
        await whole_log(damaged.storage, damaged.segment.metadata)


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
