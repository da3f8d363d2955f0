"""The record of a running service in its store, by which clients and commands find it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import NamedTuple

from tierledger.actors.coordinator.breaker import BREAKER_PERCENT, BreakerShares
from tierledger.actors.coordinator.placement import PARTITIONS_PER_HOST
from tierledger.actors.door.security.settings import DoorSecurity
from tierledger.actors.host_settings import LISTEN, ServiceSettings
from tierledger.actors.processes import Process
from tierledger.events.errors import CorruptCheckpoint, InvalidArgument, NotReady
from tierledger.events.partition.decide import Limits
from tierledger.events.typed_fields import Count, Int64, Text, made_of
from tierledger.storage.backend import MetadataStorageBackend, Operation, Put, Remove
from tierledger.storage.catalog import Catalog
from tierledger.storage.connector import URL_SETTING, setting
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.locate import public_url, with_secrets_of
from tierledger.storage.transfer.closing import closed_because

CONNECT_TIMEOUT_S = 1.0
"""How long a service may take to accept a connection before it counts as gone."""


HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of an HTTP/2 client (RFC 9113, 3.4), with no settings of its own."""

HTTP2_HEADER_BYTES = 9
HTTP2_SETTINGS = b"\x04"
"""The fourth header byte of the frame with which every HTTP/2 server answers first."""


class RecordedSettings(NamedTuple):
    """Settings in a record; older records end before `hosts`, or before `listen`."""

    storage: tuple[tuple[Text, Text], ...]
    custom_metadata_bytes_max: Count
    tombstone_retention_ms: Count
    hosts: Count = 1
    partitions_per_host: Count = PARTITIONS_PER_HOST
    listen: Text | None = None
    advertise: Text | None = None
    security: DoorSecurity = DoorSecurity()
    kafka: tuple[Text, Text | None] | None = None
    """Addresses of brokers, and the file of settings for connections to them."""
    breaker_percent: Count = BREAKER_PERCENT
    topic_breaker_percent: Count = 0
    nodes: Count = 1


class HostDoor(NamedTuple):
    """Where a host listens for clients, and which process that is."""

    address: Text
    door: Text
    process: Text
    """The process's own name, which is unique: a later process at the port has another."""


class ServiceRecord(NamedTuple):
    """Where a service runs, and with which settings."""

    address: Text
    """Host and port of the Ray cluster's control store."""
    pid: Count
    started_ms: Int64
    settings: RecordedSettings
    """The settings the service was started with. A part that is revived gets these, not the
    settings that the service was found with."""
    metrics: Text | None = None
    """Where its metrics are; None if it serves none."""
    node: Text | None = None
    """The Ray node on whose machine it was started, and where a file store is."""
    cluster: Text | None = None
    """The id of the Ray cluster; another cluster may be found at the address later."""
    process: Text | None = None
    """The process that `serve` runs in, as `Process`: pid and start. None in older records."""
    doors: tuple[tuple[Text, Text, Text], ...] | None = None
    """Where its hosts listen, each as a `HostDoor`; the coordinator keeps this up to date. None
    in older records."""

    @property
    def host_doors(self) -> list[HostDoor]:
        """Where its hosts listened when the record was written."""
        return [HostDoor(*one) for one in self.doors or ()]

    @property
    def speaks_tls(self) -> bool:
        """Whether the service's doors speak TLS."""
        return self.settings.security.pair is not None

    def settings_of(self, found_with: ServiceSettings) -> ServiceSettings:
        """The settings under which this service runs.

        No record has a password: it is taken from the URL that the service was found with.
        """
        known = setting(found_with.storage, URL_SETTING) or ""
        own = self.settings
        return ServiceSettings(
            found_with.cluster_id,
            storage={
                key: with_secrets_of(known, value) if key.endswith(URL_SETTING) else value
                for key, value in own.storage
            },
            limits=Limits(own.custom_metadata_bytes_max, own.tombstone_retention_ms),
            hosts=own.hosts,
            partitions_per_host=own.partitions_per_host,
            listen=own.listen or LISTEN,
            advertise=own.advertise,
            security=own.security,
            kafka=None if own.kafka is None else KafkaBrokers(*own.kafka),
            breaker=BreakerShares(own.breaker_percent, own.topic_breaker_percent),
            nodes=own.nodes,
        )

    @property
    def is_looked_after(self) -> bool:
        """Whether the process that started it still runs; only true on its own machine."""
        if self.process is None:
            return Process.of(self.pid) is not None
        process = Process.parse(self.process)
        return process is not None and process.is_running()

    @property
    def is_live(self) -> bool:
        """Whether something at the address speaks as a Ray cluster's control store does.

        This rules out other programs at the port, but not another Ray cluster; for that,
        compare `cluster`. It blocks for up to `CONNECT_TIMEOUT_S`.
        """
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S) as connection:
                connection.sendall(HTTP2_GREETING)
                answer = connection.recv(HTTP2_HEADER_BYTES)
        except (OSError, ValueError, OverflowError):  # Also if it is no valid address.
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
    known = RecordedSettings(
        storage,
        settings.limits.custom_metadata_bytes_max,
        settings.limits.tombstone_retention_ms,
        settings.hosts,
        settings.partitions_per_host,
        settings.listen,
        settings.advertise,
        settings.security,
        None if settings.kafka is None else (settings.kafka.addresses, settings.kafka.config),
        *settings.breaker,
        settings.nodes,
    )
    return ServiceRecord(address, process.pid, now_ms, known, process=str(process))


