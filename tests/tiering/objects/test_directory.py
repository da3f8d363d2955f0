"""A directory as a store: what is removed from it, and what a power cut leaves of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import obstore
import pytest
from obstore.store import LocalStore

from tests.models.tiering.segment_copies import copied
from tests.models.tiering.tier_trace import segments
from tierledger.events.errors import StorageUnavailable
from tierledger.tiering.layouts.ledger.layout import LedgerSettings
from tierledger.tiering.layouts.tier_url import open_store, open_tier, parse
from tierledger.tiering.objects.directory import Unseen, walked
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.store import FOLDER_ATTEMPTS


async def test_a_file_that_is_gone_keeps_no_other_from_deletion(tmp_path: Path) -> None:
    names = [f"a/{number:02}" for number in range(40)]
    store = open_store(parse(f"dir:{tmp_path}"))
    for name in names[1:]:
        await store.put(Operation.COPY, name, b"x")

    await store.delete(Operation.DELETE, names)
    assert await store.list(Operation.LIST, "") == {}


@pytest.mark.parametrize("failures", [FOLDER_ATTEMPTS - 1, FOLDER_ATTEMPTS])
async def test_a_folder_that_a_deletion_removes_meanwhile_is_made_again(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(parse(f"dir:{tmp_path}"))
    put, left = obstore.put_async, failures

    async def hindered(to: LocalStore, name: str, data: bytes, *, use_multipart: bool) -> None:
        nonlocal left
        if left:
            (tmp_path / "a").symlink_to("nowhere")  # Nothing can be made in it.
            left -= 1
        try:
            await put(to, name, data, use_multipart=use_multipart)
        finally:
            if (tmp_path / "a").is_symlink():
                (tmp_path / "a").unlink()

    monkeypatch.setattr(obstore, "put_async", hindered)
    if failures == FOLDER_ATTEMPTS:
        with pytest.raises(StorageUnavailable, match="Unable to create dir"):
            await store.put(Operation.COPY, "a/b/c", b"x")
    else:
        await store.put(Operation.COPY, "a/b/c", b"x")
        assert await store.get(Operation.COPY, "a/b/c") == b"x"


async def test_leftovers_that_cannot_be_removed_are_a_failure(tmp_path: Path) -> None:
    store = open_store(parse(f"dir:{tmp_path}"))
    (tmp_path / "a" / "log.00000#1").mkdir(parents=True)

    with pytest.raises(StorageUnavailable, match=f"{tmp_path}/a: cannot be tidied"):
        await store.remove_leftovers("a")


def test_what_may_not_be_looked_at_is_named_and_the_list_goes_on() -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        for path in ("a/one", "lost+found/inside", "z/two"):
            (root / path).parent.mkdir()
            (root / path).write_bytes(b"x")
        (root / "a" / "loop").symlink_to("loop")
        (root / "lost+found").chmod(0)
        root.chmod(0o755)
        unseen: list[Unseen] = []
        with without_rights():
            found = list(walked(root, "", unseen.append))
            with pytest.raises(StorageUnavailable, match=r"lost\+found"):
                list(walked(root, "lost+found", unseen.append))
        (root / "lost+found").chmod(0o755)

    assert {one.path for one in found} == {"a/one", "z/two"}
    assert {one.reason for one in unseen} == {
        "a/loop: Too many levels of symbolic links",
        "lost+found: Permission denied",
    }
    places = ("lost+found/x", "lost+found", "a/loop", "lost", "a/one", "z")
    held = {place for place in places for one in unseen if one.may_hold(place)}
    assert held == {"lost+found/x", "lost+found", "a/loop", "lost"}


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may enter every folder; so be somebody else meanwhile."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "tier"
    path.mkdir()
    return path


@pytest.fixture
def flushed(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Paths flushed since the last call, each with the tier's number of files then."""
    found: list[str] = []
    flush = os.fsync

    def noted(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        files = sum(one.is_file() for one in root.rglob("*"))
        found.append(f"{path.relative_to(root)} of {files}")
        flush(handle)

    def taken() -> list[str]:
        taken = found.copy()
        found.clear()
        return taken

    monkeypatch.setattr(os, "fsync", noted)
    return taken


def folder_of_a_segment(root: Path) -> Path:
    return next(root.rglob("indexes")).parent.relative_to(root)


async def test_a_copy_is_on_the_disk_with_all_its_folders(
    root: Path, flushed: Callable[[], list[str]], tmp_path: Path
) -> None:
    storage = open_tier(f"dir:{root}", ledger_settings=LedgerSettings(part_bytes=5000))
    segment = next(one for one in segments() if len(one.indexes) == 5)
    await copied(storage, tmp_path, segment)

    folder = folder_of_a_segment(root)
    files = [folder / one for one in ("indexes", "log.00000", "log.00001", "log.00002")]
    assert flushed() == [f"{one} of 4" for one in [*files, folder, *folder.parents]]


async def test_a_deletion_is_on_the_disk_by_the_lowest_folder_that_is_left(
    root: Path, flushed: Callable[[], list[str]], tmp_path: Path
) -> None:
    storage = open_tier(f"dir:{root}")
    first, second = segments()[:2]
    assert first.metadata.topic_id_partition == second.metadata.topic_id_partition
    finished = [await copied(storage, tmp_path, one) for one in (first, second)]
    partition = folder_of_a_segment(root).parent
    flushed()

    for _ in range(2):  # The first may have been killed before it came to that.
        await storage.delete_log_segment_data(finished[0].metadata)
        assert flushed() == [f"{partition} of 2"]
    await storage.delete_log_segment_data(finished[1].metadata)
    assert flushed() == [". of 0"]


async def test_a_deletion_that_cannot_be_made_durable_is_not_done(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storage = open_tier(f"dir:{root}")
    finished = await copied(storage, tmp_path, segments()[0])

    def refuse(handle: int) -> None:
        raise OSError("no flush")

    monkeypatch.setattr(os, "fsync", refuse)
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="cannot be made durable: no flush"):
            await storage.delete_log_segment_data(finished.metadata)
