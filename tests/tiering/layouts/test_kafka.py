"""Reading the tree of Kafka's LocalTieredStorage when it is not whole."""

import shutil
from pathlib import Path

import pytest

from tests.models.tiering.segment_copies import whole_log
from tests.models.tiering.tier_trace import TREE, segments
from tierledger.events.errors import CorruptRemoteData, RemoteResourceNotFound, StoreRefused
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.objects.request_counts import Operation, RequestCounts
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

SEGMENT = segments()[0]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sample's folder, to be changed."""
    tip = SEGMENT.metadata.topic_id_partition
    name = f"{tip.topic}-{tip.partition}-{tip.topic_id}"
    shutil.copytree(TREE / name, tmp_path / "tree" / name)
    return tmp_path / "tree"


def log_file(tree: Path) -> Path:
    segment_id = SEGMENT.metadata.remote_log_segment_id.id
    return next(tree.rglob(f"*-{segment_id}.log"))


def index_file(tree: Path) -> Path:
    return log_file(tree).with_suffix(".index")


def take_away(tree: Path) -> None:
    tree.rename(tree.with_name("away"))


def opened(tree: Path, counts: RequestCounts | None = None) -> RemoteStorageManager:
    return open_tier(f"local-tiered:{tree}", counts=counts)


async def test_a_truncated_log_is_never_short_data(tree: Path) -> None:
    log_file(tree).write_bytes(SEGMENT.log[:-1])
    counts = RequestCounts()

    with pytest.raises(CorruptRemoteData, match=r"\.log: expected"):
        await whole_log(opened(tree, counts), SEGMENT.metadata)
    assert counts.corrupt == {Operation.FETCH_LOG: 1}


async def test_missing_files_are_not_found(tree: Path) -> None:
    log, index = log_file(tree), index_file(tree)
    storage = opened(tree)

    log.unlink()
    with pytest.raises(RemoteResourceNotFound, match=r"\.log is not there"):
        await whole_log(storage, SEGMENT.metadata)
    found = await storage.fetch_all_indexes(SEGMENT.metadata)
    assert found == SEGMENT.indexes
    index.unlink()
    found = await storage.fetch_all_indexes(SEGMENT.metadata)
    assert found.keys() == SEGMENT.indexes.keys() - {IndexType.OFFSET}


async def test_a_tree_that_is_away_is_not_an_empty_one(tree: Path) -> None:
    storage = opened(tree)
    take_away(tree)

    with pytest.raises(StoreRefused, match="no such directory"):
        await storage.fetch_all_indexes(SEGMENT.metadata)
