"""The three-object layout in a bucket, when the store or the way to it fails."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

import pytest

from tests.models.faulty_object_store import AT_ONCE, PATIENT, Fault, FaultyS3
from tests.models.s3_server import S3Server
from tests.models.segment_copies import manifest_objects, whole_log
from tests.models.tier_trace import segments
from tierledger.events.errors import (
    CorruptRemoteData,
    RemoteResourceNotFound,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.tier_url import open_store, open_tier, parse
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.store import ObjectStore, StoreSettings
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

SEGMENT = next(one for one in segments() if len(one.indexes) == 5)


class Tier(NamedTuple):
    """A segment's three objects behind a proxy, and a way past both."""

    proxy: FaultyS3
    open: Callable[[StoreSettings], RemoteStorageManager]
    store: ObjectStore
    name: str
    """Of the segment's objects, without the suffix."""


@pytest.fixture
async def tier(s3_server: S3Server) -> AsyncIterator[Tier]:
    url = f"manifest:{s3_server.place()}/"
    objects = manifest_objects(SEGMENT, parse(url).prefix)
    store = open_store(parse(url), s3_server.options())
    for name, content in objects.items():
        await store.put(Operation.COPY, name, content)
    with FaultyS3(s3_server.endpoint) as proxy:
        options = s3_server.options(proxy.endpoint)
        opened = partial(open_tier, url, options)
        name = next(iter(objects)).removesuffix(".log")
        yield Tier(proxy, lambda settings: opened(store_settings=settings), store, name)


async def whole(storage: RemoteStorageManager) -> object:
    """All that can be read of the segment."""
    return [
        await whole_log(storage, SEGMENT.metadata),
        await storage.fetch_all_indexes(SEGMENT.metadata),
        await storage.fetch_index(SEGMENT.metadata, IndexType.OFFSET),
    ]


WHOLE = [SEGMENT.log, SEGMENT.indexes, SEGMENT.indexes[IndexType.OFFSET]]


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.THROTTLE, Fault.LOSE_ANSWER])
async def test_failures_of_every_second_request_are_retried(fault: Fault, tier: Tier) -> None:
    tier.proxy.plan = lambda seen: fault if seen.number % 2 else None

    assert await whole(tier.open(PATIENT)) == WHOLE
    assert len(tier.proxy.struck) == 4


@pytest.mark.parametrize("suffix", ["rsm-manifest", "indexes", "log"])
@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.THROTTLE, Fault.LOSE_ANSWER])
async def test_an_unavailable_object_is_named(fault: Fault, suffix: str, tier: Tier) -> None:
    tier.proxy.plan = lambda seen: fault if seen.path.endswith(suffix) else None

    with pytest.raises(StorageUnavailable, match=rf"\.{suffix}: get failed"):
        await whole(tier.open(AT_ONCE))


@pytest.mark.parametrize("number", range(1, 5))
async def test_an_answer_that_breaks_off_is_never_short_data(number: int, tier: Tier) -> None:
    tier.proxy.plan = lambda seen: Fault.BREAK_OFF if seen.number == number else None

    with pytest.raises(StorageUnavailable, match="get failed"):
        await whole(tier.open(AT_ONCE))


@pytest.mark.parametrize("suffix", ["rsm-manifest", "indexes", "log"])
async def test_a_missing_object_is_named(suffix: str, tier: Tier) -> None:
    await tier.store.delete(Operation.DELETE, [f"{tier.name}.{suffix}"])

    with pytest.raises(RemoteResourceNotFound, match=rf"\.{suffix} is not there"):
        await whole(tier.open(AT_ONCE))


@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
@pytest.mark.parametrize("suffix", ["rsm-manifest", "indexes", "log"])
async def test_a_truncated_object_is_never_short_data(
    suffix: str, left: float, tier: Tier
) -> None:
    name = f"{tier.name}.{suffix}"
    content = await tier.store.get(Operation.LIST, name)
    end = int(left) if left in {0, 1, -1} else len(content) // 2
    await tier.store.put(Operation.COPY, name, content[:end])

    with pytest.raises(CorruptRemoteData, match=rf"\.{suffix}: expected"):
        await whole(tier.open(AT_ONCE))
    if suffix == "indexes":  # The transaction index is its end.
        with pytest.raises(CorruptRemoteData, match=r"\.indexes: expected"):
            await tier.open(AT_ONCE).fetch_index(SEGMENT.metadata, IndexType.TRANSACTION)


async def test_a_missing_bucket_is_no_missing_segment(s3_server: S3Server) -> None:
    storage = open_tier("manifest:s3://nowhere/x/", s3_server.options(), store_settings=AT_ONCE)

    with pytest.raises(StoreRefused, match="s3://nowhere: there is no such bucket"):
        await whole(storage)
