"""Reads the status of a running service, with short timeouts and without announcements."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from tierledger.actors.calls import LEADER, CountsCall, PartitionKey, PartitionsCall
from tierledger.actors.connection import CoordinatorHandle, ReportingHost
from tierledger.actors.coordinator.requests import RouteCall, StatusCall
from tierledger.actors.foreign_errors import documenting
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import Uuid
from tierledger.health.status import HostReading, Reading

SILENT_AFTER_S = 2.0
"""Timeout of a host or the coordinator, which is shown as silent if it takes longer."""

PARTITIONS_TIMEOUT_S = 5.0
"""Timeout of a host's list of partitions, after its counts have come."""


class AskedService(Protocol):
    """The parts of a connection; see `ServiceConnection`."""

    @property
    def coordinator(self) -> CoordinatorHandle: ...

    def host(self, name: str) -> ReportingHost: ...


async def read_service(
    connection: AskedService, known_hosts: Mapping[str, str] | None = None
) -> Reading:
    """The answers of the coordinator, and then of all hosts, which are asked concurrently.

    A host or coordinator that does not answer in time, or fails, is noted as silent; nothing is
    raised for it, and the other answers are kept. `known_hosts`, name to address, are asked if
    the coordinator is silent.
    """
    coordinator = await read_coordinator(connection)
    addresses = dict(known_hosts or {})
    if coordinator is not None:
        addresses = {name: coordinator["addresses"][name] for name in coordinator["hosts"]}
    read = await asyncio.gather(*(_read_host(connection, one) for one in addresses.values()))
    hosts = dict(zip(addresses, read, strict=True))
    for name in () if coordinator is None else coordinator["starting"]:
        hosts[name] = HostReading(silence="gone; another process is being started")
    names = {address: name for name, address in addresses.items()}
    placed = await _leader_hosts(connection, _leaderless(hosts), names)
    return Reading(coordinator, hosts, placed)


async def read_coordinator(connection: AskedService) -> dict[str, Any] | None:
    """The coordinator's status; None if it does not answer in time, or fails."""
    with contextlib.suppress(TimeoutError, RemoteStorageError):
        async with asyncio.timeout(SILENT_AFTER_S):
            with documenting("the coordinator"):
                return await connection.coordinator.ask(StatusCall())
    return None


async def _read_host(connection: AskedService, address: str) -> HostReading:
    try:
        async with asyncio.timeout(SILENT_AFTER_S):
            with documenting(address):
                host = connection.host(address)
                counts = await host.ask(CountsCall())
    except TimeoutError:
        return HostReading(address, silence=f"no answer within {SILENT_AFTER_S:g} s")
    except RemoteStorageError as error:
        return HostReading(address, silence=str(error))
    try:
        async with asyncio.timeout(PARTITIONS_TIMEOUT_S):
            with documenting(address):
                return HostReading(address, counts, await host.ask(PartitionsCall()))
    except TimeoutError:
        silence = f"no list of its partitions within {PARTITIONS_TIMEOUT_S:g} s"
    except RemoteStorageError as error:
        silence = str(error)
    return HostReading(address, counts, silence=silence)


def _leaderless(hosts: Mapping[str, HostReading]) -> list[PartitionKey]:
    """Partitions with a follower on a host that answered, but without a leader on any."""
    led: dict[PartitionKey, bool] = {}
    for host in hosts.values():
        for one in host.partitions:
            key = PartitionKey(bytes(Uuid.parse(one["topic_id"])), one["partition"])
            led[key] = led.get(key, False) or one["role"] == LEADER
    return [key for key, is_led in led.items() if not is_led]


async def _leader_hosts(
    connection: AskedService, keys: list[PartitionKey], names: Mapping[str, str]
) -> dict[tuple[str, int], str | None]:
    if not keys:
        return {}
    try:
        async with asyncio.timeout(SILENT_AFTER_S):
            with documenting("the coordinator"):
                routes = await connection.coordinator.ask(RouteCall(keys))
    except (TimeoutError, RemoteStorageError):
        return {}
    return {
        (str(Uuid(key.topic_id)), key.partition): names.get(
            route.leader_host or "", route.leader_host
        )
        for key, route in zip(keys, routes, strict=True)
        if route.leader is not None
    }
