"""The settings of a service on the store that the user chose."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tierledger.actors.host_settings import ServiceSettings
from tierledger.cli.output import print_note
from tierledger.cli.settings import (
    cluster_setting,
    door_config,
    names_doors,
    quiet_grpc,
    service_config,
    store_config,
)
from tierledger.events.errors import NoSuchStore
from tierledger.storage.catalog import chosen_cluster, clusters
from tierledger.storage.connector import URL_SETTING, load_connector
from tierledger.storage.locate import DEFAULT_CLUSTER, default_store_url

if TYPE_CHECKING:
    from tierledger.cli.opened_store import StoreOptions


async def client_settings(options: StoreOptions, *, is_new: bool = False) -> ServiceSettings:
    """The settings with which a command is a client of the service that `options` name.

    `is_new` and errors: as `service_settings` has them.
    """
    quiet_grpc()
    config = {key: str(value) for key, value in service_config(options.store).items()}
    if names_doors(options.store):
        cluster = cluster_setting(options.cluster) or await _cluster_at(config)
        settings = ServiceSettings(cluster, config)
    else:
        settings = await service_settings(options, is_new=is_new)
    files = door_config() if options.doors is None else options.doors
    return replace(settings, storage={**settings.storage, **files})


async def _cluster_at(config: dict[str, str]) -> str:
    """The cluster of the service whose doors `config` names.

    Raises:
        NotReady: None of the doors answers.
        NotAuthorized: The service does not admit this command, or is not trusted.
    """
    from tierledger.actors.door.client.connection import cluster_at
    from tierledger.actors.foreign_errors import documenting

    with documenting("the service is not found", is_sent=False):
        return await cluster_at(config[URL_SETTING], {**config, **door_config()})


async def service_settings(options: StoreOptions, *, is_new: bool = False) -> ServiceSettings:
    """The settings of a service for `options`; `is_new`: on a store of other clusters, too.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        RemoteResourceNotFound: It holds clusters, and not the named one, which is not new.
        StoreRefused: The file exists, and is no store.
    """
    config = {key: str(value) for key, value in store_config(options.store).items()}
    config = config or {URL_SETTING: str(default_store_url())}
    named = cluster_setting(options.cluster)
    known = await _known_clusters(config)
    if not known or (is_new and named is not None):
        cluster = named or DEFAULT_CLUSTER
    else:
        cluster = chosen_cluster(known, named)
    return ServiceSettings(cluster, config)


async def _known_clusters(config: dict[str, str]) -> list[str]:
    if config["metadata.storage.url"].startswith("memory:"):
        return []
    try:
        backend = await load_connector(config).backend(read_only=True)
    except NoSuchStore:
        return []
    try:
        return await clusters(backend)
    finally:
        await backend.close()


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


async def is_served(options: StoreOptions) -> bool:
    """Whether a service runs on the store, as far as its record tells."""
    from tierledger.actors.discovery.service_record import read_record

    record = await read_record(await client_settings(options))
    return record is not None and await asyncio.to_thread(lambda: record.is_live)


async def note_writer(options: StoreOptions) -> None:
    """Note with --dry-run that a service writes to the store, and keeps others from it."""
    if (await client_settings(options)).connector().has_one_writer and await is_served(options):
        print_note(
            "a service writes to this store, which has one writer: without --dry-run the "
            "command is refused until the service has ended"
        )
