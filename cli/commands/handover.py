"""`handover`: say who owns a cluster's remote log metadata, and move it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import (
    ClusterOption,
    JsonOption,
    KafkaConfigOption,
    ServiceOption,
    brokers_at,
)
from tierledger.cli.output import escaped, fitted, print_json, print_note
from tierledger.events.errors import InvalidArgument, RejectedError, StorageUnavailable
from tierledger.events.vocabulary import findings
from tierledger.storage.kafka_brokers import KafkaBrokers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.actors.connection import CoordinatorHandle, ServiceConnection
    from tierledger.actors.coordinator.ownership import Owned
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.cli.commands.doctor.check import CheckLine

DIRECTIONS = ("kafka", "tierledger")

CHECK_S = 10.0
"""How long each check of `doctor` may take in a dry run."""

LOOK_S, LOOKS = 0.2, 150
"""Pause between two looks whether `serve --kafka` has sealed, in seconds, and how many."""


async def handover_command(
    kafka: Annotated[
        str,
        typer.Option(metavar="HOST:PORT,...", help="Brokers of the Kafka cluster."),
    ],
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Let tierledger own the metadata of a cluster that has tiered nothing yet; "
            "brokers, plugins and Kafka's metadata topic have to prove that.",
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
            help="Move the metadata even if the two managers differ; what differs is printed, "
            "and what the new owner says about it counts.",
        ),
    ] = False,
    confirm_deletions: Annotated[
        bool,
        typer.Option(
            "--confirm-deletions",
            help="Let brokers delete again after one of them ran without the plugin; what "
            "they will delete, as log starts have risen over it, is printed.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Change nothing: say whether it would be refused, what `doctor` finds, and "
            "what would be done; with --confirm-deletions, what brokers would delete.",
        ),
    ] = False,
    metadata_partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --fresh: partitions of Kafka's metadata topic, if it is created now; "
            "needed if brokers set rlmm.config.remote.log.metadata.topic.num.partitions.",
        ),
    ] = None,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    kafka_config: KafkaConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say who owns the remote log metadata of a Kafka cluster, or move it.

    --fresh lets tierledger own the metadata of a cluster that has tiered nothing, and seals
    Kafka's metadata topic, so that a broker without the plugin deletes nothing. --to kafka
    records that Kafka's own manager owns the metadata. --to tierledger moves the metadata to
    tierledger while all brokers run in handover, and --to kafka moves it back; brokers hold
    their writes for seconds. --confirm-deletions ends the trouble `deletions-held`. The
    service has to run. The command may be repeated, and says what to do next. Exit status 2:
    the move was refused or undone, or would be, and the owner is the same as before; 1: with
    --dry-run, nothing refuses it, and `doctor` finds something.
    """
    from tierledger.cli.service_settings import client_settings
    from tierledger.moving.guide import next_steps
    from tierledger.pipeline.imports.topic import cluster_id_of

    if [fresh, to is not None, confirm_deletions].count(True) != 1:
        raise InvalidArgument(
            "expected --fresh, for a cluster that has tiered nothing, --to, or "
            "--confirm-deletions"
        )
    if metadata_partitions is not None and not fresh:
        raise InvalidArgument("--metadata-partitions: expected --fresh, too")
    if to is not None and to not in DIRECTIONS:
        raise InvalidArgument(f"--to: expected {' or '.join(DIRECTIONS)}, got {to!r:.80}")
    brokers = brokers_at(kafka, kafka_config)
    options = StoreOptions(store, cluster)
    wish = _Wish(brokers, to, accept_losses, metadata_partitions, confirm_deletions, dry_run)
    cluster_id = await cluster_id_of(wish.brokers)
    if options.cluster not in {None, cluster_id}:
        raise InvalidArgument(
            f"--cluster: the brokers at {wish.brokers} are of the cluster {cluster_id}, "
            f"got {options.cluster}"
        )
    # Naming this cluster makes the service of any other one refuse.
    settings = replace(await client_settings(options), cluster_id=cluster_id)
    if wish.is_dry_run and not wish.confirms_deletions:
        await _tried(options, settings, wish, json)
        return
    before, (owner, owner_epoch) = await _owned(settings, wish)
    todo = next_steps(before, owner)
    if json:
        named = {"cluster": cluster_id, "owner": owner, "owner_epoch": owner_epoch}
        print_json({**named, "next_steps": [*todo]})
        return
    print(f"{owner} owns the remote log metadata of the cluster {cluster_id}")
    for step in todo:
        print_note(f"next: {step}")


