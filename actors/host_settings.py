"""The settings that all parts of a service share, in a form that can be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal

from tierledger.actors.coordinator.breaker import BreakerShares
from tierledger.actors.coordinator.placement import HOSTS_MAX, PARTITIONS_PER_HOST
from tierledger.actors.door.security.settings import (
    CA_KEY,
    CERTIFICATE_KEY,
    KEY_KEY,
    PLAINTEXT_KEY,
    TOKEN_KEY,
    DoorSecurity,
)
from tierledger.actors.door.traces import Traces
from tierledger.events.errors import InvalidArgument
from tierledger.events.partition.decide import Limits
from tierledger.events.sent_fields import with_defaults
from tierledger.events.typed_fields import Int32, Text, checked, shown
from tierledger.storage.connector import (
    CONNECTOR_SETTING,
    SERIALIZER_SETTING,
    URL_SETTING,
    MetadataStorageConnector,
    load_connector,
    load_serde,
    setting,
)
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.locate import parse_store_url
from tierledger.storage.serde import MetadataSerDe

PREFIX = "rlmm.config."
"""Prefix of plugin settings in a broker's file (`remote.log.metadata.manager.impl.prefix`)."""

CUSTOM_METADATA_KEY = "remote.log.metadata.custom.metadata.max.bytes"
TOMBSTONE_KEY = "tombstone.retention.ms"

CLIENT_SETTINGS = {
    "cluster.id",
    "broker.id",
    URL_SETTING,
    CONNECTOR_SETTING,
    SERIALIZER_SETTING,
    CA_KEY,
    CERTIFICATE_KEY,
    KEY_KEY,
    TOKEN_KEY,
    PLAINTEXT_KEY,
    CUSTOM_METADATA_KEY,
    TOMBSTONE_KEY,
}
"""The names of a client's settings, without prefix."""

NEAR = 0.92
"""How much of a name has to be that of a setting to be taken for a slip: two letters less or
more of twenty."""

LISTEN = "127.0.0.1:0"
"""Default of `listen`: clients on this machine find the ports in the service's record."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Which store, which Kafka cluster, which limits.

    Attributes:
        cluster_id: The Kafka cluster's id; every key in the store begins with it.
        storage: The settings of the storage connector and serializer, without prefix.
        limits: The limits that leaders enforce.
        hosts: How many host processes are started at least, 1 to 1000. With more of them, the
            service uses more cores and loses less with each.
        partitions_per_host: How many leaders and followers a host runs, at least 1. When all
            hosts are full, further ones are started. With 1 each has a process of its own,
            which costs about 50 MB and a second to start.
        listen: Where host-0 listens for clients (`HOST:PORT`), host-N N ports further; 0 is any
            free port.
        advertise: The address that clients get instead of `listen`, `HOST` or `HOST:PORT`.
        security: The files with which hosts and clients prove their identity.
        kafka: Brokers that are asked who leads a partition; None: the later claim leads.
        log_format: How processes of the service write their logs.
        traces: Where hosts send spans of calls; None: there are none.
        breaker: If brokers have deleted more than so many percent of all that is tiered, or of
            a topic, within an hour, no more of it is deleted until an operator says so.
        nodes: How many nodes its Ray cluster has. A start waits for them, and a minute at
            most; later it is a trouble if fewer are alive.
    """

    cluster_id: str
    storage: Mapping[str, str] = field(hash=False, repr=False)
    limits: Limits = field(default_factory=Limits)
    hosts: int = 1
    partitions_per_host: int = PARTITIONS_PER_HOST
    listen: str = LISTEN
    advertise: str | None = None
    security: DoorSecurity = field(default_factory=DoorSecurity)
    kafka: KafkaBrokers | None = None
    breaker: BreakerShares = field(default_factory=BreakerShares)
    log_format: Literal["text", "json"] = "text"
    traces: Traces | None = None
    nodes: int = 1

    __setstate__ = with_defaults

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= HOSTS_MAX:
            raise InvalidArgument(f"expected 1 to {HOSTS_MAX} hosts, got {self.hosts}")
        for percent in self.breaker:
            if not 0 <= percent <= 100:
                raise InvalidArgument(f"expected a breaker at 0 to 100 percent, got {percent}")
        if self.partitions_per_host < 1:
            raise InvalidArgument(
                f"expected at least 1 partition per host, got {self.partitions_per_host}"
            )

    def begin_log(self) -> None:
        """Let this process log as configured."""
        if self.log_format != "text":  # Else a program's own configuration stays.
            # A client has these settings, too, and does not load what it does not need.
            from tierledger.storage.process_log import log_as  # noqa: PLC0415

            log_as(self.log_format)

    def connector(self) -> MetadataStorageConnector:
        """The configured connector (`metadata.storage.connector.class`)."""
        return load_connector(self.storage)

    def serde(self) -> MetadataSerDe:
        """The configured serializer (`metadata.storage.serializer.class`)."""
        return load_serde(self.storage)


