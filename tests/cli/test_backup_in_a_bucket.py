"""Backups in a bucket: as in a folder, and nobody has to lock it."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.test_backup_command import grown
from tests.models.cli.command_line import OLD_ORDERS, ORDERS, invoke, lines, refused, run
from tests.models.storage.stored_partitions import CLUSTER, SERDE
from tests.models.tiering.faulty_object_store import Fault, FaultyS3, Seen
from tierledger.simulation.live.s3_server import S3Server
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.backup import backup as backup_module
from tierledger.storage.backup.backup import make
from tierledger.storage.backup.files import BackupFiles
from tierledger.storage.catalog import Catalog
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.tiering.backup_bucket import BackupBucket
from tierledger.tiering.layouts.tier_url import open_store, parse

SMALL_PARTS = """
from tierledger.cli.main import main
from tierledger.storage.backup import backup
backup.PART_BYTES = 100
main()
"""


class Bucket(NamedTuple):
    """A place for backups behind a proxy, and a look at it from behind."""

    url: str
    proxy: FaultyS3
    server: S3Server

    def files(self) -> BackupFiles:
        """The backups, not by the proxy."""
        parsed = parse(self.url)
        return BackupFiles(
            BackupBucket(open_store(parsed, self.server.options()), parsed.prefix)
        )

    @property
    def folder(self) -> Path:
        return self.server.data / self.url.removeprefix("s3://")

    def names(self, ending: str) -> set[str]:
        return {path.name for path in self.folder.glob(f"*.{ending}")}


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setattr(backup_module, "PART_BYTES", 500)
    with FaultyS3(s3_server.endpoint) as proxy:
        for name, value in s3_server.environment(proxy.endpoint).items():
            monkeypatch.setenv(name, value)
        yield Bucket(s3_server.place(), proxy, s3_server)


def is_restored(store: Path, bucket: Bucket) -> bool:
    back = store.with_name("back.sqlite")
    back.unlink(missing_ok=True)
    done = run(back, "backup", "restore", bucket.url)
    assert done.exit_code == 0, done.stderr
    asked = "log", "orders", 1
    return run(store, *asked).stdout == run(back, *asked).stdout


async def _make(store: Path, files: BackupFiles) -> None:
    backend = await SqliteBackend.open(store, read_only=True)
    try:
        catalog = Catalog(backend, DefaultMetadataKeyFactory(CLUSTER), SERDE, CLUSTER)
        await make(files, catalog, 5, lambda _: None)
    finally:
        await backend.close()


def test_a_backup_grows_in_a_bucket_is_listed_verified_and_restored(
    store: Path, bucket: Bucket
) -> None:
    first = run(store, "backup", "make", bucket.url)
    before = bucket.names("part")
    grown(store)
    second = run(store, "backup", "make", bucket.url, "--json")

    assert f"backup 1 of cluster test-cluster in {bucket.url}: 4 logs" in first.stdout
    assert lines(second)[0]["new"]["events"] == 2
    assert before < bucket.names("part")
    assert bucket.names("index") == {"00000002.index"}
    assert [one["backup"] for one in lines(invoke("backup", "ls", bucket.url, "--json"))] == [
        1,
        2,
    ]
    assert invoke("backup", "verify", bucket.url).stdout.count("ok ") == 2
    assert is_restored(store, bucket)
    run(store, "backup", "make", bucket.url)
    asked = ("backup", "prune", bucket.url, "--keep-last", 2)
    (dry,), before = lines(invoke(*asked, "--dry-run", "--json")), bucket.names("*")
    assert [one["backup"] for one in dry["removed"]] == [1]
    (done,) = lines(invoke(*asked, "--json"))
    assert (done["removed"], done["files"]) == (dry["removed"], 2)
    assert {name[-7:] for name in before - bucket.names("*")} == {".backup", "3.index"}
    assert invoke("backup", "verify", bucket.url).stdout.count("ok ") == 2
    doctor = invoke("doctor", "--backups", bucket.url).stdout
    assert re.search(rf"well +backup +{bucket.url}: the newest was made", doctor)


def _unlink(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("harm", [_unlink, _cut])
def test_a_part_that_is_gone_or_damaged_is_found(
    store: Path, bucket: Bucket, harm: Callable[[Path], None]
) -> None:
    run(store, "backup", "make", bucket.url)
    part = max(bucket.names("part"))
    harm(bucket.folder / part)

    found = invoke("backup", "verify", bucket.url)

    assert found.exit_code == 1
    assert f"DAMAGED  backup 1: {part} is " in found.stdout


def test_who_is_killed_between_parts_has_changed_nothing(store: Path, bucket: Bucket) -> None:
    run(store, "backup", "make", bucket.url)
    for topic in (ORDERS, OLD_ORDERS):
        grown(store, topic)
    puts = 0

    def second_part(seen: Seen) -> Fault | None:
        nonlocal puts
        puts += seen.method == "PUT" and seen.path.endswith(".part")
        return Fault.HANG if puts == 2 else None

    bucket.proxy.plan = second_part
    command = [sys.executable, "-c", SMALL_PARTS, "backup", "make", bucket.url]
    with subprocess.Popen([*command, "--store", f"sqlite:{store}"], env=os.environ) as killed:
        while not bucket.proxy.struck:
            assert killed.poll() is None
        killed.kill()
    bucket.proxy.plan = lambda _: None
    left = {name for name in bucket.names("part") if name.startswith("00000002")}
    assert len(left) == 1
    assert invoke("backup", "verify", bucket.url).stdout.count("ok ") == 1

    assert run(store, "backup", "make", bucket.url).exit_code == 0

    assert not left & bucket.names("part")
    assert is_restored(store, bucket)


def test_of_two_at_once_the_slower_is_refused(store: Path, bucket: Bucket) -> None:
    run(store, "backup", "make", bucket.url)
    grown(store)

    def overtakes(seen: Seen) -> None:
        if seen.method == "PUT" and seen.path.endswith("00000002.index"):
            bucket.proxy.plan = lambda _: None
            asyncio.run(_make(store, bucket.files()))

    bucket.proxy.plan = overtakes
    refused(run(store, "backup", "make", bucket.url), "another process has made a backup")

    assert invoke("backup", "verify", bucket.url).stdout.count("ok ") == 2
    assert is_restored(store, bucket)
    assert run(store, "backup", "make", bucket.url).exit_code == 0
    assert all(name[:8] in {"00000001", "00000002"} for name in bucket.names("part"))


def test_an_answer_that_is_lost_is_no_refusal(store: Path, bucket: Bucket) -> None:
    struck = set[str]()

    def lost(seen: Seen) -> Fault | None:
        if seen.method != "PUT" or seen.path in struck:
            return None
        struck.add(seen.path)
        return Fault.LOSE_ANSWER

    bucket.proxy.plan = lost
    assert run(store, "backup", "make", bucket.url).exit_code == 0
    assert is_restored(store, bucket)


def test_a_store_without_conditional_writes_is_refused(store: Path, bucket: Bucket) -> None:
    put = set[str]()

    def overwritten(seen: Seen) -> Fault | None:
        """Let a second file of a name be written, with the bytes of the first."""
        if seen.method != "PUT" or seen.path not in put:
            put.add(seen.path)
            return None
        return Fault.FORGET

    bucket.proxy.plan = overwritten

    refused(
        run(store, "backup", "make", bucket.url), "expected a place with conditional writes"
    )

    assert bucket.names("part") == set()


def test_what_is_no_place_is_refused(store: Path, bucket: Bucket) -> None:
    for url in ("memory://", "s3://", "manifest:s3://bucket/x", "s3://hush@bucket//x"):
        refused(run(store, "backup", "make", url), "expected where the backups are")
    refused(run(store, "backup", "make", "s3://nowhere/x"), "there is no such bucket")
    assert "there is no backup in" in invoke("backup", "ls", bucket.url).stderr
    asyncio.run(bucket.files().place.write("deeper/photo.jpg", b"1"))
    refused(run(store, "backup", "make", bucket.url), "'deeper/photo.jpg' in s3://")
