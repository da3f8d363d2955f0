"""`tierledger.tables`: the tables for Python, as the commands write them."""

import asyncio
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.models.cli.command_line import orders, others, run, write
from tests.pipeline.test_engines import damaged
from tierledger import tables
from tierledger.events.errors import CorruptLog, InvalidArgument
from tierledger.pipeline import sql, table_batches
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.reading import NAMES, StoredTables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables")
    write(path / "store", orders, others)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_what_the_command_writes_also_in_a_notebooks_loop(
    folder: Path, name: str
) -> None:
    out = folder / name
    assert (
        run(folder / "store", "tables", name, "--out", out, "--engine", "local").exit_code == 0
    )

    async def in_a_notebook() -> Any:  # noqa: ANN401 - Arrow has no types.
        return tables.read(name, f"sqlite:{folder / 'store'}")

    found = asyncio.run(in_a_notebook())

    written = pq.read_table(out)
    assert found.num_rows > 0 or name in {"anomalies", "trash"}
    assert found.schema.names == written.schema.names
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, written.to_pylist()))


def test_a_small_table_loads_nothing_that_only_large_ones_need(folder: Path) -> None:
    program = (
        "import sys; from tierledger import tables; "
        f"assert tables.read('segments', 'sqlite:{folder / 'store'}').num_rows; "
        "print([one for one in sys.modules if 'pyarrow.' in one or 'column_tables' in one])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    loaded = done.stdout.decode()
    assert "pyarrow.lib" in loaded
    assert "column_tables" not in loaded
    assert "pyarrow.parquet" not in loaded


@pytest.mark.parametrize("few", [0, table_batches.FEW_BATCHES])
@pytest.mark.parametrize("name", ["segments", "events"])
def test_a_damaged_log_is_an_error_or_left_out(
    tmp_path: Path, name: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_batches, "FEW_BATCHES", few)
    write(tmp_path / "store", damaged)
    url = f"sqlite:{tmp_path / 'store'}"

    with pytest.raises(CorruptLog, match="batch 2"):
        tables.read(name, url)
    left_out: list[tables.DamagedLog] = []
    found = tables.read(name, url, damaged=left_out)

    assert [one.topic for one in left_out] == ["damaged"]
    assert found.num_rows > 0


def test_a_query_gives_the_rows_of_its_last_statement(folder: Path) -> None:
    url = f"sqlite:{folder / 'store'}"

    found = tables.sql("create table a as from segments; select count(*) as n from a", url)

    assert found.to_pylist() == [{"n": tables.read("segments", url).num_rows}]
    assert tables.sql("set threads = 1", url) is None


def test_what_makes_no_sense_is_refused(folder: Path) -> None:
    url = f"sqlite:{folder / 'store'}"

    with pytest.raises(InvalidArgument, match="expected one of events, segments"):
        tables.read("segmets", url)
    with pytest.raises(InvalidArgument, match="syntax error"):
        tables.sql("selec 1", url)
    with pytest.raises(InvalidArgument, match="got memory:"):
        tables.read("segments", "memory:")


def test_rows_beyond_one_handful_all_arrive(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "ROWS_AT_A_TIME", 3)
    url = f"sqlite:{folder / 'store'}"

    found = tables.sql("select count(*) as n from transitions", url)

    assert found.to_pylist() == [{"n": tables.read("transitions", url).num_rows}]


@pytest.mark.parametrize("name", ["transitions", "events"])
def test_a_table_whose_reading_is_stopped_is_read_whole_later(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "ROWS_AT_A_TIME", 1)
    stored = StoredTables(JobStore({"metadata.storage.url": f"sqlite:{folder / 'store'}"}))

    def stopped(_: str, batches: Iterable[Any]) -> Iterator[Any]:
        yield from batches
        raise KeyboardInterrupt

    with sql.sql_over(stored) as asked:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                list(asked.arrow(f"from {name}", stopped))
        (found,) = asked.arrow(f"from {name}")

    assert found.num_rows == tables.read(name, f"sqlite:{folder / 'store'}").num_rows > 0


def test_a_transaction_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="expected no transactions"):
        tables.sql(
            "begin; from segments; rollback; from segments", f"sqlite:{folder / 'store'}"
        )


@pytest.mark.parametrize(
    "text", ["from query_table('seg' || 'ments')", "from QUERY ('from seg' || 'ments')"]
)
def test_a_table_whose_name_is_computed_is_read(folder: Path, text: str) -> None:
    url = f"sqlite:{folder / 'store'}"

    assert tables.sql(text, url).num_rows == tables.read("segments", url).num_rows
