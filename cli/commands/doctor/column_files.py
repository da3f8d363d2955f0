"""The check of column files: how far they are behind the logs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import COLUMNS
from tierledger.cli.commands.doctor.seen import CheckSeen
from tierledger.cli.settings import cluster_setting, columns_config
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.cli.commands.doctor.given import Given

LAG_WARNED_MS = 3_600_000
"""Milliseconds; `columns write --follow` looks every minute, if nothing else is asked for."""


async def _column_files(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.pipeline.column_files.locate import place_to_write
    from tierledger.pipeline.column_writer import listed
    from tierledger.pipeline.source.options import SourceOptions

    config = columns_config(given.options.store, given.columns)
    options = SourceOptions(config, cluster_setting(given.options.cluster))
    place = place_to_write(config)
    # In a thread with a loop of its own: files are read without one.
    looking = listed(options, place, whole=False)
    found = await asyncio.to_thread(asyncio.run, looking)
    now_ms = WallClock().now_ms()
    lag_ms = 0 if found.behind_since_ms is None else max(now_ms - found.behind_since_ms, 0)
    yield of_column_files(str(place), found.behind, lag_ms, len(found.held.unusable))


def of_column_files(place: str, behind: int, lag_ms: int, unusable: int) -> CheckSeen:
    """How it stands with files that lack `behind` events, of which the first is so old."""
    if unusable:
        text = f"{unusable} files cannot be used, and are read from the logs"
        return CheckSeen.warning(place, text, "run `tierledger columns write`")
    if not behind:
        return CheckSeen.well(place, "the files have all events")
    text = f"{behind} events are only in the logs, the first for {span_text(lag_ms)}"
    if lag_ms > LAG_WARNED_MS:
        return CheckSeen.warning(
            place, text, "see why `tierledger columns write --follow` does not write"
        )
    return CheckSeen.well(place, text)


CHECKS_OF_COLUMN_FILES = (
    Check(
        "columns",
        "column files can be used, and lack no event that is older than an hour",
        _column_files,
        "run `tierledger columns write`",
        COLUMNS,
    ),
)
