"""`tierledger status --watch`: repeated looks, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.status.look import (
    page_with_service,
    page_without_service,
    print_look,
    take_look,
)
from tierledger.cli.commands.status.view import rendered
from tierledger.cli.output import print_error
from tierledger.cli.table import terminal_console
from tierledger.events.errors import RemoteStorageError
from tierledger.events.typed_fields import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierledger.cli.commands.status.look import ClusterView, StatusOptions

    Show = Callable[[ClusterView], None]


def watch_status(options: StatusOptions, interval_s: float) -> None:
    """Look every `interval_s` seconds; returns when SIGINT or SIGTERM ends it.

    On a terminal each look replaces the one before. Elsewhere, and as JSON, they follow each
    other: one object per line, or one block with an empty line behind it.

    Raises:
        RemoteStorageError: The first look failed; later failures are shown, and looks go on.
    """
    with suppress(KeyboardInterrupt):
        asyncio.run(_watch(options, interval_s))


async def _watch(options: StatusOptions, interval_s: float) -> None:
    stopped = asyncio.Event()
    look = await take_look(options)
    with _display(options) as show:
        show(look)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), interval_s)
            if stopped.is_set():
                return
            try:
                look = await take_look(options)
            except RemoteStorageError as error:
                print_error(error)
            else:
                show(look)


@contextmanager
def _display(options: StatusOptions) -> Iterator[Show]:
    if options.json or not sys.stdout.isatty():
        yield lambda look: _print_block(options, look)
        return
    from rich.live import Live

    with Live(console=terminal_console(), auto_refresh=False, vertical_overflow="crop") as live:

        def show(look: ClusterView) -> None:
            is_served = look.service is not None
            page = page_with_service(options, look) if is_served else page_without_service(look)
            footer = f"{time_text(WallClock().now_ms())}, Ctrl-C ends this"
            live.update(
                rendered(page, footer, live.console.width, wide=options.wide), refresh=True
            )

        yield show


def _print_block(options: StatusOptions, look: ClusterView) -> None:
    print_look(options, look)
    if not options.json:
        print(time_text(WallClock().now_ms()), end="\n\n")
    sys.stdout.flush()
