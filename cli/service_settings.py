"""The settings of a service on the store that the user chose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tierledger.actors.host_settings import ServiceSettings
from tierledger.cli.settings import (
    cluster_setting,
    door_config,
    names_doors,
    service_config,
    store_config,
)
from tierledger.events.errors import NoSuchStore
from tierledger.events.partition.decide import Limits
from tierledger.storage.catalog import chosen_cluster, clusters
from tierledger.storage.connector import URL_SETTING, load_connector
from tierledger.storage.locate import DEFAULT_CLUSTER, default_store_url

if TYPE_CHECKING:
    from tierledger.cli.opened_store import StoreOptions


async def client_settings(options: StoreOptions) -> ServiceSettings:
    """The settings with which a command is a client of the service that `options` name.

    Raises as `service_settings` does.
    """
    config = {key: str(value) for key, value in service_config(options.store).items()}
    if names_doors(options.store):
        cluster = cluster_setting(options.cluster) or DEFAULT_CLUSTER
        settings = ServiceSettings(cluster, config)
    else:
        settings = await service_settings(options)
    return replace(settings, storage={**settings.storage, **door_config()})


async def service_settings(
    options: StoreOptions, limits: Limits | None = None
) -> ServiceSettings:
    """The settings of a service for `options`.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        StoreRefused: The file exists, and is no store.
    """
    config = {key: str(value) for key, value in store_config(options.store).items()}
    config = config or {URL_SETTING: str(default_store_url())}
    cluster = cluster_setting(options.cluster) or await _only_cluster(config)
    return ServiceSettings(cluster, config, limits or Limits())


async def _only_cluster(config: dict[str, str]) -> str:
    if config["metadata.storage.url"].startswith("memory:"):
        return DEFAULT_CLUSTER
    try:
        backend = await load_connector(config).backend(read_only=True)
    except NoSuchStore:
        return DEFAULT_CLUSTER
    try:
        known = await clusters(backend)
    finally:
        await backend.close()
    return chosen_cluster(known) if known else DEFAULT_CLUSTER


async def was_served(settings: ServiceSettings) -> bool:
    """Whether a service has run for the cluster on the store before."""
    connector = settings.connector()
    try:
        backend = await connector.backend(read_only=True)
    except NoSuchStore:
        return False
    try:
        log = connector.key_factory(settings.cluster_id).coordinator_log()
        return (await backend.last_keys([log]))[0] is not None
    finally:
        await backend.close()
