"""`hold`: say what brokers may not delete, see it, and let it go."""

from __future__ import annotations

import getpass
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import (
    OFFSET_MAX,
    PARTITION_MAX,
    ClusterOption,
    JsonOption,
    ServiceOption,
    duration_ms,
    parse_id,
    parse_time_ms,
    whole_number,
)
from tierledger.cli.output import escaped, print_json, print_note
from tierledger.cli.settings import names_doors
from tierledger.cli.table import WideOption
from tierledger.events.errors import InvalidArgument
from tierledger.events.lifecycle import DeletionCause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.actors.connection import ServiceConnection
    from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
    from tierledger.actors.holds import Hold
    from tierledger.actors.host_settings import ServiceSettings

A_TIME_AHEAD = "a time like 2027-01-31T12:00:00Z, or in how long, like +30d"


class _Cause(StrEnum):
    """What deletes, in an option."""

    RETENTION = "retention"
    TOPIC = "topic"


_CAUSES = {_Cause.RETENTION: DeletionCause.RETENTION, _Cause.TOPIC: DeletionCause.TOPIC}

NAMED_MAX = 10
"""Most partitions that are named one by one."""

NameArgument = Annotated[
    str, typer.Argument(help="Name of the hold: letters, digits and any of _ . : @ -")
]
ByOption = Annotated[
    str | None,
    typer.Option(metavar="WHO", help="Who says so. By default the user of this machine."),
]


def hold_group() -> typer.Typer:
    return group_of(
        "Say what brokers may not delete from the tier, see it, and let it go; the service has "
        "to run.",
        {"add": add, "ls": list_holds, "release": release},
    )


async def add(
    name: NameArgument,
    topic: Annotated[
        str, typer.Option(metavar="PATTERN", help="Name of the topics: * ? and [abc] are open.")
    ],
    reason: Annotated[str, typer.Option(help="Why nothing may be deleted.")],
    partition: Annotated[
        int | None, typer.Option(min=0, max=PARTITION_MAX, help="Only this partition.")
    ] = None,
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Only the topic of this id.")
    ] = None,
    offsets: Annotated[
        str | None,
        typer.Option(metavar="FIRST-LAST", help="Only segments with one of these offsets."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only segments with a record of then or later."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only segments that may have an earlier record."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="When the hold ends by itself, like +30d. By default never."
        ),
    ] = None,
    term: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Keep each segment for so long from its deletion on, like 7d. 0d makes an "
            "exception from wider terms.",
        ),
    ] = None,
    deleted_by: Annotated[
        _Cause | None,
        typer.Option(help="With --term: only what is deleted by retention, or with its topic."),
    ] = None,
    by: ByOption = None,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Hold segments: from now on no broker deletes them from the tier, for whatever reason.

    A segment is under the hold if it matches all that is given. A broker without the guard may
    not delete it: retention of its partition stands still at it, and a deleted topic keeps it.
    For a broker with the guard it is deleted, and its data stays. What is being deleted already
    is named, and is not kept. The service has to run. The same command may be repeated. Exit
    status 3: some leaders may not go by the hold yet; repeat it.
    """
    from tierledger.actors.coordinator.holding import PlaceHold
    from tierledger.actors.holds import Hold, check_hold
    from tierledger.events.typed_fields import checked

    first, last = _offsets(offsets)
    given = Hold(
        name,
        topic,
        None if topic_id is None else bytes(parse_id(topic_id, "--topic-id")),
        partition,
        first,
        last,
        None if after is None else parse_time_ms(after, "--after"),
        None if before is None else parse_time_ms(before, "--before"),
        None if until is None else parse_time_ms(until, "--until", A_TIME_AHEAD),
        reason,
        by or getpass.getuser(),
        None if term is None else duration_ms(term, "--term"),
        DeletionCause.UNKNOWN if deleted_by is None else _CAUSES[deleted_by],
    )
    hold = checked(Hold, given, "hold")
    check_hold(hold)
    late = await _change(StoreOptions(store, cluster), PlaceHold(hold), hold)
    _tell(f"hold {name} is placed", {"hold": name, "placed": True}, late, json)


def _offsets(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, dash, last = text.partition("-")
    if not dash or not (first or last):
        raise InvalidArgument(
            f"--offsets: expected FIRST-LAST, FIRST- or -LAST, got {text!r:.80}"
        )
    low = whole_number(first, "--offsets", 0, OFFSET_MAX) if first else None
    return low, whole_number(last, "--offsets", 0, OFFSET_MAX) if last else None


async def release(
    name: NameArgument,
    reason: Annotated[str, typer.Option(help="Why it may be deleted now.")],
    by: ByOption = None,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Release a hold: brokers may delete again what was under it, in their next round.

    Segments of a topic that was deleted meanwhile stay in the tier: no broker comes back for
    them. The service has to run. Exit status 3: some leaders may not know it yet.
    """
    from tierledger.actors.coordinator.holding import ReleaseHold
    from tierledger.actors.holds import HoldName
    from tierledger.events.typed_fields import checked

    wish = ReleaseHold(checked(HoldName, name, "NAME"), by or getpass.getuser(), reason)
    late = await _change(StoreOptions(store, cluster), wish, None)
    _tell(f"hold {name} is released", {"hold": name, "placed": False}, late, json)


