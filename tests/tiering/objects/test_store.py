"""Operations while the store or the network fails."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from msgspec.structs import replace
from obstore.store import MemoryStore

from tests.models.forks import in_a_fork
from tests.models.tiering.faulty_object_store import (
    AT_ONCE,
    PATIENT,
    Fault,
    FaultyS3,
    Plan,
    Seen,
    nothing_happens,
)
from tests.models.tiering.listing_server import ListingServer
from tests.models.tiering.segment_copies import copied, whole_log
from tests.models.tiering.tier_trace import TieredSegment, segments
from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RemoteResourceNotFound,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.simulation.live.s3_server import S3Server
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.tier_url import open_store, open_tier, parse
from tierledger.tiering.objects.directory import Unseen
from tierledger.tiering.objects.request_counts import Operation, RequestCounts, RequestKind
from tierledger.tiering.objects.store import ObjectStore, StoreSettings

T = TypeVar("T")

SEGMENT = next(one for one in segments() if len(one.indexes) == 5)
PARTS = LedgerSettings(part_bytes=5000)


class Tier(NamedTuple):
    """A tier behind a proxy, and a look at it from behind."""

    proxy: FaultyS3
    open: Callable[[StoreSettings], LedgerStorageManager]
    objects: Callable[[], dict[str, int]]


@pytest.fixture
def tier(s3_server: S3Server) -> Iterator[Tier]:
    url = s3_server.place()
    with FaultyS3(s3_server.endpoint) as proxy:

        def opened(settings: StoreSettings) -> LedgerStorageManager:
            options = s3_server.options(proxy.endpoint)
            storage = open_tier(url, options, ledger_settings=PARTS, store_settings=settings)
            assert isinstance(storage, LedgerStorageManager)
            return storage

        yield Tier(proxy, opened, lambda: s3_server.objects(url))


def each(fault: Fault, every: int = 1, method: str = "") -> Plan:
    """`fault` for each so-many-th request, of a method."""
    return lambda seen: fault if seen.number % every == 0 and method in seen.method else None


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.THROTTLE, Fault.LOSE_ANSWER])
async def test_every_third_failure_is_retried(fault: Fault, tier: Tier, tmp_path: Path) -> None:
    tier.proxy.plan = each(fault, 3)
    storage = tier.open(PATIENT)

    finished = await copied(storage, tmp_path, SEGMENT)
    assert await whole_log(storage, finished.metadata) == SEGMENT.log
    assert await storage.fetch_all_indexes(finished.metadata) == SEGMENT.indexes
    assert len(tier.objects()) == 4
    await storage.delete_log_segment_data(finished.metadata)
    assert tier.objects() == {}
    assert len(tier.proxy.struck) > 3


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.THROTTLE])
async def test_lasting_failures_end_soon(fault: Fault, tier: Tier, tmp_path: Path) -> None:
    finished = await copied(tier.open(PATIENT), tmp_path, SEGMENT)
    tier.proxy.plan = each(fault)
    storage = tier.open(PATIENT)
    before = len(tier.proxy.seen)

    with pytest.raises(StorageUnavailable, match=r"/indexes: get failed") as caught:
        await storage.fetch_all_indexes(finished.metadata)
    assert "\n" not in str(caught.value)
    assert len(tier.proxy.seen) - before == PATIENT.retries_max + 1
    assert storage.counts.requests == storage.counts.failures
    assert storage.counts.requests == {(Operation.FETCH_INDEXES, RequestKind.GET): 1}


@pytest.mark.parametrize("lost", range(4))
async def test_a_put_that_kept_nothing_is_found(lost: int, tier: Tier, tmp_path: Path) -> None:
    puts: list[str] = []

    def forget_one(seen: Seen) -> Fault | None:
        if seen.method == "PUT" and seen.path not in puts:
            puts.append(seen.path)
            return Fault.FORGET if len(puts) == lost + 1 else None
        return None

    tier.proxy.plan = forget_one
    storage = tier.open(AT_ONCE)

    with pytest.raises(StorageUnavailable, match="the store lists nothing") as caught:
        await copied(storage, tmp_path, SEGMENT)
    assert puts[lost].rpartition("/")[2] in str(caught.value)
    tier.proxy.plan = nothing_happens
    again = tier.open(AT_ONCE)
    finished = await copied(again, tmp_path, SEGMENT)
    assert again.counts.requests[Operation.COPY, RequestKind.PUT] == 1
    assert await whole_log(again, finished.metadata) == SEGMENT.log


async def test_a_deletion_that_is_only_claimed_is_noticed(tier: Tier, tmp_path: Path) -> None:
    finished = await copied(tier.open(AT_ONCE), tmp_path, SEGMENT)
    tier.proxy.plan = each(Fault.CLAIM, method="POST")
    storage = tier.open(AT_ONCE)

    with pytest.raises(StorageUnavailable, match="the store lists 4 of the segment's objects"):
        await storage.delete_log_segment_data(finished.metadata)
    tier.proxy.plan = nothing_happens
    await storage.delete_log_segment_data(finished.metadata)
    assert tier.objects() == {}


async def test_a_right_that_one_object_lacks_is_a_refusal(tier: Tier, tmp_path: Path) -> None:
    finished = await copied(tier.open(AT_ONCE), tmp_path, SEGMENT)
    tier.proxy.plan = each(Fault.DENY, method="POST")

    with pytest.raises(StoreRefused, match=r"/indexes: delete failed: .*AccessDenied"):
        await tier.open(AT_ONCE).delete_log_segment_data(finished.metadata)


async def test_a_panic_of_the_client_is_a_failure_of_the_store(
    tier: Tier, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    finished = await copied(tier.open(AT_ONCE), tmp_path, SEGMENT)
    tier.proxy.plan = each(Fault.DENY_ANOTHER, method="POST")
    storage = tier.open(AT_ONCE)

    with pytest.raises(StorageUnavailable, match="delete failed: rust future panicked"):
        await storage.delete_log_segment_data(finished.metadata)
    assert storage.counts.failures == {(Operation.DELETE, RequestKind.DELETE): 1}
    capfd.readouterr()  # It has told of it itself.


async def test_only_a_range_behind_the_end_is_asked_again(tier: Tier, tmp_path: Path) -> None:
    tip = TopicIdPartition(Uuid(bytes(16)), 0, "orange")
    named = RemoteLogSegmentId(tip, SEGMENT.metadata.remote_log_segment_id.id)
    orange = SEGMENT._replace(metadata=replace(SEGMENT.metadata, remote_log_segment_id=named))
    finished = await copied(tier.open(AT_ONCE), tmp_path, orange)
    tier.proxy.plan = each(Fault.FAIL)
    storage = tier.open(AT_ONCE)

    with pytest.raises(StorageUnavailable, match=r"orange.*log\.00000: get failed"):
        await anext(storage.fetch_log_segment(finished.metadata, 0, 10))
    assert storage.counts.requests == {(Operation.FETCH_LOG, RequestKind.GET): 1}


async def test_a_range_behind_the_end_is_no_failure_that_passes(s3_server: S3Server) -> None:
    storage = open_tier(s3_server.place(), s3_server.options(), store_settings=AT_ONCE)
    assert isinstance(storage, LedgerStorageManager)
    store = storage._store
    await store.put(Operation.COPY, "orange", b"0123")

    for start in (2, 4, 5):
        with pytest.raises(CorruptRemoteData, match="orange: expected"):
            await store.get_range(Operation.FETCH_LOG, "orange", start, 6, 6)
    with pytest.raises(CorruptRemoteData, match="orange: expected 3 bytes, it has 4"):
        await store.get_range(Operation.FETCH_LOG, "orange", 0, 2, 3)
    assert await store.get_range(Operation.FETCH_LOG, "orange", 1, 3, 4) == b"12"


async def every_page(store: ObjectStore, folder: str) -> list[object]:
    return [page async for page in store.pages(folder, lambda _: None)]


async def test_a_name_that_the_client_does_not_take_is_refused_by_every_method() -> None:
    store = ObjectStore(MemoryStore(), "memory:", RequestCounts())
    name, what = "a//b", Operation.COPY

    for ask in (
        store.put(what, name, b"x"),
        store.get(what, name),
        store.get_range(what, name, 0, 1, 1),
        store.list(what, name),
        every_page(store, name),
        store.delete(what, [name]),
    ):
        with pytest.raises(InvalidArgument, match=r"memory:a//b: [a-z]+ failed: "):
            await ask


NAMES = ["x/-", "x/.", "x/.a", "x/a", "x/a/-", "x/a/1", "x/b/9", "x/y", "x/zz", "z/1"]


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "bad",
    [
        ["x/a//b"],
        ["x/a//"],
        ["x//"],
        ["x/b/../c", "x/b/./c"],
        ["x/b/.."],
        ["x/q\tz", "x/q\x1bz"],
        ["x/e\x7f"],
        ["x//1", "x//2/3", "x/a//4", "x/b/\n"],
    ],
)
async def test_a_list_goes_on_behind_names_that_the_client_does_not_accept(
    bad: list[str], page: int
) -> None:
    names = sorted({*NAMES, *bad} - {"x/."})
    unseen: list[Unseen] = []
    with ListingServer(dict.fromkeys(names, 5), page) as bucket:
        store = open_store(parse("s3://bucket/x"), bucket.options)
        found = {one.path async for some in store.pages("x", unseen.append) for one in some}

    lost = set(NAMES[:-1]) - {"x/."} - found
    assert found <= set(NAMES)
    assert len(unseen) <= len(bad)
    assert all(any(name in one.reason for name in bad) for one in unseen)
    # What is lost is named, and lies in the one answer before the name that is not accepted.
    assert all(any(one.may_hold(name) for one in unseen) for name in lost)
    assert all(any(one.may_hold(name) for one in unseen) for name in bad)
    assert len(lost) < page * len(bad)
    if page == 1:
        assert lost == set()


@pytest.mark.parametrize("method", ["get", "put", "list", "delete"])
async def test_a_hanging_store_is_not_awaited(method: str, tier: Tier, tmp_path: Path) -> None:
    finished = await copied(tier.open(PATIENT), tmp_path, SEGMENT)
    hasty = tier.open(
        StoreSettings(request_timeout_s=0.2, retries_max=1, backoff_initial_s=0.001)
    )
    tier.proxy.plan = lambda seen: Fault.HANG if sort_of(seen) == method else None
    other = segments()[0]
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: whole_log(hasty, finished.metadata),
        "put": lambda: copied(hasty, tmp_path, other),
        "list": lambda: copied(hasty, tmp_path, other),
        "delete": lambda: hasty.delete_log_segment_data(finished.metadata),
    }

    async with asyncio.timeout(20):
        with pytest.raises(StorageUnavailable, match=f": {method} failed"):
            await asked[method]()
    assert {sort_of(seen) for seen, _ in tier.proxy.struck} == {method}


def sort_of(seen: Seen) -> str:
    """Our own name of such a request."""
    if seen.method == "GET":
        return "list" if "list-type" in seen.query else "get"
    return {"PUT": "put", "POST": "delete"}[seen.method]


async def test_a_reader_that_stops_waits_for_no_request(tier: Tier, tmp_path: Path) -> None:
    finished = await copied(tier.open(PATIENT), tmp_path, SEGMENT)
    tier.proxy.plan = lambda seen: Fault.HANG if seen.path.endswith("log.00001") else None
    stream = tier.open(StoreSettings(request_timeout_s=100)).fetch_log_segment(
        finished.metadata, 0
    )

    async with asyncio.timeout(20):
        assert await anext(stream) == SEGMENT.log[:5000]
        await stream.aclose()  # type: ignore[attr-defined]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("settings", [PATIENT, AT_ONCE], ids=["patient", "at once"])
async def test_an_answer_that_breaks_off_is_never_short_data(
    settings: StoreSettings, tier: Tier, tmp_path: Path
) -> None:
    finished = await copied(tier.open(PATIENT), tmp_path, SEGMENT)
    for number in range(4):
        is_first = len(tier.proxy.seen) + 1 + number
        tier.proxy.plan = lambda seen, at=is_first: (  # type: ignore[misc]
            Fault.BREAK_OFF if seen.number == at else None
        )
        log = None
        with suppress(StorageUnavailable):
            log = await whole_log(tier.open(settings), finished.metadata)
        assert log in {None, SEGMENT.log}


async def test_a_flipped_bit_on_the_way_is_noticed(tier: Tier, tmp_path: Path) -> None:
    finished = await copied(tier.open(PATIENT), tmp_path, SEGMENT)
    storage = tier.open(PATIENT)
    await storage.fetch_all_indexes(finished.metadata)
    tier.proxy.plan = each(Fault.FLIP)

    with pytest.raises(CorruptRemoteData, match="indexes: expected"):
        await storage.fetch_all_indexes(finished.metadata)
    with pytest.raises(CorruptRemoteData, match=r"log\.00000: expected crc32c"):
        await whole_log(storage, finished.metadata)
    with pytest.raises(CorruptRemoteData, match="crc32c"):
        await storage.fetch_index(finished.metadata, IndexType.TRANSACTION)


@pytest.mark.parametrize("seed", range(6))
async def test_repeats_come_to_the_same_end(seed: int, tier: Tier, tmp_path: Path) -> None:
    chance = random.Random(seed)
    anyhow = [Fault.FAIL, Fault.THROTTLE, Fault.LOSE_ANSWER, Fault.BREAK_OFF, Fault.FLIP]
    # What a list leaves out, nobody can notice.
    only = {"PUT": [Fault.FORGET], "POST": [Fault.CLAIM]}

    def sometimes(seen: Seen) -> Fault | None:
        kinds = anyhow + only.get(seen.method, [])
        return chance.choice(kinds) if chance.random() < 0.3 else None

    tier.proxy.plan = sometimes
    storage = tier.open(AT_ONCE)
    finished = await until_done(lambda: copied(storage, tmp_path, SEGMENT))
    objects = tier.objects()
    tier.proxy.plan = nothing_happens
    assert await copied(tier.open(AT_ONCE), tmp_path, SEGMENT) == finished
    assert tier.objects() == objects
    tier.proxy.plan = sometimes

    found = await until_done(lambda: storage.fetch_all_indexes(finished.metadata))
    assert found == SEGMENT.indexes
    assert await until_done(lambda: whole_log(storage, finished.metadata)) == SEGMENT.log
    await until_done(lambda: storage.delete_log_segment_data(finished.metadata))
    assert tier.objects() == {}


async def until_done(ask: Callable[[], Awaitable[T]]) -> T:
    for _ in range(100):
        try:
            return await ask()
        except (StorageUnavailable, CorruptRemoteData):
            continue
    raise AssertionError("never done")


async def test_a_server_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    with S3Server() as server:
        storage = open_tier(server.place(), server.options(), store_settings=AT_ONCE)
        finished = await copied(storage, tmp_path, SEGMENT)
        server.kill()

        for ask in readings(storage, finished):
            with pytest.raises(StorageUnavailable):
                await ask
        with pytest.raises(StorageUnavailable):
            await storage.delete_log_segment_data(finished.metadata)
        server.start()
        log, indexes = [await ask for ask in readings(storage, finished)]
        assert (log, indexes) == (SEGMENT.log, SEGMENT.indexes)


def readings(
    storage: LedgerStorageManager | object, finished: TieredSegment
) -> list[Awaitable[object]]:
    assert isinstance(storage, LedgerStorageManager)
    return [
        whole_log(storage, finished.metadata),
        storage.fetch_all_indexes(finished.metadata),
    ]


async def test_a_missing_bucket_is_not_empty(s3_server: S3Server, tmp_path: Path) -> None:
    storage = open_tier("s3://nowhere/x", s3_server.options(), store_settings=AT_ONCE)

    for ask in (
        copied(storage, tmp_path, SEGMENT),
        *readings(storage, SEGMENT),
        storage.delete_log_segment_data(SEGMENT.metadata),
    ):
        with pytest.raises(StoreRefused, match="s3://nowhere: there is no such bucket"):
            await ask


async def test_a_wrong_secret_is_refused_unshown(s3_server: S3Server, tmp_path: Path) -> None:
    options = {**s3_server.options(), "secret_access_key": "hush-hush"}
    storage = open_tier(s3_server.place(), options, store_settings=AT_ONCE)

    for ask in (copied(storage, tmp_path, SEGMENT), *readings(storage, SEGMENT)):
        with pytest.raises(StoreRefused, match="SignatureDoesNotMatch") as caught:
            await ask
        assert "hush" not in str(caught.value)


async def test_what_is_not_there_is_no_failure_of_the_store(s3_server: S3Server) -> None:
    storage = open_tier(s3_server.place(), s3_server.options())
    assert isinstance(storage, LedgerStorageManager)

    with pytest.raises(RemoteResourceNotFound, match="is not there"):
        await storage.fetch_all_indexes(SEGMENT.metadata)
    await storage.delete_log_segment_data(SEGMENT.metadata)
    assert storage.counts.failures == {}
    assert storage.counts.of(Operation.DELETE) == 1


async def test_a_forked_process_hears_at_once_that_it_cannot_read_the_tier(
    tmp_path: Path,
) -> None:
    store = open_store(parse(f"file:{tmp_path}"))
    await store.put(Operation.COPY, "name", b"data")

    async def tried() -> str:
        try:
            return repr(await store.get(Operation.FETCH_LOG, "name"))
        except InvalidArgument as error:
            return str(error)

    told = await asyncio.to_thread(in_a_fork, lambda: asyncio.run(tried()))

    assert b"read the tier only after the fork" in told
    assert await store.get(Operation.FETCH_LOG, "name") == b"data"
