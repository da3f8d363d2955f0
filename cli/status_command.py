"""`tierledger status`: whether a service runs on a store, and how it stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import (
    PARTITION_MAX,
    ClusterOption,
    JsonOption,
    ServiceOption,
    whole_number,
)
from tierledger.cli.output import print_json, print_pairs, shortened
from tierledger.events.errors import InvalidArgument, NotReady

if TYPE_CHECKING:
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.actors.service_record import ServiceRecord
    from tierledger.cli.status_report import ServiceStatus
    from tierledger.cli.status_view import Page, ServiceIdentity

LIMIT = 20
"""Partitions that are shown unless more are asked for: a screen."""

INTERVAL_S = 2.0
DAY_S = 86_400.0

COUNT_MAX = 10_000
"""Partitions of a store that are counted without a service: half a second."""


class StatusOptions(NamedTuple):
    """What the user wants to see, and how."""

    store: StoreOptions
    partition: str | None = None
    host: str | None = None
    limit: int | None = LIMIT
    json: bool = False


class Look(NamedTuple):
    """What one look found."""

    cluster: str
    service: tuple[ServiceIdentity, ServiceStatus] | None
    stored: tuple[int, bool] | None = None
    """Without a service: partitions in the store, and whether these are all."""


def status_command(
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    partition: Annotated[
        str | None,
        typer.Option("--partition", metavar="TOPIC-N", help="Only this partition: orders-3."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Only this host, and what it serves.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=0, max=COUNT_MAX, help="How many partitions are shown, worst first."
        ),
    ] = LIMIT,
    everything: Annotated[bool, typer.Option("--all", help="Show all partitions.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again; Ctrl-C ends it.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=DAY_S, help="Seconds between two looks.")
    ] = INTERVAL_S,
    json: JsonOption = False,
) -> None:
    """Show the service on a store: its hosts, what they lead and follow, and what is not well.

    JSON has all partitions, whatever the limit. Exit status 1: no service runs there, or it has
    set something aside that it cannot do; with --watch it is 0 when you end it.
    """
    log_to_stderr()
    if partition is not None:
        topic, dash, number = partition.rpartition("-")
        try:
            partition = f"{topic}{dash}{whole_number(number, 'NUMBER', high=PARTITION_MAX)}"
        except InvalidArgument:
            dash = ""
        if not dash:
            raise InvalidArgument(
                f"--partition: expected TOPIC-NUMBER, got {shortened(partition)}"
            )
    shown = None if everything else limit
    options = StatusOptions(StoreOptions(store, cluster), partition, host, shown, json)
    if watch:
        from tierledger.cli.status_watch import watch_status

        watch_status(options, interval)
    elif not asyncio.run(_status(options)):
        raise typer.Exit(ExitStatus.FOUND)


async def _status(options: StatusOptions) -> bool:
    look = await take_look(options)
    print_look(options, look)
    return look.service is not None and not look.service[1].has_set_aside


async def take_look(options: StatusOptions) -> Look:
    """How the service stands now, or that there is none.

    Raises:
        StoreRefused: There is no such store.
        NotReady: None of the doors that were named answers, or a service runs that does not
            say where its own are.
        NotAuthorized: It does not let this command in, or is not believed.
    """
    from tierledger.actors.connecting import connect
    from tierledger.actors.foreign_errors import documenting
    from tierledger.actors.service_record import read_record
    from tierledger.cli.service_settings import client_settings, names_doors
    from tierledger.cli.status_reading import read_service
    from tierledger.cli.status_report import status_of

    settings = await client_settings(options.store)
    record = None if names_doors(options.store) else await read_record(settings)
    try:
        with documenting("the service is not found", is_sent=False):
            connection = await connect(settings)
    except NotReady:
        is_live = record is not None and await asyncio.to_thread(lambda: record.is_live)
        if is_live or names_doors(options.store):
            raise
        return Look(settings.cluster_id, None, await _count_stored(settings))
    known = [] if record is None else record.host_doors
    hosts = {one.address.rpartition("/")[0]: one.address for one in known}
    try:
        status = status_of(await read_service(connection, hosts))
    finally:
        await connection.close()
    identity = _identity(settings, record)
    return Look(
        settings.cluster_id, (identity, status.narrowed(options.partition, options.host))
    )


def _identity(settings: ServiceSettings, record: ServiceRecord | None) -> ServiceIdentity:
    from tierledger.cli.status_view import ServiceIdentity
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
    """Partitions in the store, which costs one read each; none if it cannot be told."""
    from tierledger.events.errors import RemoteStorageError
    from tierledger.storage.catalog import Catalog

    connector = settings.connector()
    keys = connector.key_factory(settings.cluster_id)
    backend = await connector.backend(read_only=True)
    count = 0
    try:
        catalog = Catalog(backend, keys, settings.serde(), settings.cluster_id)
        async for entry in catalog.partitions():
            count += not entry.is_forgotten
            if count == COUNT_MAX:
                return count, False
    except RemoteStorageError:
        return None  # `verify` says what is wrong with it.
    finally:
        await backend.close()
    return count, True


def print_look(options: StatusOptions, look: Look) -> None:
    """Print what was found to standard output."""
    from tierledger.cli.status_view import print_page

    if options.json:
        print_json(_plain(look))
    elif look.service is None:
        print_pairs(page_without_service(look).pairs)
    else:
        print_page(page_with_service(options, look))


def page_with_service(options: StatusOptions, look: Look) -> Page:
    from tierledger.cli.status_view import page_of

    assert look.service is not None, "the caller has looked"
    # One partition is asked for by name; whatever is found is shown.
    limit = None if options.partition is not None else options.limit
    return page_of(*look.service, limit)


def page_without_service(look: Look) -> Page:
    from tierledger.cli.status_view import Page

    stored = None
    if look.stored is not None:
        count, are_all = look.stored
        stored = f"{count}{'' if are_all else ' or more'}; tierledger ls lists them"
    return Page(
        [
            ("cluster", look.cluster),
            ("service", "none runs on this store; start one with: tierledger serve"),
            ("partitions stored", stored),
        ],
        [],
    )


def _plain(look: Look) -> dict[str, object]:
    if look.service is None:
        count, are_all = look.stored or (None, False)
        stored = {"partitions": count, "is_complete": are_all}
        return {"cluster": look.cluster, "service": None, "stored": stored}
    identity, status = look.service
    return {"cluster": look.cluster, "service": identity._asdict(), **status.plain()}


def register(app: typer.Typer) -> None:
    """Add `tierledger status`."""
    app.command("status")(status_command)
