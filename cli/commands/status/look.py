"""One look at a service: its status, or that none runs on the store."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.output import print_json, print_pairs
from tierledger.events.errors import NotReady

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.actors.connection import ServiceConnection
    from tierledger.actors.discovery.service_record import ServiceRecord
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.cli.commands.status.view import Screen, ServiceIdentity
    from tierledger.health.left import LeftPartition
    from tierledger.health.status import ServiceStatus
    from tierledger.health.troubles import Trouble
    from tierledger.storage.catalog import Catalog

COUNT_MAX = 10_000
"""How many partitions of a store are counted without a service: half a second."""

LIMIT = 20
"""How many partitions are shown by default: one screen."""


class StatusOptions(NamedTuple):
    """What the user wants to see, and how."""

    store: StoreOptions
    chosen: tuple[str | None, int | None] = (None, None)
    """A topic, and a partition's number."""
    host: str | None = None
    limit: int | None = LIMIT
    json: bool = False
    wide: bool = False
    is_repeated: bool = False
    """Whether it is looked at again soon; then logs in the store are not read each time."""


class ClusterView(NamedTuple):
    """The result of one look."""

    cluster: str
    service: tuple[ServiceIdentity, ServiceStatus] | None
    stored: tuple[int, bool] | None = None
    """Without a service: the number of partitions in the store, and whether these are all; None
    if they were not counted."""
    closed: str | None = None
    """Why no service starts on the store; None if one can."""
    left: list[LeftPartition] | None = None
    """Segments that no broker deletes any more; None if that is not known."""

    @property
    def troubles(self) -> list[Trouble]:
        """All troubles that this look has found."""
        from tierledger.health.troubles import no_service, troubles_of

        if self.service is None:
            return [no_service(self.cluster, self.closed)]
        return troubles_of(self.service[1])


async def take_look(options: StatusOptions) -> ClusterView:
    """The present status of the service, or that none runs.

    Raises:
        NoSuchStore: There is no such store.
        NotReady: None of the given doors answers, or the running service has not recorded where
            its doors are.
        NotAuthorized: The service does not admit this command, or is not trusted.
    """
    from tierledger.actors.discovery.connecting import connect
    from tierledger.actors.discovery.service_record import read_record
    from tierledger.actors.foreign_errors import documenting
    from tierledger.cli.service_settings import client_settings
    from tierledger.cli.settings import names_doors
    from tierledger.health.reading import read_service
    from tierledger.health.status import status_of

    settings = await client_settings(options.store)
    record = None if names_doors(options.store.store) else await read_record(settings)
    try:
        with documenting("the service is not found", is_sent=False):
            connection = await connect(settings)
    except NotReady:
        is_live = record is not None and await asyncio.to_thread(lambda: record.is_live)
        if is_live or names_doors(options.store.store):
            raise
        count = None if options.is_repeated else await _count_stored(settings)
        return ClusterView(settings.cluster_id, None, count, await _closed(settings))
    known = [] if record is None else record.host_doors
    hosts = {one.address.rpartition("/")[0]: one.address for one in known}
    try:
        status = status_of(await read_service(connection, hosts))
        left = None
        if record is not None and not options.is_repeated:
            left = await _left(settings, connection, status)
    finally:
        await connection.close()
    identity = _identity(settings, record)
    narrowed = status.narrowed(*options.chosen, options.host)
    return ClusterView(settings.cluster_id, (identity, narrowed), left=left)


async def _left(
    settings: ServiceSettings, connection: ServiceConnection, status: ServiceStatus
) -> list[LeftPartition] | None:
    """What deleted topics left; None if brokers do not announce what they host, or on errors.

    Brokers announce all that they host once tierledger owns their metadata.
    """
    from tierledger.actors.coordinator.events import Owner
    from tierledger.events.errors import RemoteStorageError
    from tierledger.health.left import left_in

    if status.coordinator is None or status.coordinator["owner"] != Owner.TIERLEDGER:
        return None
    try:
        async with _stored(settings) as catalog:
            return await left_in(catalog, connection.coordinator)
    except RemoteStorageError:
        return None  # The list of troubles, or `verify`, reports what is wrong.


