"""Rules of our own layout beyond the contract: copies, deletions, names and checksums."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from tests.models.tiering.segment_copies import copied, segment_data, whole_log
from tests.models.tiering.tier_trace import TieredSegment, segments
from tests.tiering.conftest import TierPlace
from tierledger.events.errors import CorruptRemoteData, InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.metadata import CustomMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.ledger.format import LedgerCustomMetadata, weight_of
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.objects.request_counts import Operation, RequestKind

PARTS = LedgerSettings(part_bytes=5000)
SEGMENT = next(one for one in segments() if len(one.indexes) == 5)
SIZE = len(SEGMENT.log)


class Place(NamedTuple):
    """Somewhere to keep segments, and a look at it that goes past the manager."""

    open: Callable[..., LedgerStorageManager]
    objects: Callable[[], dict[str, int]]


@pytest.fixture(params=["dir", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        url, options = server.place(), server.options()
        yield Place(_opener(url, options), lambda: server.objects(url))
        return
    root = tmp_path / "tier"
    root.mkdir()
    yield Place(_opener(f"dir:{root}", {}), lambda: _files(root))
    # Nothing but what was put there: no folder, no unfinished file.
    assert all(one.is_file() or any(one.iterdir()) for one in root.rglob("*"))


def _opener(url: str, options: dict[str, str]) -> Callable[..., LedgerStorageManager]:
    def opened(settings: LedgerSettings = PARTS) -> LedgerStorageManager:
        storage = open_tier(url, options, ledger_settings=settings)
        assert isinstance(storage, LedgerStorageManager)
        return storage

    return opened


def _files(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


async def test_a_copy_is_parts_and_one_object_of_indexes(place: Place, tmp_path: Path) -> None:
    finished = await copied(place.open(), tmp_path, SEGMENT)

    tip = SEGMENT.metadata.topic_id_partition
    name = f"{SEGMENT.metadata.start_offset:020}-{SEGMENT.metadata.remote_log_segment_id.id}"
    folder = f"{tip.topic}/{tip.topic_id}/{tip.partition}/{name}"
    objects = place.objects()
    assert list(objects) == [
        f"{folder}/{one}" for one in ("indexes", "log.00000", "log.00001", "log.00002")
    ]
    assert [objects[f"{folder}/log.0000{one}"] for one in range(3)] == [
        5000,
        5000,
        SIZE - 10000,
    ]
    custom = finished.metadata.custom_metadata
    assert custom is not None
    assert weight_of(custom) == sum(objects.values())


async def test_the_first_copy_asks_as_little_as_it_must(place: Place, tmp_path: Path) -> None:
    storage = place.open()
    await copied(storage, tmp_path, SEGMENT)

    assert storage.counts.requests == {
        (Operation.COPY, RequestKind.LIST): 2,
        (Operation.COPY, RequestKind.PUT): 4,
    }
    assert storage.counts.bytes_written == sum(place.objects().values())


async def test_a_repeated_copy_writes_nothing_again(place: Place, tmp_path: Path) -> None:
    first = await copied(place.open(), tmp_path, SEGMENT)
    again = place.open()

    assert await copied(again, tmp_path, SEGMENT) == first
    assert again.counts.requests[Operation.COPY, RequestKind.PUT] == 0


async def test_a_repeated_copy_mends_what_is_damaged(place: Place, tmp_path: Path) -> None:
    storage = place.open()
    finished = await copied(storage, tmp_path, SEGMENT)
    folder = next(iter(place.objects())).rpartition("/")[0]
    store = storage._store
    prefix = f"{storage._prefix}/" if storage._prefix else ""
    await store.delete(Operation.DELETE, [f"{prefix}{folder}/log.00000"])
    await store.put(Operation.COPY, f"{prefix}{folder}/log.00001", bytes(5000))
    await store.put(Operation.COPY, f"{prefix}{folder}/log.00002", b"short")
    await store.put(Operation.COPY, f"{prefix}{folder}/log.00003", b"of smaller parts")

    again = place.open()
    assert await copied(again, tmp_path, SEGMENT) == finished
    assert again.counts.requests[Operation.COPY, RequestKind.PUT] == 3
    assert await whole_log(again, finished.metadata) == SEGMENT.log
    assert len(place.objects()) == 4


async def test_a_cancelled_copy_goes_on_where_it_was(place: Place, tmp_path: Path) -> None:
    many = LedgerSettings(part_bytes=500, parts_at_once=2)
    storage = place.open(many)
    task = asyncio.ensure_future(copied(storage, tmp_path, SEGMENT))
    while storage.counts.bytes_written < 2000:  # noqa: ASYNC110 - The store has no event.
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    written = storage.counts.requests[Operation.COPY, RequestKind.PUT]

    again = place.open(many)
    finished = await copied(again, tmp_path, SEGMENT)
    assert 0 < written < SIZE // 500
    assert (
        again.counts.requests[Operation.COPY, RequestKind.PUT] <= SIZE // 500 + 2 - written + 2
    )
    assert await whole_log(again, finished.metadata) == SEGMENT.log


async def test_a_deletion_leaves_nothing_and_can_repeat(place: Place, tmp_path: Path) -> None:
    storage = place.open()
    other = await copied(storage, tmp_path, segments()[0])
    left = place.objects()
    finished = await copied(storage, tmp_path, SEGMENT)
    await storage.fetch_all_indexes(finished.metadata)

    for _ in range(2):
        await storage.delete_log_segment_data(finished.metadata)
        assert place.objects() == left
    with pytest.raises(RemoteResourceNotFound):
        await whole_log(storage, finished.metadata)
    with pytest.raises(RemoteResourceNotFound):
        await storage.fetch_index(finished.metadata, IndexType.OFFSET)
    assert await whole_log(storage, other.metadata) == other.log
    # Before and behind the first; nothing is there to be deleted again.
    assert storage.counts.requests[Operation.DELETE, RequestKind.LIST] == 3
    assert storage.counts.requests[Operation.DELETE, RequestKind.DELETE] == 1


async def test_an_unconfirmed_copy_is_read_and_deleted(place: Place, tmp_path: Path) -> None:
    await copied(place.open(), tmp_path, SEGMENT)
    storage = place.open(LedgerSettings(part_bytes=77))  # Not the size it was written with.
    assert SEGMENT.metadata.custom_metadata is None

    assert await whole_log(storage, SEGMENT.metadata) == SEGMENT.log
    assert await storage.fetch_all_indexes(SEGMENT.metadata) == SEGMENT.indexes
    await storage.delete_log_segment_data(SEGMENT.metadata)
    assert place.objects() == {}


async def test_the_remains_of_a_copy_are_deleted(place: Place, tmp_path: Path) -> None:
    storage = place.open()
    finished = await copied(storage, tmp_path, SEGMENT)
    folder = next(iter(place.objects())).rpartition("/")[0]
    prefix = f"{storage._prefix}/" if storage._prefix else ""
    for left in ("indexes", "log.00001"):
        await storage._store.delete(Operation.DELETE, [f"{prefix}{folder}/{left}"])

    await storage.delete_log_segment_data(finished.metadata.create_with_custom_metadata(None))
    assert place.objects() == {}


async def test_a_known_header_makes_an_index_one_read(place: Place, tmp_path: Path) -> None:
    storage = place.open()
    finished = await copied(storage, tmp_path, SEGMENT)
    await storage.fetch_all_indexes(finished.metadata)
    before = storage.counts.bytes_read

    offset_index = await storage.fetch_index(finished.metadata, IndexType.OFFSET)
    assert offset_index == SEGMENT.indexes[IndexType.OFFSET]
    assert storage.counts.of(Operation.FETCH_INDEXES) == 2
    assert storage.counts.bytes_read - before == len(offset_index)


async def test_a_new_prefix_leaves_old_segments_where_they_are(
    s3_tier: Callable[[], TierPlace], tmp_path: Path
) -> None:
    url, options = s3_tier()
    old = await copied(open_tier(f"{url}/old", options), tmp_path, SEGMENT)
    storage = open_tier(f"{url}/new/", options)
    new = await copied(storage, tmp_path, segments()[0])

    assert await whole_log(storage, old.metadata) == old.log
    assert await storage.fetch_all_indexes(old.metadata) == old.indexes
    assert await whole_log(storage, new.metadata) == new.log
    await storage.delete_log_segment_data(old.metadata)
    with pytest.raises(RemoteResourceNotFound):
        await whole_log(storage, old.metadata)


async def test_a_killed_writers_unfinished_files_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "tier"
    root.mkdir()
    storage = open_tier(f"dir:{root}", ledger_settings=PARTS)
    finished = await copied(storage, tmp_path, SEGMENT)
    folder = next(root.rglob("indexes")).parent
    (folder / "log.00000#1").write_bytes(b"unfinished")

    await copied(storage, tmp_path, SEGMENT)
    assert not list(folder.glob("*#*"))
    (folder / "log.00000#1").write_bytes(b"unfinished")
    await storage.delete_log_segment_data(finished.metadata)
    assert list(root.iterdir()) == []


def named(topic: str) -> TieredSegment:
    """The sample segment, of another topic."""
    tip = TopicIdPartition(Uuid(bytes(16)), 3, topic)
    segment_id = RemoteLogSegmentId(tip, SEGMENT.metadata.remote_log_segment_id.id)
    return SEGMENT._replace(
        metadata=structs.replace(SEGMENT.metadata, remote_log_segment_id=segment_id)
    )


async def test_the_longest_topic_and_its_metadata_fit(place: Place, tmp_path: Path) -> None:
    segment = await copied(place.open(), tmp_path, named("t" * 249))

    custom = segment.metadata.custom_metadata
    assert custom is not None
    assert len(custom.value) <= 32
    assert await whole_log(place.open(), segment.metadata) == segment.log


def test_custom_metadata_of_a_long_prefix_keeps_kafkas_default_limit() -> None:
    custom = LedgerCustomMetadata(64 << 20, 2**31, "p" * 100).to_custom_metadata()

    assert len(custom.value) <= 128


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../a", "a" * 250, "é", "a b", "a#1"])
async def test_a_topic_that_kafka_forbids_is_refused(topic: str, tmp_path: Path) -> None:
    storage = open_tier("memory:")
    with pytest.raises(InvalidArgument, match=r"for (a )?topic"):
        await copied(storage, tmp_path, named(topic))
    with pytest.raises(InvalidArgument, match=r"for (a )?topic"):
        await storage.delete_log_segment_data(named(topic).metadata)


@pytest.mark.parametrize("missing", ["log_segment", "offset_index", "time_index"])
async def test_a_copy_of_a_missing_file_is_refused(missing: str, tmp_path: Path) -> None:
    data = segment_data(tmp_path, SEGMENT)
    lacking = replace(data, **{missing: tmp_path / "gone"})  # type: ignore[arg-type]
    storage = open_tier("memory:")

    with pytest.raises(InvalidArgument, match="gone is missing"):
        await storage.copy_log_segment_data(SEGMENT.metadata, lacking)


async def test_a_log_of_another_size_is_refused(tmp_path: Path) -> None:
    data = segment_data(tmp_path, SEGMENT)
    data.log_segment.write_bytes(SEGMENT.log + b"x")
    storage = open_tier("memory:")

    with pytest.raises(InvalidArgument, match=f"expected {SIZE} bytes.*found {SIZE + 1}"):
        await storage.copy_log_segment_data(SEGMENT.metadata, data)


async def test_a_long_log_is_streamed_in_order(tmp_path: Path) -> None:
    log = random.Random(7).randbytes(21_000_001)
    metadata = structs.replace(SEGMENT.metadata, segment_size_in_bytes=len(log))
    segment = SEGMENT._replace(metadata=metadata, log=log)
    storage = open_tier("memory:", ledger_settings=LedgerSettings(part_bytes=10_000_000))
    assert isinstance(storage, LedgerStorageManager)
    finished = await copied(storage, tmp_path, segment)
    await storage.fetch_all_indexes(finished.metadata)

    pieces = [one async for one in storage.fetch_log_segment(finished.metadata, 1)]
    assert b"".join(pieces) == log[1:]
    assert len(pieces) == storage.counts.of(Operation.FETCH_LOG) == 5


async def test_foreign_custom_metadata_is_refused_by_every_operation(tmp_path: Path) -> None:
    storage = open_tier("memory:")
    foreign = SEGMENT.metadata.create_with_custom_metadata(CustomMetadata(b"\x01\x02\x03"))

    for ask in (
        storage.delete_log_segment_data(foreign),
        storage.fetch_all_indexes(foreign),
        whole_log(storage, foreign),
    ):
        with pytest.raises(CorruptRemoteData, match="010203"):
            await ask


@pytest.mark.parametrize("wrong", [{"part_bytes": 0}, {"parts_at_once": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="1 or more, got 0"):
        LedgerSettings(**wrong)
