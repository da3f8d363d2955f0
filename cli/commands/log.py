"""`log`: a partition's events, one by one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.opened_store import (
    StoreOptions,
    ask,
    found_partition,
    note_ahead,
    opened_catalog,
)
from tierledger.cli.options import (
    OFFSET_MAX,
    ClusterOption,
    JsonOption,
    PartitionArgument,
    StoreOption,
)
from tierledger.cli.output import escaped, fitted, print_json, print_note
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import InvalidArgument
from tierledger.events.lifecycle import (
    DeletionCause,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from tierledger.events import log_events as log


LINE_INDENT = 10
"""Where a long event goes on in the next line of a terminal: below its time."""


async def show_log(
    topic: TopicArgument,
    partition: PartitionArgument,
    start: Annotated[
        int, typer.Option(min=0, max=OFFSET_MAX, help="First position to show.")
    ] = 0,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=OFFSET_MAX, help="Maximum number of events to show."),
    ] = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Show a partition's events, oldest first."""
    from tierledger.storage.partition.log_times import Leaps, ahead_ms

    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        reader = catalog.reader(await found_partition(catalog, topic, partition))
        last, shown, leaps = None, 0, Leaps()
        async for event in reader.events(start):
            if shown == limit:
                print_note(f"there are more: --start {event.position} shows them")
                break
            last, leap_ms = event, leaps.leap_ms(event)
            if json:
                leap = {} if leap_ms is None else {"leap_ms": leap_ms}
                print_json({**plain_event(event), **leap})
            else:
                print(fitted(_line(event), sys.stdout, LINE_INDENT))
            if leap_ms is not None:
                print_note(
                    f"log time leaps by {span_text(leap_ms)} before position "
                    f"{event.position}, and the brokers' own times do not"
                )
            shown += 1  # Positions do not tell: a log may begin behind `start`.
        if last is not None:
            ahead = ahead_ms(last.log_time_ms, WallClock().now_ms())
            note_ahead(reader.topic_id_partition, ahead)
        else:
            end = await ask(reader, None, lambda state: state.next_position - 1)
            raise InvalidArgument(f"--start: expected a position up to {end}, got {start}")


def plain_event(event: log.Event) -> dict[str, Any]:
    request = event.request_id
    return {
        "position": event.position,
        "session": event.session,
        "log_time_ms": event.log_time_ms,
        "broker_id": event.broker_id,
        "request_id_hex": None if request is None else request.hex(),
        "type": type(event.body).__name__,
        **_plain_body(event.body),
    }


def _line(event: log.Event) -> str:
    fields = " ".join(
        f"{name}={escaped(str(value))}"
        for name, value in _plain_body(event.body).items()
        if value is not None
    )
    kind = type(event.body).__name__
    return f"{event.position:>8}  {time_text(event.log_time_ms)}  {kind:<22}  {fields}"


def _plain_body(body: log.Body) -> dict[str, Any]:
    from tierledger.events.identifiers import Uuid
    from tierledger.events.log_events import SegmentUpdated

    plain: dict[str, Any] = {}
    # With the session's fields, an event's broker would be there twice.
    for name, value in body._asdict().items():
        match name:
            case "segment_id":
                plain["id"] = None if value is None else str(Uuid(value))
            case "state" if isinstance(body, SegmentUpdated):
                plain["state"] = RemoteLogSegmentState(value).name
            case "state":
                plain["state"] = RemotePartitionDeleteState(value).name
            case "cause":
                plain["cause"] = DeletionCause(value).name
            case "epochs":
                pairs = zip(value[::2], value[1::2], strict=True)
                plain["leader_epochs"] = [list(pair) for pair in pairs]
            case "custom_metadata":
                plain["custom_metadata_hex"] = None if value is None else value.hex()
            case "source" | "dropped_bytes" if not value:
                continue
            case "source":
                plain["source"] = list(value)
            case "tags":
                plain["has_unknown_tags"] = value is not None or None
            case _:
                plain[name] = value
    return plain
