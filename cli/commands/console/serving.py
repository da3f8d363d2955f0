"""Serves the console on an address, in a thread and event loop of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import uvicorn

from tierledger.cli.commands.console.sight import Sight
from tierledger.cli.commands.console.site import LOCAL_NAMES, Site
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import shown

if TYPE_CHECKING:
    from tierledger.cli.opened_store import StoreOptions

GRACE_S: Final = 1
"""How long open pages may hold the end up."""


class Console:
    """The console of a store and its service, from `start` until `close`."""

    def __init__(self, options: StoreOptions, listen: str, what: str) -> None:
        """Take the address; port 0 takes a free one. `what` names the option in errors.

        Raises:
            InvalidArgument: `listen` is no address of this machine alone, or is taken.
        """
        self._socket = _listening(listen, what)
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        self._sight = Sight(options)
        self._loop: asyncio.AbstractEventLoop | None = None
        config = uvicorn.Config(
            Site(self._sight).app(),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._socket])

    def close(self) -> None:
        """End it, if it was started; returns when it has ended."""
        self._server.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # It has ended by itself.
                self._loop.call_soon_threadsafe(self._sight.close)
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()


def _listening(listen: str, what: str) -> socket.socket:
    parts = urlsplit(f"//{listen}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise InvalidArgument(f"{what}: expected HOST:PORT, got {shown(listen)}")
    if host not in LOCAL_NAMES:
        raise InvalidArgument(
            f"{what}: expected an address of this machine alone, {', '.join(LOCAL_NAMES)}, as "
            f"the console asks nobody who they are; got {host}. From elsewhere it is reached "
            "through SSH (ssh -L) or a proxy that authenticates"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise InvalidArgument(f"{what}: cannot listen at {listen}: {error.strerror}") from error