@asynccontextmanager
async def _stored(settings: ServiceSettings) -> AsyncIterator[Catalog]:
    from tierledger.storage.catalog import Catalog

    connector = settings.connector()
    keys = connector.key_factory(settings.cluster_id)
    backend = await connector.backend(read_only=True)
    try:
        yield Catalog(backend, keys, settings.serde(), settings.cluster_id)
    finally:
        await backend.close()


def _identity(settings: ServiceSettings, record: ServiceRecord | None) -> ServiceIdentity:
    from tierledger.cli.commands.status.view import ServiceIdentity
    from tierledger.storage.locate import public_url

    url = settings.storage["metadata.storage.url"]
    if record is None:
        return ServiceIdentity(settings.cluster_id, doors=url)
    return ServiceIdentity(
        settings.cluster_id,
        public_url(url),
        record.address,
        record.pid,
        record.started_ms,
        record.metrics,
    )


async def _count_stored(settings: ServiceSettings) -> tuple[int, bool] | None:
    """The number of partitions in the store, one read each; none if they cannot be read."""
    from tierledger.events.errors import RemoteStorageError

    count = 0
    try:
        async with _stored(settings) as catalog:
            async for entry in catalog.partitions():
                count += not entry.is_forgotten
                if count == COUNT_MAX:
                    return count, False
    except RemoteStorageError:
        return None  # `verify` reports what is wrong.
    return count, True


async def _closed(settings: ServiceSettings) -> str | None:
    """Why no service starts on the store, if that is so; None if it cannot be read."""
    from tierledger.events.errors import RemoteStorageError
    from tierledger.storage.transfer.closing import closed_because

    try:
        async with _stored(settings) as catalog:
            return await closed_because(catalog)
    except RemoteStorageError:
        return None  # `verify` reports what is wrong.


def print_look(options: StatusOptions, look: ClusterView) -> None:
    from tierledger.cli.commands.status.view import print_page

    if options.json:
        print_json(_plain(look))
    elif look.service is None:
        print_pairs(page_without_service(look).pairs)
    else:
        print_page(page_with_service(options, look), wide=options.wide)


def page_with_service(options: StatusOptions, look: ClusterView) -> Screen:
    from tierledger.cli.commands.status.view import page_of

    assert look.service is not None, "the caller has looked"
    # What was asked for is shown in any case.
    limit = options.limit if options.chosen == (None, None) else None
    return page_of(*look.service, limit, look.left or ())


def page_without_service(look: ClusterView) -> Screen:
    from tierledger.cli.commands.status.view import Screen

    stored = None
    if look.stored is not None:
        count, are_all = look.stored
        stored = f"{count}{'' if are_all else ' or more'}"
        if look.closed is None:
            stored += "; tierledger ls lists them"
    why = "none runs on this store; start one with: tierledger serve"
    if look.closed is not None:
        why = f"none runs on this store, nor can one: {look.closed}"
    return Screen(
        [
            ("cluster", look.cluster),
            ("service", why),
            ("partitions stored", stored),
        ],
        [],
    )


def _plain(look: ClusterView) -> dict[str, object]:
    troubles = [one.plain() for one in look.troubles]
    if look.service is None:
        count, are_all = look.stored or (None, False)
        stored = {"partitions": count, "is_complete": are_all}
        return {
            "cluster": look.cluster,
            "service": None,
            "troubles": troubles,
            "stored": stored,
            "closed": look.closed,
        }
    identity, status = look.service
    return {
        "cluster": look.cluster,
        "service": identity._asdict(),
        "troubles": troubles,
        **status.plain(),
        "left": None if look.left is None else [one._asdict() for one in look.left],
    }
