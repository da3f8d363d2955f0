"""Keeps column files up to date beside a service: written again and again, until it is ended.

Rule: the service knows nothing of it. It reads the store as any command does, so whatever fails
here leaves the ledger as it is, and the next look makes up for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from tierledger.events.errors import RemoteStorageError
from tierledger.pipeline.column_files.place import ColumnPlace
from tierledger.pipeline.column_writer import WrittenColumns, write_columns
from tierledger.pipeline.source.options import SourceOptions

NICENESS = 10
"""Hosts come first."""


class ColumnsLook(NamedTuple):
    """One look at the logs: what was written, or why nothing could be."""

    done: WrittenColumns | None
    error: Exception | None
    failed: int
    """Looks in a row that have failed."""


def follow_columns(
    options: SourceOptions,
    place: ColumnPlace,
    every_s: float,
    tell: Callable[[ColumnsLook], None],
    wait: Callable[[float], object],
) -> NoReturn:
    """Write what is new, every so many seconds; `tell` takes each look. It does not return.

    The first look, and each after one that failed, also reads all bytes of all files, and makes
    damaged ones anew.

    Raises:
        RemoteStorageError, OSError: The first look fails, as `write_columns` does: what was
            asked for cannot be done. A later failure is told, and tried again.
    """
    with suppress(OSError):
        os.nice(NICENESS)
    tell(ColumnsLook(write_columns(options, place), None, 0))
    failed = 0
    while True:
        wait(every_s)
        try:
            look = ColumnsLook(write_columns(options, place, whole=failed > 0), None, 0)
        except (RemoteStorageError, OSError) as error:
            look = ColumnsLook(None, error, failed + 1)
        failed = look.failed
        tell(look)
