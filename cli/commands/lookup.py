"""`lookup`: the segment that serves an offset; reads a few values, however large the log is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.commands.segments import require_epoch
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import (
    StoreOptions,
    ask,
    found_partition,
    note_later,
    opened_catalog,
    whole_state,
)
from tierledger.cli.options import (
    EPOCH_MAX,
    OFFSET_MAX,
    AsOfOption,
    ClusterOption,
    DeletedOption,
    FromOption,
    JsonOption,
    PartitionArgument,
    ServiceOption,
    live_role,
    parse_as_of,
)
from tierledger.cli.output import print_json, print_note
from tierledger.cli.segment_output import print_segment
from tierledger.cli.topics import TopicArgument
from tierledger.events.as_of import AsOf

if TYPE_CHECKING:
    from tierledger.events.partition.state import PartitionState


async def lookup(
    topic: TopicArgument,
    partition: PartitionArgument,
    epoch: Annotated[
        int,
        typer.Argument(
            min=0, max=EPOCH_MAX, help="Leader epoch in which the offset is looked up."
        ),
    ],
    offset: Annotated[int, typer.Argument(min=0, max=OFFSET_MAX, help="Offset to look up.")],
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    as_of: AsOfOption = None,
    deleted: DeletedOption = False,
    json: JsonOption = False,
    source: FromOption = None,
) -> None:
    """Show the segment that serves an offset in a leader epoch; exit 1 if none does."""
    when = parse_as_of(as_of)
    role = live_role(source, store, when, deleted=deleted)
    options, where = StoreOptions(store, cluster), (topic, partition)
    if role is None:
        row = await _lookup(options, where, (epoch, offset), when, deleted=deleted)
    else:
        from tierledger.cli.live_reads import lookup_live

        row = await lookup_live(options, where, role, (epoch, offset))
    if row is not None:
        print_segment(row, json=json)
        return
    if json:
        print_json(None)
    else:
        print("no segment")
    raise typer.Exit(ExitStatus.FOUND)


async def _lookup(
    options: StoreOptions,
    where: tuple[str, int],
    place: tuple[int, int],
    as_of: AsOf | None,
    *,
    deleted: bool,
) -> bytes | None:
    from tierledger.events.partition import answers
    from tierledger.events.partition.restored import restored, rows_with_kept
    from tierledger.events.tables.segment_rows import id_of_row

    def found(state: PartitionState) -> bytes | None:
        if not state.next_position:
            note_later(state.topic_id_partition)
        require_epoch(state, place[0])
        row = answers.lookup(state, *place)
        # For people; a program gets the answer alone.
        if row is None and place[0] in state.epochs and sys.stdout.isatty():
            last = answers.highest_offset_for_epoch(state, place[0])
            if last is None or last < place[1]:
                print_note(f"the last offset of leader epoch {place[0]} is {last}")
        return row

    async with opened_catalog(options) as catalog:
        tip = await found_partition(catalog, *where)
        if deleted:
            state = await whole_state(catalog.reader(tip), as_of)
            row = found(restored(state))
            return None if row is None else rows_with_kept(state)[id_of_row(row)]
        return await ask(catalog.reader(tip), as_of, found)