async def read_record(settings: ServiceSettings) -> ServiceRecord | None:
    """The record in the store; None if there is none, or no store yet.

    Raises:
        CorruptCheckpoint: The record is damaged; the message names the field.
    """
    backend = await settings.connector().backend(read_only=True)
    try:
        record, _ = await stored_record(backend, settings)
    finally:
        await backend.close()
    return record


async def why_none_runs(settings: ServiceSettings) -> str:
    """Why no service runs on a store without a record, for a sentence, and what to do."""
    backend = await settings.connector().backend(read_only=True)
    try:
        keys = settings.connector().key_factory(settings.cluster_id)
        catalog = Catalog(backend, keys, settings.serde(), settings.cluster_id)
        why = await closed_because(catalog)
    finally:
        await backend.close()
    none = f"no service runs for cluster {settings.cluster_id!r} on this store"
    return f"{none}; start one with: tierledger serve" if why is None else f"{none}: {why}"


async def stored_record(
    backend: MetadataStorageBackend, settings: ServiceSettings
) -> tuple[ServiceRecord | None, bytes | None]:
    """The record in an open store, and its stored bytes; None for both if there is none."""
    stored = await backend.get(settings.connector().key_factory(settings.cluster_id).service())
    if stored is None:
        return None, None
    return parsed(settings.serde().deserialize("service", stored)), stored


def parsed(fields: Sequence[object]) -> ServiceRecord:
    """The record of `fields`, of which older releases wrote fewer."""
    try:
        return made_of(ServiceRecord, fields)
    except InvalidArgument as error:
        raise CorruptCheckpoint(f"the service's record: {error}") from error


async def live_record(settings: ServiceSettings) -> ServiceRecord:
    """The record of the service that runs on the store.

    Raises:
        NotReady: None runs; the message says how to start one.
    """
    record = await read_record(settings)
    if record is None:
        raise NotReady(await why_none_runs(settings))
    if not await asyncio.to_thread(lambda: record.is_live):
        raise NotReady(
            f"no service runs for cluster {settings.cluster_id!r} on this store; "
            "start one with: tierledger serve"
        )
    return record


def record_change(settings: ServiceSettings, record: ServiceRecord | None) -> Operation:
    """The operation that stores `record`; None: that removes the record."""
    key = settings.connector().key_factory(settings.cluster_id).service()
    if record is None:
        return Remove(key)
    return Put(key, settings.serde().serialize("service", list(record)))
