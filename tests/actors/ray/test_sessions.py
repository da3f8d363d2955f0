"""Folders of Ray clusters: who has one that lives, and which are removed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierledger.actors.ray.sessions import MARK, NEEDED, RaySession, remove_dead


def session(
    parent: Path, name: str, *, died_s: int | None = None, is_ours: bool = True
) -> Path:
    folder = parent / f"session_{name}"
    for one in NEEDED:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).touch()
    if is_ours:
        (folder / MARK).touch()
        os.utime(folder / MARK, (died_s or 0, died_s or 0))
    return folder


def test_only_dead_sessions_of_ours_are_removed_and_the_newest_stays(tmp_path: Path) -> None:
    old, newer = session(tmp_path, "b", died_s=1), session(tmp_path, "a", died_s=2)
    foreign = session(tmp_path, "c", is_ours=False)
    living = session(tmp_path, "d")
    RaySession(living)
    latest = tmp_path / "session_latest"
    latest.symlink_to(old)

    remove_dead(tmp_path)

    assert not old.exists()
    assert sorted(tmp_path.iterdir()) == [newer, foreign, living, latest]


def test_a_session_is_dead_once_its_process_has_ended_and_not_before(tmp_path: Path) -> None:
    old, newer = session(tmp_path, "a"), session(tmp_path, "b", died_s=1)
    program = (
        "import sys; from pathlib import Path;"
        "from tierledger.actors.ray.sessions import RaySession;"
        "RaySession(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(old)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        os.utime(old / MARK, (0, 0))
        remove_dead(tmp_path)
        assert old.exists()
        holder.communicate()

    remove_dead(tmp_path)

    assert [old.exists(), newer.exists()] == [False, True]


@pytest.mark.parametrize("lost", NEEDED)
def test_a_deleted_file_that_ray_needs_is_missed(lost: str, tmp_path: Path) -> None:
    folder = session(tmp_path, "a")
    held = RaySession(folder)
    assert held.lacks() is None

    (folder / lost).unlink()

    assert held.lacks() == folder / lost


def test_what_was_never_there_is_not_missed(tmp_path: Path) -> None:
    folder = session(tmp_path, "a")
    (folder / NEEDED[1]).unlink()

    assert RaySession(folder).lacks() is None
