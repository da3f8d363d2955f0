"""Column files are kept up to date beside a service, and what fails there harms nothing."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.column_files.test_column_files import OTHER, Store, fill, flipped, grow
from tierledger.events.errors import NoSuchStore
from tierledger.pipeline import column_following
from tierledger.pipeline.column_following import ColumnsLook, follow_columns
from tierledger.pipeline.column_writer import listed


class FollowEnded(Exception):
    """The test has seen enough."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def followed(store: Store, *between: Callable[[], None]) -> list[ColumnsLook]:
    """The looks before, between and behind these events."""
    looks, left = list[ColumnsLook](), list(between)

    def wait(seconds: float) -> None:
        assert seconds == 7
        if not left:
            raise FollowEnded
        left.pop(0)()

    with pytest.raises(FollowEnded):
        follow_columns(store.options, store.place, 7, looks.append, wait)
    return looks


@pytest.fixture(autouse=True)
def _as_nice_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_following, "NICENESS", 0)


def test_each_look_writes_what_is_new(store: Store) -> None:
    fill(store)
    first, second, third = followed(store, lambda: grow(store, range(100, 110)), lambda: None)
    assert first.done is not None
    assert first.done.files == 1
    assert second.done is not None
    assert second.done.rows == 20
    assert third.done is not None
    assert (third.done.rows, third.done.files) == (0, 0)
    assert store.read() == store.decoded()


def test_it_is_told_how_far_files_are_behind(store: Store) -> None:
    fill(store)
    store.write()
    whole = asyncio.run(listed(store.options, store.place))
    written = {(row["topic_id"], row["position"]) for row in store.read()}
    grow(store, range(100, 110))
    grow(store, range(100, 101), OTHER)
    behind = asyncio.run(listed(store.options, store.place, whole=False))

    missing = [row for row in store.read() if (row["topic_id"], row["position"]) not in written]
    assert (whole.behind, whole.behind_since_ms) == (0, None)
    assert behind.behind == len(missing) == 22
    assert behind.behind_since_ms == min(row["log_time_ms"] for row in missing)


def test_a_full_disk_is_told_and_made_up_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def no_more_room() -> None:
        grow(store, range(100, 110))
        patched.setattr(os, "fsync", full)

    fill(store)
    with monkeypatch.context() as patched:
        looks = followed(store, no_more_room, lambda: None, patched.undo, lambda: None)

    assert [one.failed for one in looks] == [0, 1, 2, 0, 0]
    assert "No space left" in str(looks[1].error)
    assert looks[3].done is not None
    assert looks[3].done.rows == 20
    assert store.read() == store.decoded()


def test_what_fails_at_once_is_an_error(store: Store) -> None:
    with pytest.raises(NoSuchStore):
        follow_columns(store.options, store.place, 7, print, print)


def test_a_damaged_file_is_found_by_the_first_look(store: Store) -> None:
    fill(store)
    store.write()
    flipped(store.file())
    (look,) = followed(store)
    assert look.done is not None
    assert (look.done.files, look.done.removed) == (1, 1)
    assert store.read() == store.decoded()


def test_the_command_goes_on_until_it_is_ended(store: Store, tmp_path: Path) -> None:
    fill(store)
    folder, file, link = (tmp_path / name for name in ("folder", "file", "link"))
    folder.mkdir()
    file.touch()
    link.symlink_to(folder)
    command = ["columns", "write", "--follow", "--every", "100ms", "--json"]
    where = ["--store", store.url, "--columns", f"dir:{link}"]
    with subprocess.Popen(
        [sys.executable, "-m", "tierledger.cli.main", *command, *where],
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            told = map(json.loads, running.stdout)
            assert next(told)["files"] == 1
            grow(store, range(100, 110))
            assert next(told)["rows"] == 20
            point(link, file)
            failed = next(told)
            assert failed["failed"] == 1
            assert "Not a directory" in failed["error"]
            grow(store, range(110, 120))
            point(link, folder)
            assert next(one for one in told if "files" in one)["rows"] == 20
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130


def point(link: Path, target: Path) -> None:
    """Let a link lead elsewhere, in one step."""
    other = link.with_suffix(".new")
    other.symlink_to(target)
    other.replace(link)
