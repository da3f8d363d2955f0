"""`handover`: say who owns a cluster's remote log metadata."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, JsonOption, ServiceOption
from tierledger.cli.output import print_json
from tierledger.events.errors import InvalidArgument, RejectedError, RemoteResourceNotFound


def handover_command(
    kafka: Annotated[
        str,
        typer.Option("--kafka", metavar="HOST:PORT,...", help="Brokers of the Kafka cluster."),
    ],
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="The cluster has tiered nothing yet: Kafka's metadata topic proves it.",
        ),
    ] = False,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Let tierledger own the remote log metadata of a Kafka cluster.

    Until then the brokers' plugins hear that it is not ready: brokers take what the ledger does
    not know for gone, and delete their own logs up to there. Once done it stays; a repeat says
    so again. Exit status 2: the cluster has metadata already, or another id than the service's.
    """
    if not fresh:
        raise InvalidArgument(
            "expected --fresh: clusters that have tiered already cannot be handed over yet"
        )
    asyncio.run(_fresh(StoreOptions(store, cluster), kafka, json))


async def _fresh(options: StoreOptions, brokers: str, json: bool) -> None:
    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.coordinator.ownership import Handover
    from tierledger.actors.discovery.connecting import connect
    from tierledger.cli.service_settings import client_settings
    from tierledger.pipeline.imports.topic import cluster_id_of

    cluster_id = await cluster_id_of(brokers)
    if options.cluster not in {None, cluster_id}:
        raise InvalidArgument(
            f"--cluster: the brokers at {brokers} are of the cluster {cluster_id}, "
            f"got {options.cluster}"
        )
    await _refuse_metadata(brokers)
    settings = await client_settings(options)
    # A service of another cluster refuses a client that names this one.
    connection = await connect(replace(settings, cluster_id=cluster_id))
    try:
        wish = Handover(Owner.TIERLEDGER, Owner.NOBODY)
        owner, _ = await connection.coordinator.hand_over(wish)
    finally:
        await connection.close()
    if json:
        print_json({"cluster": cluster_id, "owner": owner})
    else:
        print(f"{owner} owns the remote log metadata of the cluster {cluster_id}")


async def _refuse_metadata(brokers: str) -> None:
    """Let pass a cluster whose own manager has never written anything.

    Raises:
        RejectedError: Its metadata topic has records, or had some.
    """
    from tierledger.pipeline.imports.source import METADATA_TOPIC
    from tierledger.pipeline.imports.topic import offsets_of

    try:
        found = await offsets_of(brokers, METADATA_TOPIC)
    except RemoteResourceNotFound:
        return
    written = {number: end for number, (_, end) in found.items() if end}
    if written:
        number, end = min(written.items())
        raise RejectedError(
            f"the cluster at {brokers} is not fresh: {METADATA_TOPIC}-{number} has had {end} "
            "records, so Kafka's own manager has tiered"
        )


def register(app: typer.Typer) -> None:
    """Add `tierledger handover`."""
    app.command("handover")(handover_command)