def with_absolute_store(settings: ServiceSettings) -> ServiceSettings:
    """`settings` for processes in other working directories: a store's path is absolute."""
    url = setting(settings.storage, URL_SETTING)
    if url is None or setting(settings.storage, CONNECTOR_SETTING) is not None:
        return settings  # Only another connector knows how to read its URL.
    storage = {**settings.storage, URL_SETTING: str(parse_store_url(url))}
    storage.pop(PREFIX + URL_SETTING, None)
    return replace(settings, storage=storage)


def without_prefix(config: Mapping[str, object]) -> dict[str, str]:
    """A broker's configuration map with `rlmm.config.` stripped; prefixed keys win.

    Raises:
        InvalidArgument: `config` is no map of names to values that can be written as text.
    """
    given = checked(Mapping[Text, Any], config, "config")
    try:
        texts = {key: str(value) for key, value in given.items()}
    except Exception as error:  # A value's own `str` may raise anything.
        raise InvalidArgument(f"expected text in config, got {shown(given)}") from error
    checked(Mapping[Text, Text], texts, "config")
    plain = {key: text for key, text in texts.items() if not key.startswith(PREFIX)}
    prefixed = {
        key.removeprefix(PREFIX): text for key, text in texts.items() if key.startswith(PREFIX)
    }
    return plain | prefixed


def refuse_near_misses(config: Mapping[str, str]) -> None:
    """Refuse a name in `config` (without prefix) that is nearly one of a client's settings.

    All others pass: a broker hands its plugin settings that are not the plugin's.

    Raises:
        InvalidArgument: Says which setting is probably meant.
    """
    own_connector = CONNECTOR_SETTING in config
    for name in config.keys() - CLIENT_SETTINGS:
        if own_connector and name.startswith("metadata.storage."):
            continue  # It may be the connector's.
        plain = re.sub("[^a-z]", ".", name.lower())
        for meant in get_close_matches(plain, CLIENT_SETTINGS, 1, NEAR):
            raise InvalidArgument(f"there is no setting {name!r:.80}: did you mean {meant}?")


def limits_of(config: Mapping[str, str]) -> Limits:
    """The limits that `config` (without prefix) sets.

    Raises:
        InvalidArgument: A value is no number, or out of range.
    """
    defaults = Limits()
    return Limits(
        custom_metadata_bytes_max=_number(
            config, CUSTOM_METADATA_KEY, defaults.custom_metadata_bytes_max
        ),
        tombstone_retention_ms=_number(config, TOMBSTONE_KEY, defaults.tombstone_retention_ms),
    )


def _number(config: Mapping[str, str], key: str, default: int) -> int:
    text = config.get(key)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgument(f"{key}: expected a whole number, got {text!r}") from error


def broker_of(config: Mapping[str, str]) -> tuple[int, str]:
    """The broker's id and its cluster's id.

    Raises:
        InvalidArgument: One of them is missing or wrong.
    """
    try:
        broker_id = int(config["broker.id"])
    except (KeyError, ValueError) as error:
        raise InvalidArgument(
            f"broker.id: expected a whole number, got {shown(config.get('broker.id'))}"
        ) from error
    checked(Int32, broker_id, "broker.id")
    cluster_id = config.get("cluster.id")
    if not cluster_id:
        raise InvalidArgument(f"cluster.id: expected a cluster's id, got {cluster_id!r}")
    return broker_id, cluster_id