class _Wish(NamedTuple):
    """What an operator asks for; `to` is None for a fresh cluster, and to confirm deletions."""

    brokers: KafkaBrokers
    to: str | None
    accepts_losses: bool
    metadata_partitions: int | None
    confirms_deletions: bool
    is_dry_run: bool


async def _owned(settings: ServiceSettings, wish: _Wish) -> tuple[str, Owned]:
    """The owner before it, and the one after it. A dry run changes nothing, and ends there.

    Raises:
        RejectedError: It was refused, or undone.
        RemoteStorageError: The service or the brokers do not answer.
    """
    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.coordinator.ownership import Handover, Owned
    from tierledger.actors.coordinator.requests import StatusCall
    from tierledger.actors.discovery.connecting import connect
    from tierledger.moving.freshness import refuse_owned
    from tierledger.moving.move import OwnershipMove
    from tierledger.moving.telling import telling

    connection = await connect(settings)
    try:
        coordinator = connection.coordinator
        status = await coordinator.ask(StatusCall())
        before, to = status["owner"], Owner(wish.to or Owner.TIERLEDGER)
        unchanged = before, Owned(before, status["owner_epoch"])
        if wish.confirms_deletions:
            return before, await _deletions_confirmed(settings, connection, wish, status)
        if wish.to is None:
            return before, await _fresh(coordinator, wish, status)
        if before == to:
            return unchanged
        if to == Owner.KAFKA and before == Owner.NOBODY:
            await refuse_owned(wish.brokers, status["attending"])
            if wish.is_dry_run:
                return unchanged
            return before, await coordinator.ask(Handover(Owner.KAFKA, Owner.NOBODY))
        move = OwnershipMove(
            settings,
            connection,
            wish.brokers,
            to,
            accepts_losses=wish.accepts_losses,
            is_rehearsal=wish.is_dry_run,
        )
        if wish.is_dry_run:
            return before, await move.made(print_note)
        async with telling(coordinator, lambda: move.report):
            owned = await move.made(print_note)
        print_trash(owned, await coordinator.ask(StatusCall()))
        return before, owned
    finally:
        await connection.close()


async def _tried(
    options: StoreOptions, settings: ServiceSettings, wish: _Wish, json: bool
) -> None:
    """Say whether it would be refused, what `doctor` finds, and what would be done.

    Raises:
        RejectedError: It would be refused; what `doctor` finds is printed.
        RemoteStorageError: The service or the brokers do not answer.
        Exit: `doctor` finds something.
    """
    from tierledger.actors.coordinator.events import Owner
    from tierledger.cli.commands.doctor.doctor import INDENT, end_at_once, look
    from tierledger.cli.commands.doctor.given import Given
    from tierledger.cli.commands.doctor.seen import CheckState
    from tierledger.moving.guide import steps_of

    lines: list[CheckLine] = []
    refusal: RejectedError | None = None
    steps: Sequence[str] = ()
    try:
        before, _ = await _owned(settings, wish)
        steps = steps_of(before, wish.to or Owner.TIERLEDGER)
    except RejectedError as error:
        refusal = error
    given = Given(options, None, wish.brokers)
    has_ended = await look(given, CHECK_S, lines.append)
    found = [one for one in lines if findings([str(one.seen.state)])]
    if json:
        refused = None if refusal is None else str(refusal)
        checks = [one.plain() for one in lines]
        print_json({"refused": refused, "checks": checks, "steps": [*steps]})
    else:
        for one in found:
            print(fitted(escaped(one.text), sys.stdout, INDENT))
        states = Counter(one.seen.state for one in lines)
        print(
            f"`tierledger doctor`: {states[CheckState.WELL]} checks are well, "
            f"{states[CheckState.NOT_LOOKED_AT]} were not looked at"
        )
    if not has_ended:
        end_at_once()
    if refusal is not None:
        raise refusal
    if not json:
        print("nothing was changed; these steps would be done:")
        for number, step in enumerate(steps, 1):
            print(f"{number}. {step}")
    if found:
        raise typer.Exit(ExitStatus.FOUND)


