"""`columns`: what it prints and refuses, and which commands then read the files."""

import json
from pathlib import Path

import pytest

from tests.models.cli.command_line import orders, others, refused, run, write
from tests.pipeline.test_engines import damaged


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path / "store", orders, others)
    return tmp_path / "store"


def test_files_are_written_listed_and_dropped(store: Path) -> None:
    folder = store.with_name("store.columns")
    query = ("sql", "select count(*) as n from events", "--json")
    n = json.loads(run(store, *query).stdout)["n"]
    assert "no column files in dir:" in run(store, "columns", "ls").stderr

    written = run(store, "columns", "write")

    assert written.exit_code == 0, written.output
    assert written.stdout.startswith(f"{n} new rows; 1 files written (")
    again = json.loads(run(store, "columns", "write", "--json").stdout)
    assert again == {
        "columns": f"dir:{folder}",
        "rows": 0,
        "files": 0,
        "bytes": 0,
        "removed": 0,
        "damaged": [],
    }
    listed = run(store, "columns", "ls", "--json")
    (file,) = map(json.loads, listed.stdout.splitlines())
    (path,) = folder.iterdir()
    assert file == {
        "file": path.name,
        "rows": n,
        "used": n,
        "logs": 4,
        "bytes": path.stat().st_size,
    }
    told = run(store, "columns", "ls")
    assert path.name in told.stdout
    assert f"{n} events are columns" in told.stderr
    assert json.loads(run(store, *query).stdout)["n"] == n

    path.write_bytes(b"short")
    spoiled = run(store, *query)
    assert json.loads(spoiled.stdout)["n"] == n
    (note,) = spoiled.stderr.splitlines()
    assert note.startswith(f"note: a column file is not used: {path.name} is no column file")
    both = run(store, "sql", "select (select count(*) from segments) + count(*) from events")
    assert both.stderr.splitlines() == [note]
    out = run(store, "tables", "events", "--out", store.parent / "out", "--engine", "local")
    assert out.stdout.startswith(f"{n} rows")
    assert note in out.stderr

    assert run(store, "columns", "drop").stdout.startswith("1 files removed")
    assert not folder.exists()


def test_files_may_be_elsewhere(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"dir:{tmp_path / 'here'}"
    assert run(store, "columns", "write", "--columns", place).exit_code == 0
    assert len(list((tmp_path / "here").iterdir())) == 1
    monkeypatch.setenv("TIERLEDGER_COLUMNS", place)
    assert len(run(store, "columns", "ls", "--json").stdout.splitlines()) == 1


def test_what_is_no_place_is_refused(store: Path, tmp_path: Path) -> None:
    for place in ("nowhere", "dir:", "s3:BUCKET/columns"):
        result = run(store, "columns", "write", "--columns", place)
        refused(result, "expected where the column files are, as dir:DIR", repr(place))
    (tmp_path / "file").touch()
    result = run(store, "columns", "write", "--columns", f"dir:{tmp_path / 'file'}")
    assert result.exit_code == 4
    assert str(tmp_path / "file") in result.stderr
    missing = tmp_path / "gone" / "here"
    assert run(store, "columns", "write", "--columns", f"dir:{missing}").exit_code == 4


def test_damaged_logs_are_named(tmp_path: Path) -> None:
    write(tmp_path / "store", orders, damaged)
    result = run(tmp_path / "store", "columns", "write")
    assert result.exit_code == 3
    assert "damaged: " in result.stderr
    assert ":damaged-3 is left out" in result.stderr
