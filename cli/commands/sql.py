"""`sql`: the tables of a store, asked in SQL."""

from __future__ import annotations

import csv
import sys
from base64 import b64encode
from contextlib import contextmanager, suppress
from datetime import date
from decimal import Decimal
from json import dumps
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tierledger.cli.commands.jobs.job import Job, report_damage
from tierledger.cli.commands.jobs.money import LabelsOption, PricesOption, stated_prices
from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import STANDARD_INPUT
from tierledger.cli.loading import loading
from tierledger.cli.options import (
    AsOfOption,
    ClusterOption,
    ColumnsOption,
    JsonOption,
    OverwriteOption,
    PartitionOption,
    StoreOption,
    parse_as_of,
    parse_point,
)
from tierledger.cli.output import counted, print_error, print_note
from tierledger.cli.table import Cell, PrintedTable, WideOption, print_table
from tierledger.cli.topics import TopicOption
from tierledger.events.as_of import NOW, AsOf
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierledger.pipeline.folding.task import DamagedLog
    from tierledger.pipeline.prices import Prices
    from tierledger.pipeline.sql import Counted, RowsToFetch, Sql

TABLE, CSV, JSON, PARQUET = FORMATS = ("table", "csv", "json", "parquet")

ROWS_AT_A_TIME = 10_000
"""Rows that are fetched and written at a time; a printed table has all of them."""

PROMPT, GOES_ON = "sql> ", "...> "


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="What to ask; several statements have semicolons between them. - is standard "
            "input. Without it: a prompt, or standard input if that is no terminal."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rows into this file.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="Form of the rows; json is one object per line. By default a table, or what "
            "the ending of --out says.",
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory to use before a temporary folder.")
    ] = "1GiB",
    since: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION|TIME",
            help="Read of events only those from a position of each log on, or from a time, in "
            "the forms of --as-of; what is older is not read. Other tables are whole.",
        ),
    ] = None,
    as_of: AsOfOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    prices: PricesOption = None,
    labels: LabelsOption = None,
    columns: ColumnsOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    overwrite: OverwriteOption = False,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Ask the tables in SQL: events, segments, trash, epochs, sizes, transitions and anomalies.

    With --prices there is one more, costs. DuckDB answers, in this process; a table is read
    from the logs when a query names it. DESCRIBE segments shows a table's columns. Exit 3: logs
    that are damaged are left out, and named.
    """
    job = Job(
        name="sql",
        store=store,
        cluster=cluster,
        columns=columns,
        as_of=parse_as_of(as_of),
        topic=topic,
        partition=partition,
    )
    form = _form(kind, out, is_json=json)
    require_place(out, overwrite=overwrite)
    damaged: list[DamagedLog] = []
    begin = NOW if since is None else parse_point(since, "--since")
    with _opened(job, memory, damaged.extend, stated_prices(prices, labels), begin) as tables:
        if query is None and sys.stdin.isatty():
            _prompt(tables, wide=wide)
        else:
            text = sys.stdin.read() if query in {None, STANDARD_INPUT} else str(query)
            _answer(tables, text, form, out, overwrite=overwrite, wide=wide)
    report_damage(damaged)
    if damaged:
        raise typer.Exit(ExitStatus.PARTLY)


def _form(given: str | None, out: Path | None, *, is_json: bool) -> str:
    if given is not None and given not in FORMATS:
        raise InvalidArgument(f"--format: expected one of {', '.join(FORMATS)}; got {given!r}")
    if is_json and given not in {None, JSON}:
        raise InvalidArgument(f"expected --json or --format {given}, got both")
    by_name = out.suffix.removeprefix(".") if out is not None else ""
    form = given or (JSON if is_json else by_name if by_name in FORMATS else TABLE)
    if form == PARQUET and out is None:
        raise InvalidArgument("--format parquet: expected --out FILE as well")
    if form == TABLE and out is not None:
        raise InvalidArgument(
            f"--out {out}: expected --format csv, json or parquet, or a file name that ends so"
        )
    return form


@contextmanager
def _opened(
    job: Job,
    memory: str,
    report: Callable[[list[DamagedLog]], None],
    prices: Prices | None,
    since: AsOf,
) -> Iterator[Sql]:
    with loading():
        from tierledger.pipeline.reading import StoredTables
        from tierledger.pipeline.sql import sql_over

    told: set[str] = set()

    def note(text: str) -> None:
        if text not in told:  # Several tables are read from the same files.
            print_note(text)
        told.add(text)

    stored = StoredTables(
        job.job_store(), job.as_of or NOW, job.topic, job.partition, note, prices, since
    )
    with sql_over(stored, report, memory=memory) as tables:
        yield tables


def _answer(
    tables: Sql, text: str, form: str, out: Path | None, *, overwrite: bool, wide: bool
) -> None:
    """Answer to a text whose rows go to standard output, or all into one file."""

    def shown(name: str, batches: Iterator[Any]) -> Iterator[Any]:
        return counted(batches, f"{name}: parts read")

    if out is None:
        has_rows = False
        for answer in tables.run(text, shown):
            has_rows = True
            _print(answer, form, wide=wide)
        if not has_rows:
            print_note("done; the store stays as it is")
        return
    answers = 0
    with complete_file(out, overwrite=overwrite) as file:
        for answers, part in _parts(tables, text, shown, form):
            if answers > 1:
                raise InvalidArgument("--out: expected one statement with rows, got several")
            file.write(part)
        if not answers:
            raise InvalidArgument("--out: expected a statement with rows, got none")


def _parts(tables: Sql, text: str, shown: Counted, form: str) -> Iterator[tuple[int, bytes]]:
    """The number of the statement with rows, from 1, and a part of the file with its rows."""
    if form == PARQUET:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        for number, table in enumerate(tables.arrow(text, shown), 1):
            buffer = pa.BufferOutputStream()
            write_table(table, buffer)
            yield number, buffer.getvalue()
        return
    for number, answer in enumerate(tables.run(text, shown), 1):
        lines = _Lines()
        for _ in _written(answer, form, lines):
            yield number, lines.taken().encode()


class _Lines:
    """Text that is written, until it is taken."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        self._parts.append(text)
        return len(text)

    def taken(self) -> str:
        text, self._parts = "".join(self._parts), []
        return text


