"""`sql`: what it prints and writes, and how it refuses."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.models.cli.command_line import invoke, orders, others, refused, run, write
from tests.pipeline.test_engines import damaged
from tierledger.cli.exit_status import ExitStatus
from tierledger.pipeline.reading import StoredTables

BY_STATE = "select state, count(*) as n, sum(size_in_bytes) as bytes from segments group by 1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "store"
    write(path, orders, others)
    return path


def test_a_table_is_printed(store: Path) -> None:
    result = run(store, "sql", "select topic, partition from segments limit 1")

    assert result.exit_code == 0, result.stderr
    heading, _, row = result.stdout.splitlines()
    assert heading.split() == ["topic", "partition"]
    assert row.split() == ["orders", "1"]


def test_sums_are_numbers_in_each_form(store: Path, tmp_path: Path) -> None:
    as_json = run(store, "sql", f"{BY_STATE} order by 1", "--json")
    as_csv = run(store, "sql", f"{BY_STATE} order by 1", "--format", "csv")
    out = tmp_path / "out.parquet"
    run(store, "sql", f"{BY_STATE} order by 1", "--out", out)

    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [(row["state"], row["n"]) for row in rows] == [
        ("COPY_SEGMENT_FINISHED", 18),
        ("DELETE_SEGMENT_STARTED", 1),
    ]
    assert all(type(row["bytes"]) is int for row in rows)
    heading, *lines = csv.reader(as_csv.stdout.splitlines())
    assert heading == ["state", "n", "bytes"]
    assert lines == [[str(one) for one in row.values()] for row in rows]
    assert [row["n"] for row in pq.read_table(out).to_pylist()] == [18, 1]


def test_bytes_maps_and_times_are_written_as_tables_write_them(store: Path) -> None:
    query = (
        "select '\\xFF'::blob as b, map {3: 7} as m, make_timestamp_ms(0) as t, true as y, "
        "null as n, 1.5 as d"
    )
    as_json = run(store, "sql", query, "--json").stdout
    as_csv = run(store, "sql", query, "--format", "csv").stdout

    assert json.loads(as_json) == {
        "b": "/w==",
        "m": {"3": 7},
        "t": "1970-01-01T00:00:00",
        "y": True,
        "n": None,
        "d": "1.5",
    }
    assert list(csv.reader(as_csv.splitlines()))[1] == [
        *("/w==", '{"3":7}', "1970-01-01T00:00:00", "true", "", "1.5")
    ]


def test_numbers_that_json_does_not_have_are_text(store: Path) -> None:
    query = "select 1/0 as a, -1/0 as b, 'nan'::double as c"

    shown = run(store, "sql", query, "--json").stdout

    assert json.loads(shown) == {"a": "Infinity", "b": "-Infinity", "c": "NaN"}


def test_two_columns_of_one_name_are_no_object(store: Path, tmp_path: Path) -> None:
    query = "select 1 as a, 2 as a"

    refused(run(store, "sql", query, "--json"), "two columns are named 'a'")
    out = tmp_path / "x.json"
    refused(run(store, "sql", query, "--out", out), "two columns are named 'a'")

    assert not out.exists()
    assert run(store, "sql", query, "--format", "csv").stdout == "a,a\n1,2\n"


def test_statements_come_from_standard_input_and_may_be_several(store: Path) -> None:
    text = "create table mine as from sizes; select count(*) as n from mine; select 'a;b' as x"
    result = run(store, "sql", input=text)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == ["n", "─" * 2, "18", "x", "─" * 3, "a;b"]


def test_the_columns_of_a_table_are_told_without_reading_it(tmp_path: Path) -> None:
    write(tmp_path / "store", damaged)
    query = "select comment from duckdb_columns() where column_name = 'size_in_bytes'"

    described = run(tmp_path / "store", "sql", "describe segments; show tables", "--json")
    about = run(tmp_path / "store", "sql", query, "--json")

    assert described.exit_code == 3, "it named the table"
    assert '"column_name": "size_in_bytes"' in described.stdout
    assert about.exit_code == 0
    assert "bytes of the segment's log" in about.stdout


def test_a_past_is_asked_too(store: Path) -> None:
    now = run(store, "sql", "select count(*) as n from segments", "--json")
    then = run(
        store,
        *("sql", "select count(*) as n from segments", "--json"),
        *("--topic", "orders", "--partition", 1, "--as-of", "position:4"),
    )

    assert json.loads(now.stdout)["n"] > json.loads(then.stdout)["n"] > 0


def test_a_change_is_said_to_be_of_this_run_alone(store: Path) -> None:
    result = run(store, "sql", "drop table events")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "the store stays as it is" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["selec 1"], "syntax error at or near"),
        ([""], "expected a statement, like: from segments; the tables are events, segments,"),
        (["from segmets"], "The tables are events, segments, trash, epochs"),
        (["select 1", "--format", "xml"], "expected one of table, csv, json, parquet; got"),
        (["select 1", "--format", "parquet"], "expected --out FILE as well"),
        (["select 1", "--json", "--format", "csv"], "got both"),
        (["select 1", "--out", "NEW/rows"], "a file name that ends so"),
        (["select 1; select 2", "--out", "NEW/rows.csv"], "expected one statement with rows"),
        (["set threads = 1", "--out", "NEW/rows.csv"], "with rows, got none"),
        (["select 1", "--memory", "much"], "expected an amount of memory like 1GiB"),
        (["from segments", "--topic", "no-such"], "no-such"),
    ],
)
def test_what_makes_no_sense_is_refused(
    store: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = [one.replace("NEW", str(tmp_path)) for one in arguments]

    refused(run(store, "sql", *given), message)
    assert not [*tmp_path.iterdir()]


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused(invoke("sql", "from segments", "--store", f"sqlite:{tmp_path}/no"), "no")


def test_damaged_logs_are_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path / "store", damaged, orders)

    result = run(tmp_path / "store", "sql", "select count(*) as n from sizes", "--json")

    assert result.exit_code == 3
    assert json.loads(result.stdout)["n"] > 0
    assert "damaged-3 is left out from position" in result.stderr


def test_a_mistake_is_found_before_a_store_is_read_for_it(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoredTables, "table", lambda *_: pytest.fail("the store was read"))

    mistyped = run(store, "sql", "select topik from segments")

    assert mistyped.exit_code == ExitStatus.USAGE
    assert 'Candidate bindings: "topic"' in mistyped.stderr
    monkeypatch.undo()
    for asked in ("explain from segments", "describe segments", "from segments"):
        assert run(store, "sql", asked).exit_code == ExitStatus.WELL, asked


WIDE = """select sum(length(y)) as bytes from (
    select hash(range) as h, repeat('x', 200) || range as y from range(1000000) order by h
    limit 999999)"""


def test_what_does_not_fit_into_memory_is_in_a_file_meanwhile(store: Path) -> None:
    result = run(store, "sql", WIDE, "--json", "--memory", "128MiB")

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["bytes"] // 999_999 == 205


def test_what_does_not_fit_at_all_is_refused(store: Path) -> None:
    within = "select len(list(repeat('x', 1000) || range)) from range(1000000)"

    refused(run(store, "sql", within, "--memory", "64MiB"), "Out of Memory")


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_mistake_that_a_late_row_shows_is_told(store: Path, form: str) -> None:
    within = "select if(range > 900000, 'x', '1')::int as a from range(1000000)"
    result = run(store, "sql", within, "--format", form)

    assert result.exit_code == 2
    assert "Could not convert string 'x' to INT32" in result.stderr
    assert "Traceback" not in result.stderr


ENDLESS = {
    "decided": ["select sum(a.range + b.range) from range(1000000) a, range(100000000) b"],
    "fetched": [
        "select a.range from range(1000000) a, range(100000000) b where a.range + b.range < 0",
        "--format",
        "csv",
    ],
    "into a file": [
        "select a.range from range(1000000) a, range(100000000) b where a.range + b.range < 0",
        "--out",
        "NEW/rows.parquet",
    ],
}


@pytest.mark.parametrize("how", ENDLESS)
def test_a_query_without_end_is_stopped(store: Path, tmp_path: Path, how: str) -> None:
    told = [one.replace("NEW", str(tmp_path)) for one in ENDLESS[how]]
    status, errors = _interrupted(
        "-m", "tierledger.cli.main", "sql", *told, "--store", f"sqlite:{store}"
    )

    assert status == ExitStatus.INTERRUPTED, errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_a_notebooks_query_without_end_is_stopped(store: Path) -> None:
    program = (
        f"from tierledger.tables import sql; sql({ENDLESS['decided'][0]!r}, 'sqlite:{store}')"
    )
    _, errors = _interrupted("-c", program)

    assert errors.splitlines()[-1] == "KeyboardInterrupt"


def _interrupted(*arguments: str) -> tuple[int, str]:
    """The status and errors of a program that gets SIGINT while its query runs."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as asking:
        try:
            while not _is_computing(asking.pid):
                assert asking.poll() is None
                time.sleep(0.05)  # Another process's work can only be looked at.
            asking.send_signal(signal.SIGINT)
            _, errors = asking.communicate(timeout=30)
        finally:
            asking.kill()
    return asking.returncode, errors


def _is_computing(pid: int) -> bool:
    """Whether the query runs: a thread beside the first has had 0.2 s of a processor."""
    used = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            used.append(int(fields[11]) + int(fields[12]))  # In ticks: user's and system's.
    return max(used, default=0) >= 0.2 * os.sysconf("SC_CLK_TCK")
