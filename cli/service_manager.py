"""Tells a service manager how a service is: ready, alive, ending; as sd_notify(3) says.

Without `NOTIFY_SOCKET` nobody is told. The socket's name is inherited by each process that is
started, so units accept only what the main process tells (`NotifyAccess=main`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tierledger.cli.output import note_line
from tierledger.cli.settings import notify_socket, watchdog_us


@asynccontextmanager
async def told_of(status: str) -> AsyncIterator[None]:
    """Tell that the service is ready as the block begins, and that it ends as the block ends.

    If the manager watches (`WATCHDOG_USEC`), it hears twice in that time that this event loop
    runs. A manager that does not listen is noted in the log, and changes nothing else.
    """
    _tell(f"READY=1\nSTATUS={status}")
    watched = asyncio.create_task(_be_watched())
    try:
        yield
    finally:
        watched.cancel()
        _tell("STOPPING=1")


async def _be_watched() -> None:
    if (within_us := watchdog_us()) is not None:
        while True:
            _tell("WATCHDOG=1")
            await asyncio.sleep(within_us / 2 / 1_000_000)


def _tell(state: str) -> None:
    name = notify_socket()
    if name is None:
        return
    address = "\0" + name[1:] if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(state.encode(), address)
    except OSError as error:
        from tierledger.storage.process_log import LOG

        LOG.put(note_line(f"NOTIFY_SOCKET {name} cannot be told {state!r}: {error}"))
