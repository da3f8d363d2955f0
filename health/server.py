"""Serves the metrics of the service that this process runs, over HTTP.

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
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer, _SilentHandler
from prometheus_client.registry import Collector
from typing_extensions import override

from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.events.typed_fields import shown
from tierledger.health.metrics import families
from tierledger.health.reading import AskedService, read_service
from tierledger.health.status import Reading, ServiceStatus, status_of
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

if TYPE_CHECKING:
    from prometheus_client.core import Metric

CACHED_S = 1.0
"""Seconds for which all scrapes get the same reading."""

SCRAPE_TIMEOUT_S = 9.5
"""Timeout of a scrape: 2 s for the coordinator, 7 s for hosts; Prometheus waits 10 s."""


PATH = "/metrics"
"""The path of the only page."""


class MetricsOptions(NamedTuple):
    """Where metrics are served, and what they tell."""

    host: str
    port: int
    partitions_max: int
    """The most partitions with series of their own."""
    broker: Callable[[], BrokerVersion] = lambda: NEWEST
    """The version of the brokers, by whose rules sizes are counted."""


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

    @override
    def collect(self) -> Iterator[Metric]:
        """The service's metrics; called in a thread of the server.

        Raises:
            TimeoutError: The loop did not answer in time; the scrape fails.
        """
        work = asyncio.run_coroutine_threadsafe(self._status(), self._loop)
        try:
            status = work.result(SCRAPE_TIMEOUT_S)
        except concurrent.futures.TimeoutError:
            work.cancel()
            raise
        yield from families(status, self._options.partitions_max, self._options.broker())

    async def _status(self) -> ServiceStatus:
        async with self._turn:
            if self._newest is None or self._loop.time() - self._newest[0] > CACHED_S:
                known = [] if self._newest is None else self._newest[1].hosts
                addresses = {one.name: one.address for one in known if one.address is not None}
                if self._is_closed:
                    raise NotReady("the service is being stopped")
                self._reading = asyncio.ensure_future(self._read(addresses))
                self._newest = self._loop.time(), status_of(await self._reading)
            return self._newest[1]


class ServedMetrics:
    """Serves `/metrics` on an address, from its creation until `close`.

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
        host, port = options.host, options.port
        try:
            self._server = _listening(host, port, registry)
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


def _listening(host: str, port: int, registry: CollectorRegistry) -> WSGIServer:
    """A server of the metrics at `PATH` and of nothing else.

    Raises:
        OSError: No socket can listen there.
    """
    exposed = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != PATH:
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [f"there is nothing here; the metrics are at {PATH}\n".encode()]
        found: Iterable[bytes] = exposed(environ, start)
        return found

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
