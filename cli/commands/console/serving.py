"""Serves the console on an address, in a thread and event loop of its own."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import uvicorn

from tierledger.actors.door.security.renewed import Renewed
from tierledger.actors.door.security.settings import WILDCARDS
from tierledger.actors.door.security.tls import Pair
from tierledger.actors.door.security.tokens import read_list
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.console.gate import LOCAL_NAMES, ConsoleGate, Sessions
from tierledger.cli.commands.console.sight import Sight
from tierledger.cli.commands.console.site import Site
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import shown
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from pathlib import Path

    from tierledger.actors.door.security.settings import DoorSecurity
    from tierledger.cli.opened_store import StoreOptions

GRACE_S: Final = 1
"""How long open pages may hold the end up."""

CONNECTIONS_MAX: Final = 1_000
"""Connections at a time; a further one is told to come later."""

_log = ProcessLog("tierledger.console")


class ConsoleSecurity(NamedTuple):
    """How a console proves its identity, and who may see it."""

    pair: Pair
    tokens: str
    """The path of the list of tokens; somebody who asks needs one of them."""
    name: str | None = None
    """A name under which browsers find it, beside that at which it listens."""

    @classmethod
    def of(
        cls, certificate: Path | None, key: Path | None, tokens: Path | None, name: str | None
    ) -> ConsoleSecurity | None:
        """The security that options name; None: there is none.

        Raises:
            InvalidArgument: Some of what belongs together is missing.
        """
        given = certificate, key, tokens
        if certificate is None or key is None or tokens is None:
            if any(one is not None for one in (*given, name)):
                raise InvalidArgument(
                    "expected --tls-cert, --tls-key and --tokens, or none of them and no "
                    "--advertise"
                )
            return None
        return cls(Pair(str(certificate), str(key)), str(tokens), name)

    @classmethod
    def of_door(cls, door: DoorSecurity, advertise: str | None) -> ConsoleSecurity | None:
        """The certificate and tokens that a service's hosts have; None: they lack some."""
        if door.pair is None or door.tokens is None:
            return None
        name = None if advertise is None else urlsplit(f"//{advertise}").hostname
        return cls(door.pair, door.tokens, name)


class Console:
    """The console of a store and its service, from `start` until `close`."""

    def __init__(
        self,
        options: StoreOptions,
        listen: str,
        what: str,
        security: ConsoleSecurity | None = None,
    ) -> None:
        """Take the address; port 0 takes a free one. `what` names the option in errors.

        Raises:
            InvalidArgument: Others can reach `listen` and there is no `security`, a file of it
                is wrong, or the address is taken.
        """
        names = _names(listen, what, security)
        tls = tokens = None
        if security is not None:
            list_of = security.tokens
            tls = Renewed(security.pair, lambda: _context(security.pair), _complain)
            tokens = Renewed((list_of,), lambda: read_list(list_of), _complain)
        self._socket = _listening(listen, what)
        host, port = self._socket.getsockname()[:2]
        if security is not None:
            host = security.name or host
        scheme = "http" if security is None else "https"
        self.url = (
            f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"
        )
        self._sight = Sight(options)
        site = Site(self._sight, has_sessions=tokens is not None).app()
        sessions = None if tokens is None else Sessions(tokens, WallClock().now_ms)
        self._loop: asyncio.AbstractEventLoop | None = None
        config = uvicorn.Config(
            ConsoleGate(site, names, sessions, port),
            ws="none",
            limit_concurrency=CONNECTIONS_MAX,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
            server_header=False,
        )
        if tls is not None:
            config.load()
            config.ssl = _renewing(tls)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._socket])
        for left in self._server.server_state.connections:  # Those that took too long to end.
            if (transport := left.transport) is not None:
                transport.abort()
        await asyncio.sleep(0)

    def close(self) -> None:
        """End it, if it was started; returns when it has ended."""
        self._server.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # It has ended by itself.
                self._loop.call_soon_threadsafe(self._sight.close)
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()


def _names(listen: str, what: str, security: ConsoleSecurity | None) -> frozenset[str]:
    """The names that requests may have."""
    host, _ = _parsed(listen, what)
    if host in LOCAL_NAMES and security is None:
        return LOCAL_NAMES
    if security is None:
        raise InvalidArgument(
            f"{what}: {host} can be reached from other machines: expected encryption "
            "(--tls-cert and --tls-key) and proof of who asks (--tokens), or an address of "
            f"this machine alone, {', '.join(sorted(LOCAL_NAMES))}"
        )
    if host in WILDCARDS and security.name is None:
        raise InvalidArgument(
            f"{what}: expected --advertise NAME, under which browsers find the console: {host} "
            "is no name"
        )
    own = {one.lower() for one in (host, security.name) if one and one not in WILDCARDS}
    return LOCAL_NAMES | own


def is_local(listen: str, what: str) -> bool:
    """Whether only this machine can reach the address that the option `what` has.

    Raises:
        InvalidArgument: It is no address.
    """
    return _parsed(listen, what)[0] in LOCAL_NAMES


def _context(pair: Pair) -> ssl.SSLContext:
    context = pair.context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _renewing(tls: Renewed[ssl.SSLContext]) -> ssl.SSLContext:
    """A context whose connections each use the files as they are when it begins."""

    def newest(connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        connection.context = tls.current()

    # Not `tls.current()` itself: that one is in use by connections, and would call itself.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.sni_callback = newest
    return context


def _complain(reason: str) -> None:
    _log.warning("a changed file is not used", error=reason)


def _parsed(listen: str, what: str) -> tuple[str, int]:
    parts = urlsplit(f"//{listen}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise InvalidArgument(f"{what}: expected HOST:PORT, got {shown(listen)}")
    return host, port


def _listening(listen: str, what: str) -> socket.socket:
    host, port = _parsed(listen, what)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # Python tells the address once more.
        reason = str(error.strerror).partition(" (while")[0]
        if error.errno == errno.EADDRINUSE:
            reason += f"; {what} {host}:0 takes a free port"
        raise InvalidArgument(f"{what}: cannot listen at {listen}: {reason}") from error
