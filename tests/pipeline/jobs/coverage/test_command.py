"""The commands of both jobs: statuses, tables, pages, damage and hostile names."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from tests.models.cli.command_line import invoke, refused, run, write
from tests.models.pages.html_page import HtmlPage
from tests.models.pipeline.planted_coverage import Segment, bodies
from tests.models.storage.stored_partitions import TIME_MS, StoredPartition, added
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.jobs.coverage.job import COVERAGE
from tierledger.pipeline.jobs.coverage.rules import FINDINGS, CoverageKind
from tierledger.pipeline.jobs.stuck import ADVICE, stuck_table
from tierledger.pipeline.table_columns import Table
from tierledger.storage.backends.sqlite.backend import SqliteBackend

DOCUMENT = (Path(__file__).parents[4] / "docs" / "jobs.md").read_text(encoding="utf-8")
HOSTILE = '<script>alert("1")</script>&amp;\u202e\x1b[2J'
NOW = "2033-05-18T03:33:20Z"
"""Long after the store's time."""

pytestmark = pytest.mark.usefixtures("spark")


async def sound(backend: SqliteBackend) -> None:
    partition = await StoredPartition.led(
        backend, TopicIdPartition(Uuid(b"s" * 16), 0, "sound")
    )
    await partition.append(bodies([Segment(0, 9, {0: 0}), Segment(1, 19, {0: 10})]))


async def holed(backend: SqliteBackend) -> None:
    partition = await StoredPartition.led(
        backend, TopicIdPartition(Uuid(b"h" * 16), 7, HOSTILE)
    )
    given_up = Segment(4, 49, {1: 40})
    log = [Segment(0, 9, {0: 0}), Segment(2, 29, {0: 20}), Segment(3, 49, {0: 25, 2: 40})]
    await partition.append([*bodies([*log, given_up]), added(9, 50, 59)])


async def damaged(backend: SqliteBackend) -> None:
    tip = TopicIdPartition(Uuid(b"d" * 16), 3, "damaged")
    partition = await StoredPartition.led(backend, tip)
    await partition.append(bodies([Segment(0, 9, {0: 0}), Segment(2, 29, {0: 20})]))
    await partition.flip(1)


def text_of(page: Path) -> str:
    """All text of a page, which refers to nothing outside itself."""
    shown = HtmlPage(page.read_text(encoding="utf-8"))
    shown.assert_harmless()
    return shown.text()


def answer(result: Result, status: int) -> dict[str, Any]:
    assert result.exit_code == status, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_a_sound_store_gives_nothing(tmp_path: Path) -> None:
    write(tmp_path / "s", sound)
    page = tmp_path / "page.html"

    coverage = run(tmp_path / "s", "jobs", "coverage", "--page", page)
    stuck = run(tmp_path / "s", "jobs", "stuck", "--now", NOW, "--page", tmp_path / "2.html")

    assert (coverage.exit_code, stuck.exit_code) == (0, 0), coverage.output + stuck.output
    assert "None: every log is covered, and once." in text_of(page)
    assert "None: nothing lasts longer" in text_of(tmp_path / "2.html")


def test_coverage_gives_a_table_a_page_and_a_status(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "s", sound, holed)
    out, page = tmp_path / "out", tmp_path / "page.html"

    asked = ("jobs", "coverage", "--out", out, "--page", page, "--json")
    found = answer(run(tmp_path / "s", *asked), 1)

    numbers = ("partitions", "hole", "hole_offsets", "orphaned_epoch", "overlap", "findings")
    assert [found[name] for name in numbers] == [2, 1, 10, 1, 1, 2]
    names = ("topic", "partition", "kind", "leader_epoch", "start_offset", "end_offset")
    assert [
        [row[name] for name in (*names, "segments", "size_in_bytes")] for row in found["worst"]
    ] == [
        [HOSTILE, 7, "hole", 0, 10, 19, 0, 0],
        [HOSTILE, 7, "orphaned_epoch", 1, 40, 49, 1, 1000],
    ]
    read = spark.read.parquet(str(out))
    kinds = {row["kind"]: row["count"] for row in read.groupBy("kind").count().collect()}
    assert kinds == {
        "covered": 4,
        "hole": 1,
        "orphaned_epoch": 1,
        "overlap": 1,
        "unfinished": 1,
    }
    text = text_of(page)
    assert "hole: offsets 10 to 19 (10), leader epoch 0" in text
    assert "orphaned epoch: offsets 40 to 49 (10), leader epoch 1; 1 segment" in text
    assert "overlap: offsets 25 to 29" in text
    assert "COPY_SEGMENT_STARTED" in text
    assert '<script>alert("1")</script>&amp;\\u202e\\u001b[2J-7' in text


