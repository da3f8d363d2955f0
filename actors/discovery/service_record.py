"""What a running service says of itself in its store, so that others find it."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, NamedTuple

from tierledger.actors.door.security.settings import DoorSecurity
from tierledger.actors.host_settings import LISTEN, ServiceSettings
from tierledger.actors.processes import Process
from tierledger.events.errors import CorruptCheckpoint, InvalidArgument, NotReady
from tierledger.events.partition.decide import Limits
from tierledger.events.typed_fields import (
    Count,
    Int64,
    Sized,
    Text,
    as_tuples,
    check_items,
    kinds_of,
)
from tierledger.storage.backend import MetadataStorageBackend, Operation, Put, Remove
from tierledger.storage.connector import URL_SETTING, setting
from tierledger.storage.locate import public_url, with_secrets_of

CONNECT_TIMEOUT_S = 1.0
"""How long a service may take to accept a connection before it counts as gone."""


HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a gRPC client says first (RFC 9113, 3.4), with no settings of its own."""

HTTP2_HEADER_BYTES = 9
HTTP2_SETTINGS = b"\x04"
"""The kind of frame with which every server answers, the fourth byte of its header."""


SETTINGS: dict[str, Any] = {
    "storage": tuple[tuple[Text, Text], ...],
    "custom_metadata_bytes_max": Count,
    "tombstone_retention_ms": Count,
    "hosts": Count,
    "partitions_per_host": Count,
    "listen": Text | None,
    "advertise": Text | None,
    "security": Annotated[
        tuple[Text | bool | None, ...],
        Sized(len(DoorSecurity._fields), len(DoorSecurity._fields)),
    ],
}
"""What a record says of settings; older ones nothing of hosts, or of where they listen."""


class HostDoor(NamedTuple):
    """Where a host listens for clients, and which process that is."""

    address: Text
    door: Text
    process: Text
    """What it calls itself: nothing else is ever called so, whatever has the port later."""


class ServiceRecord(NamedTuple):
    """Where the service runs."""

    address: Text
    """Host and port of the Ray cluster's control store."""
    pid: Count
    started_ms: Int64
    settings: Annotated[tuple[Any, ...], Sized(3, len(SETTINGS))]
    """What the service was started with: a part that is revived gets these, not
    the settings it was found with."""
    metrics: Text | None = None
    """Where its metrics are; none if it serves none."""
    node: Text | None = None
    """The Ray node on whose machine it was started: there is the store's file, if it is one."""
    cluster: Text | None = None
    """The id of the Ray cluster; another one may be found at the address later."""
    process: Text | None = None
    """Who looks after it, told from who has the pid later; older records do not tell."""
    doors: tuple[tuple[Text, Text, Text], ...] | None = None
    """Where its hosts listen, each as a `HostDoor`; the coordinator keeps it true. Older
    records do not tell."""

    @property
    def host_doors(self) -> list[HostDoor]:
        """Where its hosts listened when the record was written."""
        return [HostDoor(*one) for one in self.doors or ()]

    @property
    def speaks_tls(self) -> bool:
        """Whether its doors do."""
        _, _, _, *placement = self.settings
        return len(placement) == len(SETTINGS) - 3 and (
            DoorSecurity(*placement[-1]).pair is not None
        )

    def settings_of(self, found_with: ServiceSettings) -> ServiceSettings:
        """The settings under which this service runs.

        A password is in no record; it is that of the URL which the service was found with.
        """
        storage, custom_metadata_bytes_max, tombstone_retention_ms, *placement = self.settings
        known = setting(found_with.storage, URL_SETTING) or ""
        whole = {
            key: with_secrets_of(known, value) if key.endswith(URL_SETTING) else value
            for key, value in storage
        }
        limits = Limits(custom_metadata_bytes_max, tombstone_retention_ms)
        # Older records say nothing of hosts, of which there was one, or of where they listen.
        settings = ServiceSettings(found_with.cluster_id, whole, limits, *placement)
        security = DoorSecurity(*settings.security)
        return replace(settings, listen=settings.listen or LISTEN, security=security)

    @property
    def is_looked_after(self) -> bool:
        """Whether the process that started it still runs, where this is that machine."""
        if self.process is None:
            return Process.of(self.pid) is not None
        process = Process.parse(self.process)
        return process is not None and process.is_running()

    @property
    def is_live(self) -> bool:
        """Whether something listens there that speaks as a Ray cluster's control store does.

        That tells a program which has taken the port from Ray, not one cluster from another:
        `cluster` does.
        """
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S) as connection:
                connection.sendall(HTTP2_GREETING)
                answer = connection.recv(HTTP2_HEADER_BYTES)
        except (OSError, ValueError, OverflowError):  # Also an address that is none.
            return False
        return answer[3:4] == HTTP2_SETTINGS


def record_of(
    settings: ServiceSettings, address: str, process: Process, now_ms: int
) -> ServiceRecord:
    """The record of a service that was just started with `settings`; no password is in it."""
    storage = tuple(
        (key, public_url(value) if key.endswith(URL_SETTING) else value)
        for key, value in sorted(settings.storage.items())
    )
    limits = settings.limits
    bounds = (limits.custom_metadata_bytes_max, limits.tombstone_retention_ms)
    placed = (settings.hosts, settings.partitions_per_host)
    doors = (settings.listen, settings.advertise, tuple(settings.security))
    known = (storage, *bounds, *placed, *doors)
    return ServiceRecord(address, process.pid, now_ms, known, process=str(process))


_REQUIRED = [
    name for name in ServiceRecord._fields if name not in ServiceRecord._field_defaults
]


async def read_record(settings: ServiceSettings) -> ServiceRecord | None:
    """The record in the store; none if there is none, or no store yet.

    Raises:
        CorruptCheckpoint: What stands there is no record; the message names the field.
    """
    backend = await settings.connector().backend(read_only=True)
    try:
        record, _ = await stored_record(backend, settings)
    finally:
        await backend.close()
    return record


async def stored_record(
    backend: MetadataStorageBackend, settings: ServiceSettings
) -> tuple[ServiceRecord | None, bytes | None]:
    """The record in a store that is open, and the bytes as which it is stored."""
    stored = await backend.get(settings.connector().key_factory(settings.cluster_id).service())
    if stored is None:
        return None, None
    return parsed(as_tuples(settings.serde().deserialize("service", stored))), stored


def parsed(fields: tuple[Any, ...]) -> ServiceRecord:
    """The record of `fields`, as many as there were when it was written."""
    least, known = len(_REQUIRED), kinds_of(ServiceRecord)
    count = min(max(len(fields), least), len(known))
    try:
        check_items(dict(islice(known.items(), count)), fields)
        record = ServiceRecord(*fields)
        check_items(dict(islice(SETTINGS.items(), len(record.settings))), record.settings)
    except InvalidArgument as error:
        raise CorruptCheckpoint(f"the service's record: {error}") from error
    return record


async def live_record(settings: ServiceSettings) -> ServiceRecord:
    """The record of the service that runs on the store.

    Raises:
        NotReady: None runs; the message says how to start one.
    """
    record = await read_record(settings)
    if record is None or not await asyncio.to_thread(lambda: record.is_live):
        raise NotReady(
            f"no service runs for cluster {settings.cluster_id!r} on this store; "
            "start one with: tierledger serve"
        )
    return record


def record_change(settings: ServiceSettings, record: ServiceRecord | None) -> Operation:
    """The step that publishes `record`, or removes what is there."""
    key = settings.connector().key_factory(settings.cluster_id).service()
    if record is None:
        return Remove(key)
    return Put(key, settings.serde().serialize("service", list(record)))
