"""A database in a bucket keeps the contract, and is written by one process at a time."""

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store
from typing_extensions import override

from tests.models.forks import in_a_fork
from tests.storage.backends.backend_contract import DatabaseContract, everything
from tierledger.benchmarks.slow_requests import SlowRequests
from tierledger.events.errors import (
    FormatTooNew,
    InvalidArgument,
    NoSuchStore,
    OutcomeUnknown,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.simulation.live.s3_server import S3Server
from tierledger.storage.backend import (
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Put,
    Remove,
    WriterReplaced,
)
from tierledger.storage.backends.open_store import KEYS_PER_REMOVAL
from tierledger.storage.backends.slatedb import backend as backend_module
from tierledger.storage.backends.slatedb import database as database_module
from tierledger.storage.backends.slatedb.backend import SlateDbBackend
from tierledger.storage.backends.slatedb.binding import (
    Db,
    DbBuilder,
    DbReader,
    DbReaderBuilder,
)
from tierledger.storage.backends.slatedb.database import (
    FORMAT_KEY,
    Database,
    StoreMoment,
    Views,
)
from tierledger.storage.backends.slatedb.place import DatabasePlace, Listing
from tierledger.storage.locate import StoreUrl, parse_store_url

KEYS_PER_STEP = 20

KEEP_WRITING = f"""
import asyncio, sys
from tierledger.storage.backend import Put
from tierledger.storage.backends.slatedb.backend import SlateDbBackend
from tierledger.storage.locate import parse_store_url

async def main():
    backend = await SlateDbBackend.open(parse_store_url(sys.argv[1]), takes_over=True)
    step = int((await backend.get("0")) or b"0")
    while True:
        step += 1
        value = b"%d" % step
        keys = map(str, range({KEYS_PER_STEP}))
        await backend.execute_atomically([Put(key, value) for key in keys])
        print(step, flush=True)

asyncio.run(main())
"""


class SlateDbContract(DatabaseContract):
    keys_per_removal = KEYS_PER_REMOVAL
    url: StoreUrl

    @override
    async def reopen(
        self, backend: MetadataStorageBackend, *, read_only: bool = False
    ) -> MetadataStorageBackend:
        await backend.close()
        return await SlateDbBackend.open(self.url, read_only=read_only)


class TestInAFolder(SlateDbContract):
    @pytest.fixture
    async def backend(self, url: StoreUrl) -> AsyncIterator[SlateDbBackend]:
        self.url = url
        backend = await SlateDbBackend.open(self.url)
        yield backend
        await backend.close()


class TestInABucket(SlateDbContract):
    @pytest.fixture
    async def backend(self, bucket_url: StoreUrl) -> AsyncIterator[SlateDbBackend]:
        self.url = bucket_url
        backend = await SlateDbBackend.open(self.url)
        yield backend
        await backend.close()


@pytest.fixture
def url(tmp_path: Path) -> StoreUrl:
    return parse_store_url(f"slatedb:file:{tmp_path / 'store'}")


@pytest.fixture
def bucket_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StoreUrl:
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return parse_store_url(f"slatedb:{s3_server.place()}")


@pytest.fixture(params=["folder", "bucket"])
def either(request: pytest.FixtureRequest) -> StoreUrl:
    found: StoreUrl = request.getfixturevalue(
        {"folder": "url", "bucket": "bucket_url"}[request.param]
    )
    return found


async def test_a_second_writer_takes_the_store_over_and_loses_nothing(
    either: StoreUrl,
) -> None:
    first = await SlateDbBackend.open(either)
    await first.create("log/0", b"first")

    second = await SlateDbBackend.open(either, takes_over=True)
    with pytest.raises((OutcomeUnknown, WriterReplaced), match="another process has opened"):
        await first.create("log/1", b"late")
    with pytest.raises(WriterReplaced):
        await first.create("log/1", b"late")
    with pytest.raises(WriterReplaced):
        await first.execute_atomically([Put("k", b"late")])
    with pytest.raises(WriterReplaced):
        await first.get("log/0")
    await asyncio.wait_for(first.is_replaced(), 10)
    outcome = await second.create_each([("log/1", b"second")], {"log/1": Former("log/0", b"f")})

    assert outcome == [CreateOutcome.CREATED]
    assert await everything(second) == {"log/0": b"first", "log/1": b"second"}
    await first.close()
    await second.close()


async def test_a_writer_that_was_replaced_reads_nothing_old(either: StoreUrl) -> None:
    first = await SlateDbBackend.open(either)
    await first.create("log/0", b"first")
    second = await SlateDbBackend.open(either, takes_over=True)
    await second.create("log/1", b"second")

    # SlateDB itself notices within two seconds.
    assert await first.last_keys_seen(["log/"]) == ["log/0"]
    reads = (first.last_keys(["log/"]), first.get("log/1"), first.get_like("log/"))
    for read in await asyncio.gather(*reads, return_exceptions=True):
        assert isinstance(read, WriterReplaced)
    await asyncio.wait_for(first.is_replaced(), 1)
    assert await second.last_keys(["log/"]) == ["log/1"]
    await first.close()
    await second.close()


async def test_a_writer_takes_none_of_its_own_commits_for_a_successor(
    either: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "COMMITS_PER_TABLE", 5)
    backend = await SlateDbBackend.open(either)
    ended = False

    async def read() -> int:
        number = 0
        while not ended:
            last, seen = await backend.get_each(["last", "seen"])
            assert last == seen
            number += 1
        return number

    reading = [asyncio.create_task(read()) for _ in range(4)]
    for number in range(60):
        value = b"%d" % number
        await backend.execute_atomically([Put("last", value), Put("seen", value)])
    ended = True
    assert min(await asyncio.gather(*reading)) > 0
    await backend.close()


async def test_a_writer_that_lives_is_not_disturbed(
    either: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "BEAT_S", 0.2)
    first = await SlateDbBackend.open(either)

    with pytest.raises(StoreRefused, match=rf"another process, pid {os.getpid()} on"):
        await SlateDbBackend.open(either)

    await first.create("k", b"v")
    await first.close()
    second = await SlateDbBackend.open(either)
    assert await everything(second) == {"k": b"v"}
    await second.close()


async def test_a_writer_that_closes_the_store_meanwhile_is_followed_at_once(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "BEAT_S", 5.0)
    writer = await SlateDbBackend.open(url)
    await writer.create("a", b"1")
    opening = asyncio.create_task(SlateDbBackend.open(url))
    await asyncio.sleep(0.2)  # It has seen that somebody writes.

    await writer.close()
    async with asyncio.timeout(3):  # Not after a time without a sign of life.
        successor = await opening

    assert await successor.get("a") == b"1"
    await successor.close()


async def test_a_writer_that_was_killed_is_waited_for_and_replaced(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(kill_after, 1, str(url))
    monkeypatch.setattr(backend_module, "BEAT_S", 0.2)
    begun = time.monotonic()

    backend = await SlateDbBackend.open(url)

    assert time.monotonic() - begun >= 0.3
    assert len(await everything(backend)) == KEYS_PER_STEP
    await backend.close()


async def test_a_writer_that_does_nothing_learns_that_it_was_replaced(
    either: StoreUrl,
) -> None:
    first = await SlateDbBackend.open(either)
    second = await SlateDbBackend.open(either, takes_over=True)

    await asyncio.wait_for(first.is_replaced(), 10)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.is_replaced(), 1.5)
    await first.close()
    await second.close()


async def test_a_writer_killed_in_the_middle_leaves_whole_steps_only(url: StoreUrl) -> None:
    before = 0
    for steps in (1, 3, 90):  # 90: with a table of the commits before.
        acknowledged = await asyncio.to_thread(kill_after, steps, str(url))

        backend = await SlateDbBackend.open(url, takes_over=True)
        found = await everything(backend)
        await backend.close()

        (step,) = {int(value) for value in found.values()}
        assert len(found) == KEYS_PER_STEP
        # One step more: it was durable, and the process was killed before it could say so.
        assert step in {acknowledged, acknowledged + 1}
        assert step > before
        before = step


def kill_after(steps: int, url: str) -> int:
    """Kill a process that writes without end once it has acknowledged `steps`; the last one."""
    writer = subprocess.Popen(
        [sys.executable, "-c", KEEP_WRITING, url], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer:
        lines = [writer.stdout.readline() for _ in range(steps)]
        writer.kill()
        lines += writer.stdout.readlines()
    return int(lines[-1])


async def test_a_reader_sees_what_the_writer_has_committed(either: StoreUrl) -> None:
    writer = await SlateDbBackend.open(either)
    await writer.create("k", b"0")
    reader = await SlateDbBackend.open(either, read_only=True)

    for step in range(1, 4):
        await writer.update("k", b"%d" % step)
        assert await reader.get("k") == b"%d" % step

    await writer.execute_atomically([Remove("k")])
    assert await reader.get_like("") == []
    await writer.close()
    await reader.close()


async def test_calls_that_wait_are_committed_together(url: StoreUrl) -> None:
    backend = await SlateDbBackend.open(url)
    before = logged(url)

    await asyncio.gather(*(backend.create(f"k{one}", b"") for one in range(100)))

    assert len(await everything(backend)) == 100
    assert logged(url) - before == 1
    await backend.close()


def logged(url: StoreUrl) -> int:
    """How many objects its commits are."""
    assert url.path is not None
    return len(list((url.path / "wal").iterdir()))


async def test_a_step_sees_those_before_it_in_the_same_commit(url: StoreUrl) -> None:
    backend = await SlateDbBackend.open(url)
    await backend.create("log/0", b"zero")

    answers: list[object] = await asyncio.gather(  # type: ignore[assignment]
        backend.create("first", b""),
        backend.execute_atomically([Put("log/1", b"one")]),
        backend.create_each(
            [("log/1", b""), ("log/2", b"two")], {"log/2": Former("log/1", b"o")}
        ),
        backend.create_each(
            [("log/2", b""), ("log/3", b"")], {"log/3": Former("log/2", b"two")}
        ),
        backend.execute_atomically([Remove("log/3")]),
        backend.create_each([("log/3", b"again")]),
    )

    assert answers == [
        None,
        None,
        [CreateOutcome.EXISTS, CreateOutcome.CREATED],
        [CreateOutcome.EXISTS, CreateOutcome.CREATED],
        None,
        [CreateOutcome.CREATED],
    ]
    assert await backend.get("log/3") == b"again"
    await backend.close()


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_commit_in_doubt_is_settled_before_anything_is_told(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    backend = await SlateDbBackend.open(url)
    await backend.create_each([("log/0", b"")])  # It knows where the log ends from here on.
    stopped, carried_out = asyncio.Event(), Database.commit

    async def stalled(database: Database, changes: dict[bytes, bytes | None]) -> None:
        await stopped.wait()
        if not is_kept and b"log/1" in changes:
            raise StorageUnavailable("the request was lost")
        await carried_out(database, changes)

    monkeypatch.setattr(backend_module, "ANSWER_S", 0.05)
    monkeypatch.setattr(Database, "commit", stalled)
    with pytest.raises(OutcomeUnknown, match="does not answer"):
        await backend.create("log/1", b"")
    with pytest.raises(StorageUnavailable, match="in doubt"):
        await backend.get("log/1")
    with pytest.raises(StorageUnavailable, match="in doubt"):
        await backend.create("log/1", b"")

    stopped.set()
    found = await backend.get("log/1")
    monkeypatch.undo()

    assert (found is not None) == is_kept
    outcome = await backend.create_each([("log/1", b"again")])
    assert outcome == [CreateOutcome.EXISTS if is_kept else CreateOutcome.CREATED]
    await backend.close()


async def test_commits_are_found_behind_more_than_one_answer_lists(
    bucket_url: StoreUrl,
) -> None:
    place = DatabasePlace.of(bucket_url)
    bucket = S3Store(place.bucket)
    names = [f"{place.path}/wal/{number:020}.sst" for number in range(1, 1052)]
    for first in range(0, len(names), 50):
        some = names[first : first + 50]
        await asyncio.gather(*(obstore.put_async(bucket, name, b"") for name in some))
    listing = Listing(place)

    for after in (0, 1, 2, 500, 922, 923, 924, 1020, 1049, 1050, 1051):
        assert await listing.newest_commit(after) == 1051
    assert await listing.newest_commit(1060) == 1060


async def test_commits_are_not_listed_as_long_as_the_last_one_that_is_known_is_there(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of many objects takes some servers seconds."""
    backend = await SlateDbBackend.open(url)
    listing = Listing(DatabasePlace.of(url))
    await backend.create("k0", b"")
    known = await listing.newest_commit(0)
    listed = list[int]()

    async def counted(_: Listing, after: int) -> list[int]:
        listed.append(after)
        return []

    monkeypatch.setattr(Listing, "_commits", counted)
    for number in range(1, 21):
        await backend.create(f"k{number}", b"")
        assert await listing.newest_commit(known) == known + number
    assert listed == []

    await listing.newest_commit(known + 21)  # Removed, maybe with what followed.
    assert listed == [known + 21]
    await backend.close()


async def test_a_view_stays_of_its_moment(
    s3_server: S3Server, bucket_url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await SlateDbBackend.open(bucket_url)
    await writer.create("k", b"0")
    with SlowRequests(s3_server.port, 0.02) as slow:
        monkeypatch.setenv("AWS_ENDPOINT", slow.endpoint)
        views = Views(DatabasePlace.of(bucket_url))
        async with views.moment() as moment:
            # SlateDB's reader would look for newer commits at once, for a tenth of a second.
            await writer.update("k", b"1")
            asked = slow.count
            await asyncio.sleep(0.5)
            assert await moment.values(["k"]) == [b"0"]
            assert slow.count == asked
        async with views.moment() as moment:
            assert await moment.values(["k"]) == [b"1"]
        await views.close()
    await writer.close()


async def test_a_former_view_is_ended_once_nobody_reads_it(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers, opened_reader = list[DbReader](), Views._opened_reader

    async def noted(views: Views) -> DbReader:
        readers.append(await opened_reader(views))
        return readers[-1]

    def ended() -> list[bool]:
        return [one.status().close_reason is not None for one in readers]

    monkeypatch.setattr(Views, "_opened_reader", noted)
    writer = await SlateDbBackend.open(url)
    await writer.create("k", b"0")
    views = Views(DatabasePlace.of(url))
    async with views.moment() as first:
        await writer.update("k", b"1")
        async with views.moment() as second:
            assert await second.values(["k"]) == [b"1"]
        assert await first.values(["k"]) == [b"0"]
        assert ended() == [False, False]
    assert ended() == [True, False]

    for step in range(5):
        await writer.update("k", b"%d" % step)
        async with views.moment() as moment:
            assert await moment.values(["k"]) == [b"%d" % step]
    assert ended() == [True] * 6 + [False]

    await views.close()
    assert ended() == [True] * 7
    await writer.close()


async def test_a_reader_that_may_be_behind_looks_less_often(url: StoreUrl) -> None:
    writer = await SlateDbBackend.open(url)
    await writer.create("k", b"0")
    reader = await SlateDbBackend.open(url, read_only=True, patience_s=0.5)
    await writer.update("k", b"1")

    assert await reader.get("k") == b"0"
    async with asyncio.timeout(10):
        while await reader.get("k") != b"1":  # noqa: ASYNC110 - Nothing tells of a commit.
            await asyncio.sleep(0.1)
    await writer.close()
    await reader.close()


async def test_a_reader_that_may_be_behind_takes_new_views_for_a_part_of_its_time(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a writer each look finds something new, and a view may take long to take."""
    views, opened_reader = 0, Views._opened_reader

    async def slow(of: Views) -> DbReader:
        nonlocal views
        views += 1
        await asyncio.sleep(0.05)
        return await opened_reader(of)

    monkeypatch.setattr(Views, "_opened_reader", slow)
    writer = await SlateDbBackend.open(url)
    await writer.create("k", b"")
    reader = await SlateDbBackend.open(url, read_only=True, patience_s=0.001)
    begun, before, seen = time.monotonic(), views, b""
    for step in itertools.count():
        await writer.update("k", b"%d" % step)
        seen = await reader.get("k") or b"0"
        if views == before + 2:
            break

    assert time.monotonic() - begun >= 2 * 0.05 * database_module.VIEW_COSTS - 0.1
    assert int(seen) > 0
    await writer.close()
    await reader.close()


async def test_an_unforeseen_error_is_told_and_the_next_call_works(
    url: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await SlateDbBackend.open(url)

    async def broken(*_: object) -> None:
        raise ValueError("nobody foresaw it")

    monkeypatch.setattr(StoreMoment, "values", broken)
    with pytest.raises(OutcomeUnknown, match="nobody foresaw it"):
        await backend.create("k", b"v")
    monkeypatch.undo()

    await backend.create("k", b"v")
    assert await backend.get("k") == b"v"
    await backend.close()


async def test_what_is_not_there_is_not_read(either: StoreUrl) -> None:
    with pytest.raises(NoSuchStore):
        await SlateDbBackend.open(either, read_only=True)


async def test_a_bucket_that_is_not_there_is_told(bucket_url: StoreUrl) -> None:
    missing = StoreUrl("slatedb", server="s3://none-of-this-name/prefix")

    for read_only in (True, False):
        with pytest.raises(StoreRefused, match="no such bucket"):
            await SlateDbBackend.open(missing, read_only=read_only)


async def test_a_folder_in_a_missing_one_is_told(tmp_path: Path) -> None:
    missing = parse_store_url(f"slatedb:file:{tmp_path}/mistyped/store")

    for read_only in (True, False):
        with pytest.raises(StoreRefused, match="there is no folder"):
            await SlateDbBackend.open(missing, read_only=read_only)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Db | DbReader]:
    """Whatever of SlateDB's is opened from now on."""
    found = list[Db | DbReader]()

    def noting(build: Callable[[Any], Awaitable[Db | DbReader]]) -> Callable[[Any], Any]:
        async def noted(builder: object) -> Db | DbReader:
            found.append(await build(builder))
            return found[-1]

        return noted

    for builder in (DbBuilder, DbReaderBuilder):
        monkeypatch.setattr(builder, "build", noting(builder.build))
    return found


def still_open(built: list[Db | DbReader]) -> list[Db | DbReader]:
    return [one for one in built if one.status().close_reason is None]


async def test_a_newer_format_is_refused(url: StoreUrl, built: list[Db | DbReader]) -> None:
    database = await Database.open(DatabasePlace.of(url))
    await database.commit({FORMAT_KEY: b"2"})
    await database.close()

    for read_only in (True, False):
        with pytest.raises(FormatTooNew, match="has format 2"):
            await SlateDbBackend.open(url, read_only=read_only)
    assert still_open(built) == []


async def test_another_programs_database_is_refused(
    url: StoreUrl, built: list[Db | DbReader]
) -> None:
    database = await Database.open(DatabasePlace.of(url))
    await database.commit({FORMAT_KEY: None, b"theirs": b""})
    await database.close()

    for read_only in (True, False):
        with pytest.raises(StoreRefused, match="another program's"):
            await SlateDbBackend.open(url, read_only=read_only)
    assert still_open(built) == []


READING = [(Listing, "has_database"), (Listing, "newest_commit"), (StoreMoment, "version")]
WRITING = [*READING, (Database, "moment"), (Database, "commit")]


@pytest.mark.parametrize(
    ("how", "where", "call"),
    [
        *(("read", *one) for one in READING),
        *(("write", *one) for one in [*WRITING, (StoreMoment, "values")]),
        *(("take over", *one) for one in WRITING),
    ],
)
async def test_a_bucket_that_fails_at_any_step_of_an_opening_leaves_nothing_open(
    url: StoreUrl,
    built: list[Db | DbReader],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    where: type,
    call: str,
) -> None:
    await (await SlateDbBackend.open(url)).close()
    works, calls, failed = getattr(where, call), 0, False
    options = {"read_only": how == "read", "takes_over": how == "take over"}
    tasks = asyncio.all_tasks()

    for failing in range(1, 4):
        calls = 0

        async def fails(*arguments: Any, nth: int = failing) -> Any:  # noqa: ANN401
            nonlocal calls, failed
            calls += 1
            if calls == nth:
                failed = True
                raise StorageUnavailable("planted")
            return await works(*arguments)

        monkeypatch.setattr(where, call, fails)
        with suppress(StorageUnavailable):
            await (await SlateDbBackend.open(url, **options)).close()
        assert still_open(built) == []
        assert asyncio.all_tasks() == tasks

    assert failed


async def test_a_forked_child_cannot_use_it(url: StoreUrl) -> None:
    backend = await SlateDbBackend.open(url)
    await backend.create("k", b"v")

    def refusal() -> str:
        try:
            backend.get("k").send(None)
        except InvalidArgument as error:
            return str(error)
        return "nothing"

    assert b"forked from it" in in_a_fork(refusal)
    assert await backend.get("k") == b"v"
    await backend.close()
