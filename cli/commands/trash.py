"""`trash`: segments that brokers have deleted, and whose data stays in the tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.brokers import broker_cell
from tierledger.cli.commands.purge import due_of, purge
from tierledger.cli.commands.release import release_kept
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.opened_store import (
    StoreOptions,
    chosen_partitions,
    found_partition,
    opened_catalog,
    print_notes,
)
from tierledger.cli.options import ClusterOption, JsonOption, PartitionArgument, StoreOption
from tierledger.cli.output import print_json, print_note
from tierledger.cli.segment_output import plain_segment
from tierledger.cli.table import (
    PrintedTable,
    WideOption,
    id_cell,
    print_table,
    size_cell,
    time_cell,
)
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import DataError
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.tables.segment_rows import END, SIZE, START, unpack_row

if TYPE_CHECKING:
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.partition.state import KeptSegment, PartitionState
    from tierledger.storage.catalog import Catalog

LIST_SPARE = ("deleted", "id", "unreleased")
SHOW_SPARE = ("broker", "deleted")


def trash_group() -> typer.Typer:
    return group_of(
        "See what brokers have deleted and what stays in the tier, and purge it; no service is "
        "needed.",
        {"ls": list_kept, "show": show_kept, "purge": purge, "release": release_kept},
    )


async def list_kept(
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only this topic: its name or its id.")
    ] = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """List the partitions with segments that were deleted and whose data stays.

    What is due may be purged: its time is over, and no hold keeps it longer. What is
    unreleased stays until somebody releases it, as no rule of Kafka's explains its deletion.
    """
    from tierledger.actors.coordinator.holding import deletions
    from tierledger.actors.coordinator.log import folded

    found: list[tuple[TopicIdPartition, dict[str, Any]]] = []
    damaged = False
    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        told, now_ms = deletions((await folded(catalog)).state), WallClock().now_ms()
        for tip in await chosen_partitions(catalog, topic, None):
            try:
                state = await _state(catalog, tip)
            except DataError as error:
                damaged = True
                print_note(f"{tip} cannot be read: {error}")
                continue
            if len(state.kept):
                found.append((tip, _plain(state, len(due_of(state, told, now_ms)[0]))))
    found.sort(key=lambda one: (one[0].topic, one[0].topic_id, one[0].partition))
    plain = [one for _, one in found]
    if json:
        for one in plain:
            print_json(one)
    elif plain:
        print_table(PrintedTable.of([_cells(one) for one in plain], LIST_SPARE), wide=wide)
    elif not damaged:
        print_note("nothing that was deleted is kept")
    if damaged:
        raise typer.Exit(ExitStatus.PARTLY)


async def show_kept(
    topic: TopicArgument,
    partition: PartitionArgument,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the segments of a partition that were deleted and whose data stays."""
    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        state = await _state(catalog, await found_partition(catalog, topic, partition))
    plain = [
        {
            **plain_segment(one.row),
            "deleted_ms": one.log_time_ms,
            "deleted_by": DeletionCause(one.cause).name.lower(),
            "kept_until_ms": one.until_ms,
            "reason": one.reason,
            "purged_by": one.purger,
        }
        for one in kept_segments(state)
    ]
    if json:
        for one in plain:
            print_json(one)
        return
    if not plain:
        print_note("nothing of it that was deleted is kept")
        return
    rows = [
        {
            "id": id_cell(one["id"]),
            "start": one["start_offset"],
            "end": one["end_offset"],
            "bytes": size_cell(one["size_in_bytes"]),
            "deleted": time_cell(one["deleted_ms"]),
            "by": one["deleted_by"],
            "broker": broker_cell(one["broker_id"]),
            "kept until": until_cell(one["kept_until_ms"]),
            "why": one["reason"] if one["purged_by"] is None else "it is being purged",
        }
        for one in plain
    ]
    print_table(PrintedTable.of(rows, SHOW_SPARE), wide=wide)


async def _state(catalog: Catalog, tip: TopicIdPartition) -> PartitionState:
    reader = catalog.reader(tip)
    state = (await reader.state()).state
    print_notes(reader)
    return state


def kept_segments(state: PartitionState) -> list[KeptSegment]:
    """The kept segments of a partition, by start offset."""
    kept = (one for _, one in state.kept.all())
    return sorted(kept, key=lambda one: int(unpack_row(one.row)[START]))


def _plain(state: PartitionState, due: int) -> dict[str, Any]:
    tip, kept = state.topic_id_partition, kept_segments(state)
    rows = [unpack_row(one.row) for one in kept]
    return {
        "topic": tip.topic,
        "topic_id": str(tip.topic_id),
        "partition": tip.partition,
        "segments": len(kept),
        "size_in_bytes": sum(row[SIZE] for row in rows),
        "due": due,
        "unreleased": len(state.kept.unreleased),
        "first_offset": min(row[START] for row in rows),
        "last_offset": max(row[END] for row in rows),
        "deleted_ms": min(one.log_time_ms for one in kept),
        "kept_until_ms": min(one.until_ms for one in kept),
    }


def _cells(one: dict[str, Any]) -> dict[str, object]:
    return {
        "topic": one["topic"],
        "id": id_cell(one["topic_id"]),
        "partition": one["partition"],
        "segments": one["segments"],
        "bytes": size_cell(one["size_in_bytes"]),
        "due": one["due"],
        "unreleased": one["unreleased"],
        "first": one["first_offset"],
        "last": one["last_offset"],
        "deleted": time_cell(one["deleted_ms"]),
        "kept until": until_cell(one["kept_until_ms"]),
    }


def until_cell(until_ms: int) -> object:
    return "its release" if until_ms == UNTIL_RELEASED_MS else time_cell(until_ms)
