"""Serves the metrics and the health of the service that this process runs, over HTTP.

The server answers in threads of its own. The status is read on the event loop, at most once a
second for all scrapes, so that scrapes cannot load the service.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.simple_server import WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer, _SilentHandler
from prometheus_client.registry import Collector
from typing_extensions import override

from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.events.typed_fields import shown
from tierledger.health.backup_watch import BackupWatch
from tierledger.health.metrics import families
from tierledger.health.reading import AskedService, read_coordinator, read_service
from tierledger.health.status import Reading, ServiceStatus, status_of
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tierledger.storage.backup.files import BackupFiles

CACHED_S = 1.0
"""Seconds for which all scrapes get the same reading."""

SCRAPE_TIMEOUT_S = 9.5
"""Timeout of a scrape: 2 s for the coordinator, 7 s for hosts; Prometheus waits 10 s."""

LOOP_TIMEOUT_S = 5.0
"""The process counts as stuck if its event loop needs longer for nothing at all."""

PATH = "/metrics"
LIVE_PATH = "/livez"
"""Whether this process works: its event loop turns."""
READY_PATH = "/readyz"
"""Whether the service works: it has started, and its coordinator answers."""


class MetricsOptions(NamedTuple):
    """Where metrics are served, and what they tell."""

    host: str
    port: int
    partitions_max: int
    """The most partitions with series of their own."""
    broker: Callable[[], BrokerVersion] = lambda: NEWEST
    """The version of the brokers, by whose rules sizes are counted."""
    backups: BackupFiles | None = None
    """The backups whose age is told; None: it is not."""


class ServiceCollector(Collector):
    """Reads the service for scrapes; has to be created on the loop that reads."""

    def __init__(
        self,
        read: Callable[[Mapping[str, str]], Coroutine[Any, Any, Reading]],
        options: MetricsOptions,
    ) -> None:
        """`read` is called with the last known hosts, name to address."""
        self._read = read
        self._options = options
        self._backups = None if options.backups is None else BackupWatch(options.backups)
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._newest: tuple[float, ServiceStatus] | None = None
        self._reading: asyncio.Task[Reading] | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Cancel a reading and start no other; returns when it has ended."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._backups is not None:
            await self._backups.close()

    @override
    def collect(self) -> Iterator[Metric]:
        """The service's metrics; called in a thread of the server.

        Raises:
            TimeoutError: The loop did not answer in time; the scrape fails.
        """
        work = asyncio.run_coroutine_threadsafe(self._status(), self._loop)
        try:
            status, backup_s = work.result(SCRAPE_TIMEOUT_S)
        except concurrent.futures.TimeoutError:
            work.cancel()
            raise
        options = self._options
        yield from families(status, options.partitions_max, options.broker(), backup_s)

    async def _status(self) -> tuple[ServiceStatus, int | None]:
        async with self._turn:
            if self._newest is None or self._loop.time() - self._newest[0] > CACHED_S:
                known = [] if self._newest is None else self._newest[1].hosts
                addresses = {one.name: one.address for one in known if one.address is not None}
                if self._is_closed:
                    raise NotReady("the service is being stopped")
                self._reading = asyncio.ensure_future(self._read(addresses))
                self._newest = self._loop.time(), status_of(await self._reading)
            made_s = None if self._backups is None else self._backups.made_s()
            return self._newest[1], made_s


class ServedMetrics:
    """Serves `/metrics`, `/livez` and `/readyz` on an address, from its creation until `close`.

    A scrape before `connect` waits for it: the address is known, and part of the service's
    record, before the service has started.
    """

    def __init__(self, options: MetricsOptions) -> None:
        """Listen at once; port 0 stands for a free one.

        Raises:
            InvalidArgument: No socket can listen there.
        """
        self._connection: asyncio.Future[AskedService] = (
            asyncio.get_running_loop().create_future()
        )
        registry = CollectorRegistry()
        self._collector = ServiceCollector(self._read, options)
        registry.register(self._collector)
        loop = asyncio.get_running_loop()
        pages = {
            PATH: make_wsgi_app(registry),
            LIVE_PATH: _health(loop, _loop_turns),
            READY_PATH: _health(loop, self._is_ready),
        }
        host, port = options.host, options.port
        try:
            self._server = _listening(host, port, pages)
        except (OSError, UnicodeError) as error:
            raise InvalidArgument(
                f"metrics cannot be served on {shown(host)}, port {port}: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        named = f"[{host}]" if ":" in host else host
        self.address = f"http://{named}:{self._server.server_port}{PATH}"

    async def _read(self, known_hosts: Mapping[str, str]) -> Reading:
        return await read_service(await asyncio.shield(self._connection), known_hosts)

    async def _is_ready(self) -> str | None:
        if not self._connection.done():
            return "the service is being started"
        if await read_coordinator(self._connection.result()) is None:
            return "the coordinator does not answer"
        return None

    def connect(self, connection: AskedService) -> None:
        """Read this service from now on."""
        self._connection.set_result(connection)

    async def close(self) -> None:
        """Stop listening and reading; a scrape in progress fails."""
        await asyncio.to_thread(self._stop_listening)
        await self._collector.close()

    def _stop_listening(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


async def _loop_turns() -> str | None:
    """Nothing is wrong with a loop that runs this."""
    return None


def _health(
    loop: asyncio.AbstractEventLoop, look: Callable[[], Coroutine[Any, Any, str | None]]
) -> WSGIApplication:
    """A page with status 200 if `look`, on the loop, finds nothing wrong; else with 503."""

    def answer(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        looking = asyncio.run_coroutine_threadsafe(look(), loop)
        try:
            wrong = looking.result(LOOP_TIMEOUT_S)
        except concurrent.futures.TimeoutError:
            looking.cancel()
            wrong = "the event loop stands still"
        status = "200 OK" if wrong is None else "503 Service Unavailable"
        start(status, [("Content-Type", "text/plain")])
        return [f"{wrong or 'ok'}\n".encode()]

    return answer


def _listening(host: str, port: int, pages: Mapping[str, WSGIApplication]) -> WSGIServer:
    """A server of these pages, by path, and of nothing else.

    Raises:
        OSError: No socket can listen there.
    """

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        page = pages.get(environ["PATH_INFO"])
        if page is None:
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [f"there is nothing here; the metrics are at {PATH}\n".encode()]
        return page(environ, start)

    family, _, _, _, _ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

    class Server(ThreadingWSGIServer):
        address_family: int = family

    return make_server(host, port, answer, Server, _SilentHandler)


class NoMetrics:
    """Stands in for metrics that are switched off."""

    address = None

    def connect(self, connection: AskedService) -> None:
        """Do nothing."""


@asynccontextmanager
async def metrics_served(
    options: MetricsOptions | None,
) -> AsyncIterator[ServedMetrics | NoMetrics]:
    """Metrics over HTTP during the block; without `options` none. Raises as `ServedMetrics`."""
    if options is None:
        yield NoMetrics()
        return
    served = ServedMetrics(options)
    try:
        yield served
    finally:
        await served.close()
