"""The tables in SQL, by DuckDB in this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

import duckdb

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.folding.task import Report
from tierledger.pipeline.reading import EVENTS, ReadableTable, StoredTables, whole
from tierledger.pipeline.table_columns import Table
from tierledger.pipeline.tables.arrow import RecordBatch, schema_of

MEMORY = "1GiB"
"""How much memory DuckDB takes before it spills into a temporary folder."""

ROWS_AT_A_TIME = 100_000
"""Rows that are gathered before DuckDB gets them."""

STOP_AGAIN_S = 0.1
"""How often a query that is to end is stopped."""

T = TypeVar("T")

ArrowTable: TypeAlias = Any
"""`pyarrow.Table`, which is not annotated."""

Counted: TypeAlias = "Callable[[str, Iterator[RecordBatch]], Iterable[RecordBatch]]"
"""Passes on the batches of a table, by its name, while that is read."""


class RowsToFetch:
    """The rows of a statement, to be fetched before the next one runs.

    `InvalidArgument`: what a row has cannot be computed, or does not fit into memory.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> None:
        self._connection = connection
        self._tables = tables

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [str(one[0]) for one in self._connection.description or ()]

    def fetchmany(self, limit: int) -> list[tuple[Any, ...]]:
        """The next rows, at most `limit`; none: there are no more."""
        with _named(self._tables):
            return _done(self._connection, lambda: self._connection.fetchmany(limit))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All further rows."""
        with _named(self._tables):
            return _done(self._connection, self._connection.fetchall)


def _done(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """What `work` returns, which DuckDB does; Ctrl-C stops it.

    In a thread of its own: where DuckDB does not look for signals, only a thread that waits in
    Python is interrupted.
    """
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(work)
        try:
            return doing.result()
        except KeyboardInterrupt:
            end(doing, [connection.interrupt])
            raise


def end(doing: Future[Any], stops: Sequence[Callable[[], None]]) -> None:
    """Call `stops` until the work has ended: DuckDB forgets a stop before a query begins."""
    while not doing.done():
        for stop in stops:
            stop()
        wait([doing], timeout=STOP_AGAIN_S)


class Sql:
    """The tables of a store; each is read when a text first names it."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, stored: StoredTables, report: Report | None
    ) -> None:
        """Made by `sql_over`."""
        self._connection = connection
        self._stored = stored
        self._report = report
        self._unread = set(stored.names)
        for table in stored.folded.values():
            self._declare(table)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables' names."""
        return self._stored.names

    def stop(self) -> None:
        """End the statement that another thread runs."""
        self._connection.interrupt()

    def _declare(self, table: Table) -> None:
        """Make the empty table, so that its columns can be asked for before it is read."""
        self._connection.from_arrow(schema_of(table).empty_table()).create(table.name)
        for one in (*table.identity, *table.columns):
            about = one.about.replace("'", "''")
            self._connection.execute(f"COMMENT ON COLUMN {table.name}.{one.name} IS '{about}'")

    def run(
        self, text: str, counted: Counted = lambda _, batches: batches
    ) -> Iterator[RowsToFetch]:
        """Run the statements of `text`; yield the rows of each that has some.

        Raises:
            InvalidArgument: There is no statement, or DuckDB refuses the text; in its words.
            And what `StoredTables.table` raises.
        """
        with _named(self.names):
            for statement in self._statements(text, counted):
                _done(self._connection, partial(self._connection.execute, statement))
                if _has_rows(statement):
                    yield RowsToFetch(self._connection, self.names)

    def arrow(
        self, text: str, counted: Counted = lambda _, batches: batches
    ) -> Iterator[ArrowTable]:
        """The rows of each statement of `text` that has some; raises as `run`."""
        with _named(self.names):
            for statement in self._statements(text, counted):
                if _has_rows(statement):
                    asked = self._connection.sql(statement)
                    yield _done(self._connection, asked.to_arrow_table)
                else:
                    _done(self._connection, partial(self._connection.execute, statement))

    def _statements(self, text: str, counted: Counted) -> list[duckdb.Statement]:
        statements = self._connection.extract_statements(text)
        if not statements:
            raise InvalidArgument(
                "expected a statement, like: from segments; the tables are "
                f"{', '.join(self.names)}"
            )
        for one in statements:
            if one.type == duckdb.StatementType.TRANSACTION:
                # With it a table that was read meanwhile would be empty again.
                raise InvalidArgument(
                    f"expected no transactions, since the store is only read; got {one.query!r}"
                )
        unread = sorted(name for name in self._unread if _may_name(text, name))
        selects = [one.type for one in statements] == [duckdb.StatementType.SELECT]
        # A mistake is found in tables that are empty yet, before a store is read for it. But
        # `events` has no columns before it is read.
        if unread and selects and EVENTS not in unread:
            explain = f"explain {statements[0].query}"
            _done(self._connection, partial(self._connection.execute, explain))
        for name in unread:
            self._read(name, counted)
        return statements

    def _read(self, name: str, counted: Counted) -> None:
        """Fill the table; if that fails or is stopped, it is empty, and is read again later."""
        schema, batches = self._stored.table(name, self._report)
        connection = self._connection
        try:
            connection.begin()
            if name == EVENTS:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
                connection.from_arrow(schema.empty_table()).create(name)
            else:
                connection.execute(f"TRUNCATE {name}")
            # DuckDB would take the batches of a stream in threads of its own; the store is this
            # thread's.
            for some in _gathered(counted(name, batches)):
                rows = connection.from_arrow(whole(ReadableTable(schema, iter(some))))
                _done(connection, partial(rows.insert_into, name))
            self._unread.discard(name)
            connection.commit()
        except BaseException:
            self._unread.add(name)
            with suppress(duckdb.Error):  # There is none yet.
                connection.rollback()
            raise


