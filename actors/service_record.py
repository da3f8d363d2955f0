"""What a running service says of itself in its store, so that others find it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.decide import Limits
from tierledger.events.errors import NotReady
from tierledger.storage.backend import Put, Remove

if TYPE_CHECKING:
    from tierledger.storage.backend import Operation

CONNECT_TIMEOUT_S = 1.0
"""How long a service may take to accept a connection before it counts as gone."""


class ServiceRecord(NamedTuple):
    """Where the service runs."""

    address: str
    """Host and port of the Ray cluster's control store."""
    pid: int
    started_ms: int
    settings: list[Any]
    """What the service was started with: whoever has to revive a part of it uses these, not
    the settings it was found with."""

    def settings_of(self, cluster_id: str) -> ServiceSettings:
        """The settings under which this service runs."""
        storage, *limits = self.settings
        return ServiceSettings(cluster_id, dict(storage), Limits(*limits))

    @property
    def is_live(self) -> bool:
        """Whether something accepts connections there."""
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S):
                return True
        except OSError:
            return False


def record_of(settings: ServiceSettings, address: str, pid: int, now_ms: int) -> ServiceRecord:
    """The record of a service that was just started with `settings`."""
    storage = [[key, value] for key, value in sorted(settings.storage.items())]
    limits = settings.limits
    known = [storage, limits.custom_metadata_bytes_max, limits.tombstone_retention_ms]
    return ServiceRecord(address, pid, now_ms, known)


async def read_record(settings: ServiceSettings) -> ServiceRecord | None:
    """The record in the store; none if there is none, or no store yet."""
    connector = settings.connector()
    backend = await connector.backend(read_only=True)
    try:
        stored = await backend.get(connector.key_factory(settings.cluster_id).service())
    finally:
        await backend.close()
    if stored is None:
        return None
    return ServiceRecord(*settings.serde().deserialize("service", stored))


async def live_record(settings: ServiceSettings) -> ServiceRecord:
    """The record of the service that runs on the store.

    Raises:
        NotReady: None runs; the message says how to start one.
    """
    record = await read_record(settings)
    if record is None or not record.is_live:
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