def print_trash(owned: Owned, status: Mapping[str, Any]) -> None:
    """Say what becomes of what is in the trash, if the metadata has gone to Kafka's manager."""
    from tierledger.actors.coordinator.events import Owner

    kept = status["purges"]["partitions"]
    if owned.owner == Owner.KAFKA and kept:
        print_note(
            f"the trash of {kept} partitions stays in the tier and in the ledger: Kafka's "
            "manager knows nothing of it, and `tierledger trash ls` shows it"
        )


async def _deletions_confirmed(
    settings: ServiceSettings,
    connection: ServiceConnection,
    wish: _Wish,
    status: Mapping[str, Any],
) -> Owned:
    """Print what brokers would delete, and let them, unless it is a dry run."""
    from tierledger.actors.coordinator.ownership import CONFIRM, Owned
    from tierledger.moving.held_deletions import doomed

    held = status["deletions_held_text"]
    print_note(held or "deletions are not held")
    for one in await doomed(settings, connection, wish.brokers):
        print_note(
            f"{one.partition}: log start {one.log_start}; {one.segments} finished segments "
            f"below it, offsets {one.first_offset} to {one.last_offset}, {one.bytes} bytes"
        )
    if wish.is_dry_run or not held:
        return Owned(status["owner"], status["owner_epoch"])
    owned = await connection.coordinator.ask(CONFIRM)
    print_note("brokers may delete again")
    return owned


async def _fresh(
    coordinator: CoordinatorHandle, wish: _Wish, status: Mapping[str, Any]
) -> Owned:
    """Hand a fresh cluster over, and see that Kafka's topic is sealed; not in a dry run."""
    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.coordinator.ownership import Handover, Owned
    from tierledger.actors.coordinator.requests import StatusCall
    from tierledger.moving.following import MIRROR, SEAL
    from tierledger.moving.freshness import refuse_tiered
    from tierledger.moving.procedure import SILENT_MS
    from tierledger.moving.sealing import create, seal
    from tierledger.pipeline.imports.source import METADATA_TOPIC

    if status["owner"] == Owner.NOBODY:
        await refuse_tiered(wish.brokers, status["attending"])
    if wish.is_dry_run:
        if status["owner"] in {Owner.NOBODY, Owner.TIERLEDGER}:
            return Owned(status["owner"], status["owner_epoch"])
        raise RejectedError(f"expected nobody to own the metadata, {status['owner']} does")
    if status["owner"] == Owner.NOBODY:
        # Now: a broker without the plugin that starts later must not find no topic.
        await create(wish.brokers, wish.metadata_partitions)
    owned = await coordinator.ask(Handover(Owner.TIERLEDGER, Owner.NOBODY))
    following = status["kafka"]
    if following is None or following["heard_ms_ago"] > SILENT_MS:
        await seal(wish.brokers)
        return owned
    # `serve --kafka` seals, or mirrors. Two that seal would fence each other.
    for _ in range(LOOKS):
        following = (await coordinator.ask(StatusCall()))["kafka"] or {}
        if following.get("task") in {MIRROR, SEAL} and following["round"]:
            return owned
        await asyncio.sleep(LOOK_S)
    raise StorageUnavailable(
        f"tierledger owns the metadata, but serve --kafka has not sealed {METADATA_TOPIC} yet: "
        f"{following.get('trouble') or 'see `status`'}"
    )
