"""The contract of storage managers, for every layout on every tested store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from obstore.store import LocalStore, S3Store

from tests.models.tiering import tier_trace
from tests.models.tiering.segment_copies import copied, manifest_objects, put_all, whole_log
from tests.models.tiering.tier_trace import TieredSegment
from tierledger.events.errors import InvalidArgument, RejectedError, RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.simulation.live.s3_server import S3Server
from tierledger.tiering.formats.index_type import (
    ALL_INDEX_TYPES,
    REQUIRED_INDEX_TYPES,
    IndexType,
)
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.objects.request_counts import RequestCounts
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

SMALL_PARTS = LedgerSettings(part_bytes=5000)


class Tier(NamedTuple):
    """A tier with every segment of the recording in it."""

    storage: RemoteStorageManager
    counts: RequestCounts
    segments: Sequence[TieredSegment]
    first_read: int
    """Requests for all indexes and the first bytes of a segment."""
    next_read: int
    """The same, with what the manager remembers."""


KINDS = (
    "ledger-memory",
    "ledger-dir",
    "ledger-s3",
    "kafka-dir",
    "manifest-dir",
    "manifest-s3",
)


class Filled(NamedTuple):
    """The tier in which the recording was put, and its segments."""

    kind: str
    url: str
    options: dict[str, str]
    segments: Sequence[TieredSegment]
    storage: RemoteStorageManager | None = None
    """The manager that holds the tier in memory, which no other can open."""


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Filled once for all tests, none of which changes it."""
    folder = tmp_path_factory.mktemp("tier")
    server = request.getfixturevalue("s3_server") if request.param.endswith("s3") else None
    return asyncio.run(fill(request.param, folder, server))


async def fill(kind: str, folder: Path, server: S3Server | None) -> Filled:
    url, options = f"dir:{folder}", {}
    if server is not None:
        url, options = server.place(), server.options()
    segments = tier_trace.segments()
    if kind == "kafka-dir":
        return Filled(kind, f"local-tiered:{tier_trace.TREE}", {}, segments)
    if kind.startswith("manifest"):
        for one in segments:
            if server is None:
                await put_all(LocalStore(folder), manifest_objects(one))
            else:
                bucket, _, prefix = url.removeprefix("s3://").partition("/")
                await put_all(s3_client(bucket, options), manifest_objects(one, f"{prefix}/"))
        return Filled(kind, f"manifest:{url}/", options, segments)
    if kind == "ledger-memory":
        url = "memory:"
    storage = open_tier(url, options, ledger_settings=SMALL_PARTS)
    files = folder / "files"
    files.mkdir()
    finished = [await copied(storage, files, one) for one in segments]
    return Filled(kind, url, options, finished, storage if kind == "ledger-memory" else None)


@pytest.fixture
async def tier(filled: Filled) -> AsyncIterator[Tier]:
    counts = RequestCounts()
    first, next_one = {"ledger": (2, 2), "kafka": (6, 6), "manifest": (3, 2)}[
        filled.kind.partition("-")[0]
    ]
    if filled.storage is not None:
        assert isinstance(filled.storage, LedgerStorageManager)
        yield Tier(filled.storage, filled.storage.counts, filled.segments, first, next_one)
        return
    async with open_tier(filled.url, filled.options, counts=counts) as storage:
        yield Tier(storage, counts, filled.segments, first, next_one)


def s3_client(bucket: str, options: dict[str, str]) -> S3Store:
    config = {key: value for key, value in options.items() if key != "allow_http"}
    return S3Store(bucket, config=config, client_options={"allow_http": True})  # type: ignore[arg-type]


async def test_every_segment_comes_back_as_the_broker_wrote_it(tier: Tier) -> None:
    for metadata, indexes, log in tier.segments:
        assert await whole_log(tier.storage, metadata) == log
        assert await tier.storage.fetch_all_indexes(metadata) == indexes


async def test_each_index_comes_alone(tier: Tier) -> None:
    for metadata, indexes, _ in tier.segments[::7]:
        for kind, content in indexes.items():
            assert await tier.storage.fetch_index(metadata, kind) == content