async def list_holds(
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """List the holds: what they keep, who placed them, why, and which deletions they refused.

    The service has to run: its hosts count the refused deletions, since they began.
    """
    from tierledger.cli.commands.status.view import holds_table
    from tierledger.cli.table import print_table
    from tierledger.events.errors import NotReady
    from tierledger.health.reading import read_service
    from tierledger.health.status import status_of

    async with connected(StoreOptions(store, cluster)) as (_, connection):
        status = status_of(await read_service(connection))
    if status.coordinator is None:
        raise NotReady("the coordinator does not answer")
    holds = status.holds()
    if json:
        for one in holds:
            print_json(one)
    elif holds:
        print_table(holds_table(status), wide=wide)
    else:
        print_note("there is no hold")


@asynccontextmanager
async def connected(
    options: StoreOptions,
) -> AsyncIterator[tuple[ServiceSettings, ServiceConnection]]:
    """The settings of a client of the service, and a connection to it."""
    from tierledger.actors.discovery.connecting import connect
    from tierledger.cli.service_settings import client_settings

    settings = await client_settings(options)
    connection = await connect(settings)
    try:
        yield settings, connection
    finally:
        await connection.close()


async def _change(
    options: StoreOptions, wish: PlaceHold | ReleaseHold, hold: Hold | None
) -> list[str]:
    """Place or release a hold; the partitions whose leaders may not know it yet."""
    from tierledger.actors.calls import PartitionKey
    from tierledger.actors.coordinator.requests import StatusCall
    from tierledger.events.identifiers import TopicIdPartition, Uuid
    from tierledger.moving.held_deletions import being_deleted, served

    async with connected(options) as (settings, connection):
        late = await connection.coordinator.ask(wish)
        tips = await served(connection)
        if hold is not None:
            covered = sorted(filter(hold.covers, tips), key=str)
            print_note(_covered_text(covered) if covered else await idle_text(options, hold))
            going = [one for one in covered if tips[one]]
            for line in await being_deleted(settings, going, hold):
                print_note(line)
            status = await connection.coordinator.ask(StatusCall())
            for one in status.get("purges", {}).get("given", ()):
                topic_id = Uuid.parse(one["topic_id"])
                if hold.covers(TopicIdPartition(topic_id, one["partition"], one["topic"])):
                    print_note(
                        f"{one['topic']}-{one['partition']}: broker {one['broker']} is purging "
                        f"{one['segments']} segments of the trash already"
                    )
            bare = [one for one in status["attending"] if one.get("is_guarded") is False]
            if hold.term_ms and bare:
                named = ", ".join(str(one["broker_id"]) for one in bare)
                print_note(
                    f"brokers {named} run without the guard: they may not delete what the term "
                    "is about, and their retention stands still"
                )
            owner = status["owner"]
            if owner != "tierledger":
                print_note(
                    f"{owner} owns the remote log metadata: brokers that decide by Kafka's own "
                    "manager do not heed a hold"
                )
    names = {PartitionKey.of(one): f"{one.topic}-{one.partition}" for one in tips}
    return [names.get(one, str(one.named(""))) for one in late]


async def idle_text(options: StoreOptions, hold: Hold) -> str:
    """Why a hold is about nothing that is served now."""
    if names_doors(options.store):
        return "it matches no partition that the service serves now; those that come are held"
    async with opened_catalog(options) as catalog:
        known = [
            one.topic_id_partition
            async for one in catalog.partitions()
            if hold.covers(one.topic_id_partition)
        ]
    if known:
        return f"{_covered_text(known)}, which nobody leads now; who leads them next goes by it"
    return "the store has no such partition; those that come are held"


def _covered_text(covered: list[Any]) -> str:
    named = ", ".join(f"{one.topic}-{one.partition}" for one in covered[:NAMED_MAX])
    more = f" and {len(covered) - NAMED_MAX} more" if len(covered) > NAMED_MAX else ""
    return f"it is about {named}{more}"


def _tell(text: str, plain: dict[str, Any], late: list[str], json: bool) -> None:
    if json:
        print_json({**plain, "late": late})
    else:
        print(escaped(text))
    if late:
        print_note(
            f"the leaders of {', '.join(late[:NAMED_MAX])} ({len(late)} partitions) may not "
            "go by it yet; repeat the command"
        )
        raise typer.Exit(ExitStatus.PARTLY)
