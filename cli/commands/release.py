"""`trash release`: let go of what is kept until somebody says that nobody needs it."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.commands.hold import ByOption, connected
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import print_json, print_note
from tierledger.cli.table import PrintedTable, print_table, size_cell
from tierledger.cli.topics import TopicArgument
from tierledger.events.tables.segment_rows import SIZE, id_of_row, unpack_row

if TYPE_CHECKING:
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.partition.state import KeptSegment


async def release_kept(
    topic: TopicArgument,
    reason: Annotated[str, typer.Option(help="Why nobody needs it any more.")],
    partition: Annotated[
        int | None, typer.Argument(min=0, help="Number of the only partition to include.")
    ] = None,
    by: ByOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Release what is kept because no rule of Kafka's explains its deletion.

    From then on it is due: guards delete its data, and what a hold is about when that is
    released. It cannot be kept again. The service has to run. The command may be repeated.
    """
    from tierledger.actors.coordinator.purge_requests import RELEASED_MAX, ReleaseKept
    from tierledger.events.typed_fields import checked

    options, who = StoreOptions(store, cluster), by or getpass.getuser()
    found: list[tuple[TopicIdPartition, list[KeptSegment]]] = []
    async with opened_catalog(options) as catalog:
        for tip in await chosen_partitions(catalog, topic, partition):
            kept = (await catalog.reader(tip).state()).state.kept
            one = [each for _, each in kept.all() if each.is_unreleased]
            if one:
                found.append((tip, one))
    if not found:
        print_note("nothing there waits for a release")
        return
    async with connected(options) as (_, connection):
        for tip, kept_ones in found:
            ids = [id_of_row(one.row) for one in kept_ones]
            for at in range(0, len(ids), RELEASED_MAX):
                wish = ReleaseKept(tip, tuple(ids[at : at + RELEASED_MAX]), who, reason)
                await connection.coordinator.ask(checked(ReleaseKept, wish, "release"))
    plain = [
        {
            "topic": tip.topic,
            "partition": tip.partition,
            "released": len(kept_ones),
            "size_in_bytes": sum(unpack_row(one.row)[SIZE] for one in kept_ones),
        }
        for tip, kept_ones in found
    ]
    if json:
        for each in plain:
            print_json(each)
        return
    rows = [
        {
            "topic": one["topic"],
            "partition": one["partition"],
            "released": one["released"],
            "bytes": size_cell(one["size_in_bytes"]),
        }
        for one in plain
    ]
    print_table(PrintedTable.of(rows), wide=False)