def test_stuck_gives_a_table_a_page_and_a_status(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "s", sound, holed)
    out, page = tmp_path / "out", tmp_path / "page.html"

    asked = ("jobs", "stuck", "--now", NOW, "--out", out, "--page", page, "--json")
    found = answer(run(tmp_path / "s", *asked), 1)

    assert (found["findings"], found["COPY_SEGMENT_STARTED"]) == (1, 1)
    (row,) = spark.read.parquet(str(out)).collect()
    assert (row.start_offset, row.since_ms) == (50, TIME_MS)
    assert row.age_ms == 2_000_000_000_000 - TIME_MS
    text = text_of(page)
    assert row.segment_id in text
    assert ADVICE["COPY_SEGMENT_STARTED"] in text


def test_what_is_stuck_is_so_as_of_the_time_that_is_stated(tmp_path: Path) -> None:
    write(tmp_path / "s", holed)

    before = run(tmp_path / "s", "jobs", "stuck", "--now", "2023-11-14T23:00:00Z")
    longer = run(tmp_path / "s", "jobs", "stuck", "--older-than", "100000d")

    assert (before.exit_code, longer.exit_code) == (0, 0), before.output + longer.output


@pytest.mark.parametrize("job", ["coverage", "stuck"])
def test_damaged_logs_are_named_and_left_out(job: str, tmp_path: Path) -> None:
    write(tmp_path / "s", sound, holed, damaged)
    page = tmp_path / "page.html"

    result = run(tmp_path / "s", "jobs", job, "--page", page, "--json")

    found = answer(result, 3)
    assert found["findings"] == (2 if job == "coverage" else 1)
    assert [one["topic"] for one in found["damaged"]] == ["damaged"]
    assert "damaged-3 is left out from position 1 on:" in result.stderr
    assert "damaged-3" in text_of(page)


@pytest.mark.parametrize("job", ["coverage", "stuck"])
def test_an_empty_store_is_an_error(job: str, tmp_path: Path) -> None:
    write(tmp_path / "s")

    refused(run(tmp_path / "s", "jobs", job), "the store is empty")


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "s", sound)

    result = run(tmp_path / "s", "jobs", "coverage", "--page", tmp_path / "no" / "page.html")

    refused(result, "is no folder")


def test_names_on_a_terminal_move_no_cursor(tmp_path: Path) -> None:
    write(tmp_path / "s", holed)

    result = run(tmp_path / "s", "jobs", "coverage")

    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert "\\x1b[2J-7" in result.stdout


def test_each_job_says_how_it_is_used() -> None:
    shown = invoke("jobs", "--help").stdout

    assert "coverage" in shown
    assert "stuck" in shown


@pytest.mark.parametrize("table", [COVERAGE, stuck_table(0, {})], ids=lambda one: one.name)
def test_a_jobs_columns_are_listed_as_they_are(table: Table) -> None:
    _, _, section = DOCUMENT.partition(f"\n## `{table.name}`: {table.about}\n")
    section = section.partition("\n## ")[0].partition("| column |")[2]

    listed = [line for line in section.splitlines() if line.startswith("| `")]

    assert listed == [
        f"| `{one.name}` | `{one.type}` | {'yes' if one.is_nullable else 'no'} | {one.about} |"
        for one in table.columns
    ]


def test_every_kind_of_coverage_and_what_it_is_worth_is_listed() -> None:
    section = DOCUMENT.partition("\n## `coverage`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|$", section, re.MULTILINE)

    assert dict(rows) == {str(one): "yes" if one in FINDINGS else "no" for one in CoverageKind}


def test_the_advice_is_what_is_listed() -> None:
    section = DOCUMENT.partition("\n## `stuck`")[2].partition("\n## ")[0]

    assert dict(re.findall(r"^\| `([A-Z_]+)` \| (.+) \|$", section, re.MULTILINE)) == ADVICE