def _print(answer: RowsToFetch, form: str, *, wide: bool) -> None:
    if form == TABLE:
        names, rows = answer.names, answer.fetchall()
        cells = [[_cell(one) for one in row] for row in rows]
        print_table(PrintedTable(names, cells, spare=names[:0:-1]), wide=wide)
        if not rows:
            print_note("no rows")
        return
    for _ in _written(answer, form, sys.stdout):
        pass


def _written(answer: RowsToFetch, form: str, file: TextIO | _Lines) -> Iterator[None]:
    """Write the rows as CSV or JSON; yield after some of them."""
    names = answer.names
    table = csv.writer(file, lineterminator="\n")
    twice = [one for one in names if names.count(one) > 1]
    if form == JSON and twice:
        raise InvalidArgument(
            f"two columns are named {twice[0]!r}, and an object of JSON has each name once: "
            f"expected another name for one of them, as in: {twice[0]} as other"
        )
    if form == CSV:
        table.writerow(names)
    while rows := answer.fetchmany(ROWS_AT_A_TIME):
        for row in rows:
            values = [_plain(one) for one in row]
            if form == CSV:
                table.writerow([_text(one) for one in values])
            else:
                file.write(dumps(dict(zip(names, values, strict=True)), ensure_ascii=False))
                file.write("\n")
        yield
    yield


def _plain(value: Any) -> Any:  # noqa: ANN401 - DuckDB's values have any type.
    """A value as JSON has it: bytes in base64, times in ISO 8601, exact decimals as text.

    So are numbers that JSON does not have.
    """
    match value:
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case date():
            return value.isoformat()
        case Decimal():
            # JSON's numbers are read as binary fractions, in which sums of money are not exact.
            is_whole = value == value.to_integral_value()
            return int(value) if is_whole else f"{value.normalize():f}"
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _text(value: Any) -> Any:  # noqa: ANN401 - As above.
    """A plain value as a field of CSV."""
    if isinstance(value, dict | list):
        return dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else value


def _cell(value: Any) -> Any:  # noqa: ANN401 - As above.
    plain = _text(_plain(value))
    is_number = isinstance(value, float | Decimal)
    return Cell(str(plain), str(plain), str(plain), is_number=True) if is_number else plain


def _prompt(tables: Sql, *, wide: bool) -> None:
    """Answer statement by statement, until the input ends."""
    with suppress(ImportError):
        import readline  # noqa: F401 - Lines can be edited, and come back.
    print_note(
        f"a statement ends with a semicolon, Ctrl-D ends; tables: {', '.join(tables.names)}"
    )
    lines: list[str] = []
    while True:
        try:
            lines.append(input(GOES_ON if lines else PROMPT))
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            lines.clear()
            continue
        if not lines[-1].rstrip().endswith(";"):
            continue
        try:
            _answer(tables, "\n".join(lines), TABLE, None, overwrite=False, wide=wide)
        except InvalidArgument as error:
            print_error(error)
        except KeyboardInterrupt:
            print_note("stopped")
        lines.clear()