def _may_name(text: str, name: str) -> bool:
    """Whether statements may read the table; `query` and `query_table` compute names."""
    text = text.lower()
    return name in text or re.search(r"\bquery(_table)?\s*\(", text) is not None


def _gathered(batches: Iterable[RecordBatch]) -> Iterator[list[RecordBatch]]:
    """Batches in lists of at least `ROWS_AT_A_TIME` rows, but for the last."""
    some: list[RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(one.num_rows for one in some) >= ROWS_AT_A_TIME:
            yield some
            some = []
    yield some


def _has_rows(statement: duckdb.Statement) -> bool:
    """Whether it asks; DuckDB answers to a change with a count, which nobody asked for."""
    return statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]


@contextmanager
def _named(names: Sequence[str]) -> Iterator[None]:
    """Convert DuckDB's errors into ours; `names` are the tables'."""
    try:
        yield
    except duckdb.Error as error:
        told, *more = str(error).strip().splitlines()
        # DuckDB draws the place of a mistake, too, which needs a line of its own.
        told += "".join(f" {line}" for line in more if line.startswith("Candidate bindings"))
        if isinstance(error, duckdb.CatalogException):
            told += f" The tables are {', '.join(names)}."
        raise InvalidArgument(told) from error


@contextmanager
def sql_over(
    stored: StoredTables, report: Report | None = None, *, memory: str = MEMORY
) -> Iterator[Sql]:
    """SQL over the tables of `stored`, while the block lasts.

    Damaged logs are left out and go to `report`; without one the first of them is raised.
    What does not fit into `memory` is in a temporary folder meanwhile.

    Raises:
        InvalidArgument: `memory` is no size.
    """
    with TemporaryDirectory(prefix="tierledger-sql-") as folder:
        try:
            connection = duckdb.connect(
                config={
                    "temp_directory": folder,
                    "memory_limit": memory,
                    "python_enable_replacements": False,  # Else our variables are tables.
                }
            )
        except duckdb.Error as error:
            raise InvalidArgument(
                f"expected an amount of memory like {MEMORY}, got {memory!r}"
            ) from error
        with connection:
            yield Sql(connection, stored, report)
