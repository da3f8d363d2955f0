"""`tables` refuses what makes no sense at once: Spark would take seconds to start."""

from pathlib import Path

import pytest

from tests.models.cli.command_line import in_process, invoke, refused, run
from tierledger.cli.commands.jobs import groups
from tierledger.cli.commands.jobs import job as spark_job
from tierledger.pipeline.tables.files import FORMATS
from tierledger.pipeline.tables.plan import TABLES

pytestmark = pytest.mark.usefixtures("no_java")


def test_a_table_that_there_is_not_is_refused(store: Path) -> None:
    result = run(store, "tables", "sigments", "--out", "x")

    assert result.exit_code == 2
    assert "No such command 'sigments'" in result.stderr


def test_the_group_says_of_each_table_what_it_holds() -> None:
    shown = invoke("tables", "--help").stdout

    assert all(f"{name} " in shown for name in groups.TABLE_HELP)
    assert {name: table.about for name, table in TABLES.items()} == {
        name: about for name, about in groups.TABLE_HELP.items() if name != groups.EVENTS
    }


def test_a_format_that_there_is_not_is_refused(store: Path, tmp_path: Path) -> None:
    asked = ("tables", "segments", "--out", tmp_path / "x", "--format", "orc")

    refused(run(store, *asked), "--format", "parquet, csv, json", "'orc'")


def test_a_table_that_is_there_is_not_replaced_unless_asked_to(
    store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-00000.parquet").touch()

    refused(run(store, "tables", "segments", "--out", out), "it is there already")

    assert (out / "part-00000.parquet").exists()


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_a_folder_that_is_no_table_is_never_replaced(
    store: Path, tmp_path: Path, overwrite: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").touch()

    refused(run(store, "tables", "segments", "--out", out, *overwrite), "'thesis.tex'")

    assert (out / "thesis.tex").exists()


def test_a_place_that_cannot_be_is_refused(store: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "where"

    refused(run(store, "tables", "segments", "--out", nowhere), "is no folder")
    refused(run(store, "tables", "segments", "--out", store), "it is a file")


def test_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    asked = ("tables", "events", "--out", tmp_path / "x")

    refused(run(tmp_path / "missing", *asked), "no such store", "missing")


def test_what_is_not_in_the_store_is_refused(store: Path, tmp_path: Path) -> None:
    asked = ("tables", "segments", "--out", tmp_path / "x")

    refused(run(store, *asked, "--cluster", "other"), "no cluster 'other'")
    refused(run(store, *asked, "--topic", "other"), "no topic 'other'")
    refused(run(store, *asked, "--topic", "orders", "--partition", 9), "partition 9")


def test_a_store_in_memory_is_refused(tmp_path: Path) -> None:
    asked = ("tables", "segments", "--out", tmp_path / "x", "--store", "memory:")

    refused(invoke(*asked), "other processes", "memory:")


def test_a_machine_without_java_is_told_so(store: Path, tmp_path: Path) -> None:
    result = run(store, "tables", "segments", "--out", tmp_path / "x", "--engine", "spark")

    refused(result, "Java")
    assert not (tmp_path / "x").exists()


def test_the_names_that_are_shown_are_those_that_there_are() -> None:
    assert list(groups.TABLE_HELP) == [groups.EVENTS, *TABLES]
    assert set(spark_job.FORMAT_NAMES) == set(FORMATS)


def test_the_command_line_starts_without_spark() -> None:
    _, loaded = in_process("--version")

    assert "pyspark" not in loaded
