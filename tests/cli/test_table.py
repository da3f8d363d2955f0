"""Tables of commands, at all widths of a terminal."""

import io
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.models.cli.command_line import run, write
from tests.models.cli.terminal import Shown, on_terminal
from tests.models.storage.stored_partitions import StoredPartition, added, finished
from tierledger.cli.table import (
    STYLED_ROWS_MAX,
    Cell,
    PrintedTable,
    id_cell,
    print_table,
    size_cell,
    styled_table,
    time_cell,
)
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.sqlite.backend import SqliteBackend

PRICES = str(Path(__file__).parents[2] / "deploy" / "prices.toml")
WORDS = st.text("abcdefgh-", min_size=1, max_size=20)
CELLS = st.one_of(
    WORDS,
    st.none(),
    st.integers(0, 10**12),
    st.builds(id_cell, WORDS),
    st.builds(size_cell, st.integers(0, 2**70)),
    st.builds(time_cell, st.integers(0, 2**50)),
)


@st.composite
def tables(draw: st.DrawFn) -> PrintedTable:
    columns = draw(st.lists(WORDS, min_size=1, max_size=6, unique=True))
    rows = draw(st.lists(st.tuples(*(CELLS for _ in columns)), max_size=5))
    spare = draw(st.permutations(columns).map(lambda names: names[: len(names) - 1]))
    return PrintedTable(columns, rows, spare)


def first_words(shown: Shown) -> list[str]:
    """The first word of each row."""
    (rule,) = [at for at, line in enumerate(shown.lines) if line.startswith("──")]
    return [line.split()[0] for line in shown.lines[rule + 1 :]]


@given(tables(), st.integers(24, 300))
def test_a_row_is_one_line_at_any_width_that_has_room_for_the_last_column(
    table: PrintedTable, width: int
) -> None:
    output = io.StringIO()
    Console(width=width, file=output).print(styled_table(table, width))

    shown = output.getvalue().splitlines()
    assert len(shown) == 2 + len(table.rows)
    assert all(len(line) <= width for line in shown)


@given(tables())
def test_what_matters_most_is_left_out_last(table: PrintedTable) -> None:
    kept = [
        [str(column.header) for column in styled_table(table, width).columns]
        for width in range(1, 300, 7)
    ]

    for narrow, wide in pairwise(kept):
        assert set(narrow) <= set(wide)
        assert set(wide) - set(narrow) <= set(table.spare)
    assert kept[-1] == list(table.columns)


def test_eighty_columns_show_each_partition_on_one_line_and_a_pipe_shows_all(
    store: Path,
) -> None:
    whole = run(store, "ls").stdout.splitlines()
    narrow = on_terminal("ls", columns=80, store=store)
    wide = on_terminal("ls", "--wide", columns=80, store=store)

    assert len(narrow.lines) == len(whole) + 1  # With the note of what is left out.
    assert all(len(line) <= 80 for line in narrow.lines)
    assert narrow.lines[0].startswith("note: too narrow for position")
    assert [line.rstrip() for line in whole] == wide.lines
    assert " 19000 " in wide.lines[-1]
    assert " 18.6 KiB " in narrow.lines[-1]


def test_a_wide_terminal_shows_whole_ids_and_a_narrow_one_tells_them_apart(
    store: Path,
) -> None:
    ids = [
        json.loads(line)["id"]
        for line in run(store, "segments", "orders", 1, "--json").stdout.splitlines()
    ]
    wide = on_terminal("segments", "orders", 1, columns=200, store=store)
    narrow = on_terminal("segments", "orders", 1, columns=80, store=store)

    assert first_words(wide) == ids
    assert first_words(narrow) == [one[:8] for one in ids]
    assert "\x1b[32mfinished" in narrow.raw


def test_an_audit_has_each_finding_on_one_line_of_eighty_columns(
    store: Path, tmp_path: Path
) -> None:
    (tmp_path / "tier").mkdir()
    shown = on_terminal(
        "jobs", "audit", "--tier", f"local-tiered:{tmp_path / 'tier'}", columns=80, store=store
    )

    kinds = first_words(shown)
    assert kinds[0] == "missing_object"
    assert kinds[kinds.index("cluster") - 1] == "missing_object"
    assert "nothing is there" in shown.raw


@pytest.mark.parametrize(
    "job",
    [
        ("coverage",),
        ("costs", "--prices", PRICES),
        ("stuck",),
        ("retention", "--what-if", "retention.ms=1d", "--prices", PRICES),
    ],
)
def test_a_job_has_each_row_on_one_line_of_eighty_columns_however_long_the_topic(
    store: Path, job: tuple[str, ...]
) -> None:
    async def long(backend: SqliteBackend) -> None:
        name = f"a-topic-{'with-a-long-name-' * 5}end"
        tip = TopicIdPartition(Uuid(bytes([11]) * 16), 0, name)
        partition = await StoredPartition.led(backend, tip)
        await partition.append([*finished(3), *finished(0), added(9, 90, 99)])

    write(store, long)
    rows = len(json.loads(run(store, "jobs", *job, "--json").stdout)["worst"])
    shown = on_terminal("jobs", *job, columns=80, store=store)
    wide = on_terminal("jobs", *job, "--wide", columns=80, store=store)

    words = first_words(shown)
    assert rows
    assert words[rows] in {"now", "partitions", "cluster"}
    assert any(one.startswith("a-topic") and "…" in one for one in words[:rows])
    assert all(len(line) <= 80 for line in shown.lines[-len(words) :])
    assert "too narrow" not in wide.raw


def test_a_very_long_table_is_set_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell("whole", "shown", "brief")
    rows = [("a\nb", one, cell) for one in range(STYLED_ROWS_MAX + 1)]
    print_table(PrintedTable(("name", "count", "cell"), rows))

    text = capsys.readouterr().out.splitlines()
    assert len(text) == STYLED_ROWS_MAX + 2
    assert text[1] == "a\\nb  0      whole"


def test_a_terminal_that_says_it_has_no_width_is_measured(store: Path) -> None:
    usual = on_terminal("ls", columns=80, store=store)

    assert on_terminal("ls", columns=80, store=store, COLUMNS="0") == usual
    assert len(usual.lines) > 2