async def test_of_several_indexes_those_come_that_are_there(tier: Tier) -> None:
    with_one = next(one for one in tier.segments if IndexType.TRANSACTION in one.indexes)
    without = next(one for one in tier.segments if IndexType.TRANSACTION not in one.indexes)
    wanted = {IndexType.TRANSACTION, IndexType.OFFSET}

    found = await tier.storage.fetch_indexes(with_one.metadata, wanted)
    assert found == {kind: with_one.indexes[kind] for kind in wanted}
    found = await tier.storage.fetch_indexes(without.metadata, wanted)
    assert found == {IndexType.OFFSET: without.indexes[IndexType.OFFSET]}
    assert await tier.storage.fetch_indexes(without.metadata, set()) == {}
    found = await tier.storage.fetch_indexes(without.metadata, ALL_INDEX_TYPES)
    assert found.keys() == REQUIRED_INDEX_TYPES


async def test_a_missing_transaction_index_is_not_found(tier: Tier) -> None:
    segment = next(one for one in tier.segments if IndexType.TRANSACTION not in one.indexes)

    for _ in range(2):  # Nothing known of the segment, then something.
        with pytest.raises(RemoteResourceNotFound):
            await tier.storage.fetch_index(segment.metadata, IndexType.TRANSACTION)
        await tier.storage.fetch_index(segment.metadata, IndexType.OFFSET)


async def test_a_part_of_the_log_is_what_lies_between_its_ends(tier: Tier) -> None:
    segment = tier.segments[-1]
    last = len(segment.log) - 1
    for start, end in [
        (0, 0),
        (0, 1),
        (4999, 5000),
        (5000, 5000),
        (1, 9999),
        (4321, None),
        (last, None),
        (last, last),
        (17, last),
        (17, last + 100),
        (0, 1 << 40),
    ]:
        got = [
            one async for one in tier.storage.fetch_log_segment(segment.metadata, start, end)
        ]
        assert b"".join(got) == segment.log[start : None if end is None else end + 1]
        assert all(got)


async def test_a_range_outside_the_log_is_refused(tier: Tier) -> None:
    segment = tier.segments[0]
    size = len(segment.log)
    for start, end in [
        (-1, None),
        (-5, 3),
        (size, None),
        (size + 1, size + 2),
        (7, 6),
        (0, -1),
    ]:
        stream = tier.storage.fetch_log_segment(segment.metadata, start, end)
        with pytest.raises(InvalidArgument, match="expected"):
            await anext(stream)


async def test_a_segment_that_is_not_there_is_not_found(tier: Tier) -> None:
    metadata = tier.segments[0].metadata
    unknown = RemoteLogSegmentId(metadata.topic_id_partition, Uuid(bytes(range(16))))
    other = replace(metadata, remote_log_segment_id=unknown)

    with pytest.raises(RemoteResourceNotFound, match=str(unknown.id)):
        await whole_log(tier.storage, other)
    with pytest.raises(RemoteResourceNotFound):
        await tier.storage.fetch_index(other, IndexType.OFFSET)


async def test_readers_do_not_disturb_each_other(tier: Tier) -> None:
    async def read(segment: TieredSegment) -> None:
        assert await whole_log(tier.storage, segment.metadata) == segment.log
        assert await tier.storage.fetch_all_indexes(segment.metadata) == segment.indexes

    await asyncio.gather(*(read(one) for one in tier.segments for _ in range(2)))


async def test_a_reader_may_stop_early(tier: Tier) -> None:
    stream = tier.storage.fetch_log_segment(tier.segments[0].metadata, 0)
    first = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]

    assert tier.segments[0].log.startswith(first)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_first_read_takes_as_few_requests_as_the_layout_allows(tier: Tier) -> None:
    segment = next(one for one in tier.segments if len(one.indexes) == 5)
    for expected in (tier.first_read, tier.next_read):
        before = tier.counts.total()
        await tier.storage.fetch_all_indexes(segment.metadata)
        stream = tier.storage.fetch_log_segment(segment.metadata, 100, 999)
        assert b"".join([one async for one in stream]) == segment.log[100:1000]
        assert tier.counts.total() - before == expected


@pytest.mark.parametrize("filled", [one for one in KINDS if "ledger" not in one], indirect=True)
async def test_what_is_only_read_refuses_to_be_changed(tier: Tier, tmp_path: Path) -> None:
    segment = tier.segments[0]

    with pytest.raises(RejectedError, match="only read"):
        await copied(tier.storage, tmp_path, segment)
    with pytest.raises(RejectedError, match="only read"):
        await tier.storage.delete_log_segment_data(segment.metadata)
    assert await whole_log(tier.storage, segment.metadata) == segment.log
