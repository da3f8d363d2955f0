"""Tables as commands print them: whole in a pipe, and as wide as the terminal on one.

On a terminal, values are written for people: 1.4 GiB, not 1503238553. If the table is too wide,
long values become brief, then the columns that matter least are left out, first those without
a value; the others are named. At last the names in the first column are cut. So one row stays
one line. `--wide` prints what a pipe gets.
"""

from __future__ import annotations

import sys
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.output import escaped, print_note, print_pairs
from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import WORDS, Look
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from enum import Enum

    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

WideOption = Annotated[
    bool,
    typer.Option(
        "--wide", help="Print all columns with whole values, however wide the terminal is."
    ),
]

PLAIN_WIDTH = 10_000
"""The width of a table in columns outside a terminal, so that pipes get full values."""

STYLED_ROWS_MAX = 2000
"""Rows up to which rich formats a table; it takes 0.2 ms for each, before it shows any."""

GAP = 2
"""Columns of the terminal between two columns of a table."""

BRIEF_ID = 8
"""Characters of an id where there is no room for all; as many tell two of 10 billion apart."""

NAME_MIN = 12
"""The fewest characters to which the first column is cut, if the row is one line then."""

HUNDREDTH = Decimal("0.01")

STYLES = {
    Look.GOOD: "green",
    Look.KEPT: "green",
    Look.OPEN: "cyan",
    Look.LEAVING: "magenta",
    Look.WARN: "yellow",
    Look.BAD: "bold red",
    Look.IDLE: "dim",
}
"""How a terminal shows the look of a word."""


class Cell(NamedTuple):
    """A value in three lengths."""

    whole: str
    """For programs, and for `--wide`."""
    shown: str
    """For people."""
    brief: str
    """For people, if the terminal is too narrow for what is shown."""
    style: str = ""
    is_number: bool = False


class PrintedTable(NamedTuple):
    """A table's columns and rows; a row has any values, or cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    spare: Sequence[str] = ()
    """Columns to leave out where the terminal is too narrow, the first one first."""

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, object]], spare: Sequence[str] = ()
    ) -> PrintedTable:
        """The table of rows whose values have names, all the same: those of its columns."""
        columns = list(rows[0]) if rows else []
        return cls(columns, [list(row.values()) for row in rows], spare)


def id_cell(value: object) -> Cell:
    """An id; brief, only as much of it as tells it from others."""
    text = str(value)
    return Cell(text, text, text[:BRIEF_ID])


def size_cell(size: int) -> Cell:
    """A number of bytes; people see a unit."""
    text = size_text(size)
    return Cell(str(size), text, text, is_number=True)


def money_text(value: Decimal) -> str:
    """The exact sum, with two decimals at least: 12.50, 0.000023."""
    text = f"{value:f}"
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def money_cell(value: Decimal) -> Cell:
    """A sum; people see it to the hundredth."""
    hundredths = value.quantize(HUNDREDTH, ROUND_HALF_EVEN)
    shown = f"{hundredths:,}"
    if value and not hundredths:
        shown = "<0.01" if value > 0 else ">-0.01"
    return Cell(money_text(value), shown, shown, is_number=True)


def state_cell(state: Enum | str, brief: str | None = None) -> Cell:
    """A state or verdict in the colour that its word has; brief, in a word."""
    name = str(state) if isinstance(state, str) else state.name
    return Cell(name, name, brief or name, STYLES[WORDS[name].look])


def time_cell(time_ms: int | None) -> Cell | None:
    """A time in UTC, for people to the second; brief, to the minute."""
    if time_ms is None:
        return None
    whole = time_text(time_ms)
    if not whole.endswith("Z"):
        return Cell(whole, whole, whole)
    text = whole.replace("T", " ")
    return Cell(whole, text[: len("2026-11-28 00:00:00")], text[: len("2026-11-28 00:00")])


def print_table(table: PrintedTable, *, wide: bool = False) -> None:
    """Print a table, numbers to the right; very long tables are printed without rich."""
    is_whole = wide or not sys.stdout.isatty()
    if len(table.rows) > STYLED_ROWS_MAX:
        _print_plain(table, None if is_whole else _terminal_width())
        return
    if is_whole:
        from rich.console import Console

        Console(width=PLAIN_WIDTH).print(_styled(_Fitted.whole(table)))
    else:
        console = terminal_console()
        console.print(styled_table(table, console.width, print_note))


def styled_table(
    table: PrintedTable, width: int, tell: Callable[[str], None] = lambda _: None
) -> RichTable:
    """A table for rich that is no wider; `tell` gets a note of what it leaves out."""
    fitted = _Fitted.to_width(table, width)
    fitted.tell(tell)
    return _styled(fitted)


def whole_text(table: PrintedTable) -> Text:
    """The table with all columns and whole values, for a live display, which folds it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=PLAIN_WIDTH, force_terminal=True)
    with console.capture() as captured:
        console.print(_styled(_Fitted.whole(table)))
    return Text.from_ansi(captured.get(), overflow="fold")


