"""`columns`: the events of a store as columns in files, which are not decoded again."""

from __future__ import annotations

import asyncio
import sys
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.jobs.job import Job
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.options import (
    ClusterOption,
    ColumnsOption,
    JsonOption,
    StoreOption,
    duration_ms,
)
from tierledger.cli.output import escaped, print_json, print_note, print_result
from tierledger.cli.table import PrintedTable, WideOption, print_table, size_cell
from tierledger.pages.texts import size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.pipeline.column_files.place import ColumnPlace
    from tierledger.pipeline.column_following import ColumnsLook
    from tierledger.pipeline.column_writer import WrittenColumns
    from tierledger.pipeline.source.options import SourceOptions


def columns_group() -> typer.Typer:
    return group_of(
        "Keep the events of all logs as columns in Parquet files: tables are then read from "
        "there, and only newer events from the logs. No service is needed.",
        {"write": write_columns, "ls": list_columns, "drop": drop_columns},
    )


def write_columns(
    columns: ColumnsOption = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on until Ctrl-C: write what is new every so often."),
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="With --follow: how often, like 30s or 10m.")
    ] = "1m",
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Write what the files lack, up to the present ends of the logs; remove what no log has.

    A service may be running: the store is only read. Exit 3: logs that are damaged are left
    out, and named. With --follow, what fails is noted, and tried again the next time.
    """
    every_ms = duration_ms(every, "--every")
    options, place = _opened(store, cluster, columns)
    if follow:
        from tierledger.pipeline.column_following import follow_columns

        told = _Followed(place, every, json)
        follow_columns(options, place, every_ms / 1000, told, Event().wait)
    from tierledger.pipeline.column_writer import write_columns as write

    done = write(options, place)
    _print_done(done, place, json=json)
    _note_damaged(done.damaged)
    if done.damaged:
        raise typer.Exit(ExitStatus.PARTLY)


def _print_done(done: WrittenColumns, place: ColumnPlace, *, json: bool) -> None:
    if json:
        named = [
            {"topic_id": str(tip.topic_id), "partition": tip.partition} for tip in done.damaged
        ]
        print_json({"columns": str(place), **done._asdict(), "damaged": named})
        return
    size = f" ({size_text(done.bytes)})" if done.files else ""
    print(
        escaped(
            f"{done.rows} new rows; {done.files} files written{size}, {done.removed} removed, "
            f"in {place}"
        )
    )


def _note_damaged(damaged: Iterable[TopicIdPartition]) -> None:
    for tip in damaged:
        print_note(f"damaged: {tip} is left out; tierledger verify tells more")


class _Followed:
    """Tells of looks at the logs: of what was written, and of each trouble once."""

    def __init__(self, place: ColumnPlace, every: str, json: bool) -> None:
        self._place = place
        self._every = every
        self._json = json
        self._failed = 0
        self._damaged: set[TopicIdPartition] = set()

    def __call__(self, look: ColumnsLook) -> None:
        if look.done is None:
            if self._json:
                print_json(
                    {
                        "columns": str(self._place),
                        "failed": look.failed,
                        "error": str(look.error),
                    }
                )
            elif look.failed == 1:
                print_note(
                    f"column files in {self._place} are not written: {look.error}; reads take "
                    f"the logs, and it is tried again every {self._every}"
                )
        else:
            if self._failed and not self._json:
                print_note(f"column files in {self._place} are written again")
            if look.done.files or look.done.removed:
                _print_done(look.done, self._place, json=self._json)
            _note_damaged(set(look.done.damaged) - self._damaged)
            self._damaged = set(look.done.damaged)
        self._failed = look.failed
        sys.stdout.flush()


def list_columns(
    columns: ColumnsOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """List the files: their rows, and how many of them are of use.

    Rows are of use if their log has the same hash where they end, and no other file has them.
    How far the files are behind the logs is said below; `doctor --columns` warns of it.
    """
    from tierledger.pipeline.column_writer import listed

    options, place = _opened(store, cluster, columns)
    found = asyncio.run(listed(options, place))
    if json:
        for file in found.files:
            print_json(file._asdict())
    elif found.files:
        rows = [
            {
                "file": file.file,
                "rows": file.rows,
                "used": file.used,
                "logs": file.logs,
                "bytes": size_cell(file.bytes),
            }
            for file in found.files
        ]
        print_table(PrintedTable.of(rows, ("logs", "bytes")), wide=wide)
        used = sum(file.used for file in found.files)
        since = ""
        if found.behind_since_ms is not None:
            age_ms = WallClock().now_ms() - found.behind_since_ms
            since = f", the first of them for {span_text(max(age_ms, 0))}"
        print_note(
            f"{used} events are columns in {place}, {found.behind} only in the logs{since}"
        )
    else:
        print_note(f"no column files in {place}")
    found.held.tell(print_note)


def drop_columns(
    columns: ColumnsOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the files of the cluster, and those of no use; the logs have everything."""
    from tierledger.pipeline.column_writer import dropped

    options, place = _opened(store, cluster, columns)
    count = asyncio.run(dropped(options, place))
    if json:
        print_json({"columns": str(place), "removed": count})
    else:
        print_result(f"{count} files removed from {place}")


def _opened(
    store: str | None, cluster: str | None, columns: str | None
) -> tuple[SourceOptions, ColumnPlace]:
    from tierledger.pipeline.column_files.locate import place_to_write
    from tierledger.pipeline.source.options import SourceOptions

    of = Job(name="columns", store=store, cluster=cluster, columns=columns).job_store()
    return SourceOptions(of.config, of.cluster), place_to_write(of.config)
