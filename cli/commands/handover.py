"""`handover`: say who owns a cluster's remote log metadata, and move it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, JsonOption, KafkaConfigOption, ServiceOption
from tierledger.cli.output import print_json, print_note
from tierledger.events.errors import InvalidArgument, RejectedError, RemoteResourceNotFound
from tierledger.storage.kafka_brokers import KafkaBrokers

if TYPE_CHECKING:
    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.coordinator.ownership import Owned
    from tierledger.actors.host_settings import ServiceSettings

DIRECTIONS = ("kafka", "tierledger")


def handover_command(
    kafka: Annotated[
        str,
        typer.Option(metavar="HOST:PORT,...", help="Brokers of the Kafka cluster."),
    ],
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Let tierledger own the metadata of a cluster that has tiered nothing yet; "
            "Kafka's metadata topic proves that.",
        ),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="kafka|tierledger",
            help="Manager that is to own the metadata: Kafka's own, or tierledger.",
        ),
    ] = None,
    accept_losses: Annotated[
        bool,
        typer.Option(
            "--accept-losses",
            help="Move the metadata even if the two managers' metadata differ; the differences "
            "are printed.",
        ),
    ] = False,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    kafka_config: KafkaConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say who owns the remote log metadata of a Kafka cluster, or move it.

    --fresh lets tierledger own the metadata of a cluster that has tiered nothing. --to kafka
    records that Kafka's own manager owns the metadata. --to tierledger moves the metadata to
    tierledger while all brokers run in handover, and --to kafka moves it back; brokers hold
    their writes for seconds. The command may be repeated. Exit status 2: the move was refused
    or undone, and the owner is the same as before.
    """
    if fresh is (to is not None):
        raise InvalidArgument(
            "expected --fresh, for a cluster that has tiered nothing, or --to"
        )
    if to is not None and to not in DIRECTIONS:
        raise InvalidArgument(f"--to: expected {' or '.join(DIRECTIONS)}, got {to!r:.80}")
    brokers = KafkaBrokers(kafka, None if kafka_config is None else str(kafka_config))
    asyncio.run(_hand_over(StoreOptions(store, cluster), brokers, to, accept_losses, json))


async def _hand_over(
    options: StoreOptions,
    brokers: KafkaBrokers,
    to: str | None,
    accepts_losses: bool,
    json: bool,
) -> None:
    """Hand over to `to`; none for a fresh cluster."""
    from tierledger.actors.coordinator.events import Owner
    from tierledger.cli.service_settings import client_settings
    from tierledger.pipeline.imports.topic import cluster_id_of

    cluster_id = await cluster_id_of(brokers)
    if options.cluster not in {None, cluster_id}:
        raise InvalidArgument(
            f"--cluster: the brokers at {brokers} are of the cluster {cluster_id}, "
            f"got {options.cluster}"
        )
    if to is None:
        await _refuse_metadata(brokers)
    # Naming this cluster makes the service of any other one refuse.
    settings = replace(await client_settings(options), cluster_id=cluster_id)
    wanted = None if to is None else Owner(to)
    owner, owner_epoch = await _owned(settings, brokers, wanted, accepts_losses)
    if json:
        print_json({"cluster": cluster_id, "owner": owner, "owner_epoch": owner_epoch})
    else:
        print(f"{owner} owns the remote log metadata of the cluster {cluster_id}")


async def _owned(
    settings: ServiceSettings, brokers: KafkaBrokers, to: Owner | None, accepts_losses: bool
) -> Owned:
    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.coordinator.ownership import Handover, Owned
    from tierledger.actors.discovery.connecting import connect
    from tierledger.moving.move import Move

    connection = await connect(settings)
    try:
        coordinator = connection.coordinator
        status = await coordinator.status()
        if to is None:
            return await coordinator.hand_over(Handover(Owner.TIERLEDGER, Owner.NOBODY))
        if status["owner"] == to:
            return Owned(to, status["owner_epoch"])
        if to == Owner.KAFKA and status["owner"] == Owner.NOBODY:
            return await coordinator.hand_over(Handover(Owner.KAFKA, Owner.NOBODY))
        move = Move(settings, connection, brokers, to, accepts_losses=accepts_losses)
        return await move.made(print_note)
    finally:
        await connection.close()


async def _refuse_metadata(brokers: KafkaBrokers) -> None:
    """Accept only a cluster whose own manager has never written anything.

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