def print_facts(facts: Mapping[str, object]) -> None:
    """Print a result's numbers, one per line; on a terminal, those of bytes have a unit."""
    is_whole = not sys.stdout.isatty()
    shown: list[tuple[str, object]] = []
    for name, value in facts.items():
        # The name of a state, or of one of Kafka's settings, stays as it is.
        spoken = name if name.isupper() else name.replace("_", " ")
        if isinstance(value, int) and "bytes" in name and not is_whole:
            shown.append((spoken, size_text(value)))
        else:
            shown.append((spoken, value))
    print_pairs(shown)


class _Fitted(NamedTuple):
    """A table whose cells have got their texts."""

    columns: list[str]
    cells: list[list[Cell]]
    """By column."""
    texts: list[list[str]]
    left_out: list[str]

    @classmethod
    def whole(cls, table: PrintedTable) -> _Fitted:
        cells = _cells_by_column(table)
        texts = [[escaped(one.whole) for one in column] for column in cells]
        return cls(list(table.columns), cells, texts, [])

    @classmethod
    def to_width(cls, table: PrintedTable, width: int) -> _Fitted:
        cells = _cells_by_column(table)
        columns = list(table.columns)
        texts = [[escaped(one.shown) for one in column] for column in cells]
        if _width(columns, texts) > width:
            texts = [[escaped(one.brief) for one in column] for column in cells]
        filled = {
            name
            for name, column in zip(columns, cells, strict=True)
            if any(one.whole for one in column)
        }
        left_out = []
        for name in sorted(table.spare, key=filled.__contains__):
            if _width(columns, texts) <= width:
                break
            if name in columns:
                at = columns.index(name)
                del columns[at], cells[at], texts[at]
                if name in filled:
                    left_out.append(name)
        room = width - _width(columns[1:], texts[1:]) - GAP
        if _width(columns, texts) > width and room >= max(NAME_MIN, len(columns[0])):
            texts[0] = [_cut(one, room) for one in texts[0]]
        return cls(columns, cells, texts, left_out)

    def tell(self, tell: Callable[[str], None]) -> None:
        if self.left_out:
            tell(f"too narrow for {', '.join(self.left_out)}; --wide shows all")


def _cells_by_column(table: PrintedTable) -> list[list[Cell]]:
    return [[_cell(row[at]) for row in table.rows] for at in range(len(table.columns))]


def _cell(value: object) -> Cell:
    if isinstance(value, Cell):
        return value
    text = "" if value is None else str(value)
    return Cell(text, text, text, is_number=isinstance(value, int))


def _cut(text: str, length: int) -> str:
    """At most `length` characters: both ends, as a partition's number is at one of them."""
    if len(text) <= length:
        return text
    start = length // 2
    return f"{text[:start]}…{text[start + 1 - length :]}"


def _width(columns: list[str], texts: list[list[str]]) -> int:
    widest = (
        max(map(len, (name, *column))) for name, column in zip(columns, texts, strict=True)
    )
    return sum(widest) + GAP * (len(columns) - 1)


def _styled(fitted: _Fitted) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as StyledTable
    from rich.text import Text

    styled = StyledTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name, column in zip(fitted.columns, fitted.cells, strict=True):
        numbers = {one.is_number for one in column if one.whole} == {True}
        styled.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for at in range(len(fitted.cells[0]) if fitted.cells else 0):
        styled.add_row(
            *(
                Text(texts[at], style=column[at].style)
                for texts, column in zip(fitted.texts, fitted.cells, strict=True)
            )
        )
    return styled


def terminal_console() -> Console:
    """Standard output; a COLUMNS of 0, as some terminals set it, says nothing of its width."""
    from rich.console import Console

    console = Console()
    if not console.width:
        console.width = _terminal_width()
    return console


def _terminal_width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _print_plain(table: PrintedTable, width: int | None) -> None:
    fitted = _Fitted.whole(table) if width is None else _Fitted.to_width(table, width)
    fitted.tell(print_note)
    rows = [fitted.columns, *zip(*fitted.texts, strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            (" " * GAP)
            .join(f"{one:<{width}}" for one, width in zip(row, widths, strict=True))
            .rstrip()
        )
