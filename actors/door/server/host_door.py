"""The door of one host: its port, and the address that clients get."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.feed_stream import FeedStreams
from tierledger.actors.door.client.knocking import opens
from tierledger.actors.door.client.streams import Streams
from tierledger.actors.door.limits import DoorLimits
from tierledger.actors.door.security.settings import WILDCARDS, DoorSecurity
from tierledger.actors.door.server.admission import Admission
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.hinting import Hinting
from tierledger.actors.door.server.neighbours import Neighbours
from tierledger.actors.door.traces import Traces
from tierledger.actors.host.host import Host
from tierledger.events.errors import InvalidArgument, NotReady

if TYPE_CHECKING:
    from tierledger.actors.door.server.tracing import Tracing

TAKEN_S = 5.0
"""How long a host waits for its port, which its predecessor may still have for a moment."""

TAKEN_PAUSE_S = 0.1

NODE = "{node}"
"""In an address to advertise: the host's own address, as the names of pods have it."""


class DoorSettings:
    """Where the hosts of a service listen."""

    def __init__(
        self,
        listen: str,
        advertise: str | None = None,
        own_ip: Callable[[], str] | None = None,
        security: DoorSecurity | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`listen`: `HOST:PORT` of host-0; host-N takes PORT+N, and 0 is any free port.

        `advertise`: the address that clients get, if another; without a port, that of `listen`
        is used. `own_ip` gives it for a host that listens on all interfaces, and the part
        `{node}` of it, with dashes: `10-0-0-7`.

        `security`: how hosts and clients prove their identity; None: they do not. `traces`:
        where spans of calls are sent; None: there are none.

        Raises:
            InvalidArgument: An address is invalid, or clients could not connect to it.
        """
        self.security = security or DoorSecurity()
        self.traces = traces
        self._listen = DoorAddress.parse(listen)
        if advertise is None and self._listen.host in WILDCARDS:
            if own_ip is None:
                raise InvalidArgument(
                    f"expected an address to advertise: clients cannot connect to {listen}"
                )
            ip = own_ip()
            advertise = f"[{ip}]" if ":" in ip else ip
        if advertise is not None and own_ip is not None:
            advertise = of_node(advertise, own_ip)
        has_port = advertise is not None and _has_port(advertise)
        text = advertise if advertise is None or has_port else f"{advertise}:0"
        self._advertise = None if text is None else DoorAddress.parse(text)

    def listen(self, number: int) -> DoorAddress:
        """The address at which host-`number` listens."""
        return self._listen.at(number)

    def refuse_taken(self, hosts: int) -> None:
        """Make sure that the ports of `hosts` hosts are free on this machine now.

        Raises:
            InvalidArgument: A port is taken, or out of range.
        """
        for listen in map(self.listen, range(hosts)):
            family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
            try:
                socket.create_server(listen, family=family).close()
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                if error.errno == errno.EADDRINUSE:
                    reason += "; --listen names another port"
                raise InvalidArgument(f"cannot listen on {listen}: {reason}") from error

    def advertised(self, number: int, bound: DoorAddress) -> str:
        """The address that clients get of host-`number`, which listens at `bound`."""
        if self._advertise is None:
            return str(bound)
        address = self._advertise.at(number)
        return str(address if address.port else address._replace(port=bound.port))


def of_node(advertise: str, own_ip: Callable[[], str]) -> str:
    """`advertise` with this machine's address in the place of `{node}`.

    It is written as the DNS of Kubernetes writes it: 10.0.0.7 is `10-0-0-7`.
    """
    if NODE not in advertise:
        return advertise
    return advertise.replace(NODE, own_ip().replace(".", "-").replace(":", "-"))


def _has_port(text: str) -> bool:
    return not text.endswith("]") and (text.count(":") == 1 or text.startswith("["))


async def open_door(
    host: Host,
    address: str,
    settings: DoorSettings,
    coordinator: CoordinatorHandle,
    limits: DoorLimits | None = None,
) -> Gateway:
    """Open the door of `host`, the process at `address`; its pings report the door from now on.

    Raises:
        NotReady: The port is taken.
        InvalidArgument: The settings would admit more than they say, or a file is wrong.
    """
    number = int(host.name.rpartition("-")[2])
    listen, security = settings.listen(number), settings.security
    security.check(listen, host.now_ms)
    peers = Streams(greeting_of(host.cluster_id), security.as_client)
    admission = Admission(
        host.cluster_id, security, host.now_ms, partial(host.report.alarm_of_host, "door")
    )
    desk = Desk(address, host, coordinator, peers)
    feeds = FeedStreams(greeting_of(host.cluster_id), security.as_client)
    gateway = Gateway(
        desk,
        host.cluster_id,
        limits,
        admission,
        host.report.hear,
        host.report.door_times,
        _tracing(settings.traces, address, host.cluster_id),
    )
    bound = await _listening(gateway, listen)
    host.report.door = settings.advertised(number, bound)
    host.spawn(Hinting(host, desk, feeds).run())
    knocks = partial(opens, security=security.as_client)
    host.spawn(Neighbours(host, address, coordinator, knocks).run())
    return gateway


def _tracing(traces: Traces | None, address: str, cluster_id: str) -> Tracing | None:
    if traces is None:
        return None
    traces.check()
    # The packages are loaded only where somebody wants traces.
    from tierledger.actors.door.server.tracing import Tracing  # noqa: PLC0415

    return Tracing(traces, address, cluster_id)


async def _listening(gateway: Gateway, listen: DoorAddress) -> DoorAddress:
    loop = asyncio.get_running_loop()
    patience = loop.time() + TAKEN_S
    while True:
        try:
            return await gateway.start(listen)
        except NotReady:
            if loop.time() > patience:
                raise
            await asyncio.sleep(TAKEN_PAUSE_S)
