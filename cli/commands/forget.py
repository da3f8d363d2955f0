"""`forget`: remove a partition's log that holds nothing any more, or what is left in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.opened_store import (
    StoreOptions,
    found_partition,
    opened_catalog,
    print_notes,
)
from tierledger.cli.options import (
    ClusterOption,
    ColumnsOption,
    JsonOption,
    PartitionArgument,
    StoreOption,
)
from tierledger.cli.output import confirm, print_json, print_note, print_result
from tierledger.cli.settings import columns_config
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import InvalidArgument, RejectedError, RemoteStorageError
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.metadata import RemoteLogSegmentMetadata
    from tierledger.pipeline.column_files.place import ColumnPlace
    from tierledger.storage.catalog import Catalog


class _Wanted(NamedTuple):
    """What is to become of segments that are left, and how the command asks."""

    tier: str | None
    leaves_data: bool
    tries: bool
    yes: bool
    json: bool
    columns: str | None

    @property
    def takes_segments(self) -> bool:
        return self.tier is not None or self.leaves_data


def forget(
    topic: TopicArgument,
    partition: PartitionArgument,
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Remove also segments that are left: delete their data from this tier first.",
        ),
    ] = None,
    leave_data: Annotated[
        bool,
        typer.Option(
            "--leave-data",
            help="Remove also segments that are left, and leave their data in the tier.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be removed.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    columns: ColumnsOption = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the log of a partition without segments that nobody leads; its history is gone.

    A topic that is deleted while the metadata moves leaves segments that no broker deletes:
    --tier removes them with their data, --leave-data without it. Both refuse a partition that
    a broker hosts, and a cluster whose metadata Kafka's own manager owns.

    A service may run on a PostgreSQL store meanwhile; a SQLite file has one writer. The store
    keeps the position of the log's end, so that the partition can go on from there. Column
    files with its events are removed; tierledger columns write makes the others' anew.
    """
    if tier is not None and leave_data:
        raise InvalidArgument("expected --tier or --leave-data, got both")
    wanted = _Wanted(tier, leave_data, dry_run, yes, json, columns)
    asyncio.run(_forget(StoreOptions(store, cluster), (topic, partition), wanted))


async def _forget(options: StoreOptions, where: tuple[str, int], wanted: _Wanted) -> None:
    from tierledger.cli.service_settings import note_writer
    from tierledger.events.partition.answers import metadata_of
    from tierledger.pipeline.column_files.locate import column_place
    from tierledger.storage.partition.forgetting import forget as forget_partition
    from tierledger.storage.partition.forgetting import (
        refuse_kept,
        refuse_led,
        refuse_unless_empty,
    )

    place = column_place(columns_config(options.store, wanted.columns))
    async with opened_catalog(options, read_only=wanted.tries) as catalog:
        tip = await found_partition(catalog, *where)
        reader = catalog.reader(tip)
        state, _ = await reader.state()
        print_notes(reader)
        refuse_led(state)
        refuse_kept(state)
        if wanted.takes_segments:
            await _refuse_hosted(catalog, tip)
        else:
            try:
                refuse_unless_empty(state)
            except RejectedError as error:
                hint = "--tier or --leave-data removes them, too"
                raise RejectedError(f"{error}: {hint}") from None
        segments = [metadata_of(tip, row) for row in state.rows]
        keys = 0
        if wanted.tries:
            await note_writer(StoreOptions(options.store, catalog.cluster_id))
        else:
            if not wanted.yes:
                what = _text(tip, state.next_position, segments, wanted)
                confirm(f"Forget {what}?")
            if wanted.tier is not None:
                await _delete_data(wanted.tier, segments)
            keys = await forget_partition(reader, segments_too=wanted.takes_segments)
            _drop_columns(place, catalog, tip)
    if wanted.json:
        print_json(
            {
                "forgotten": str(tip),
                "events": state.next_position,
                "keys": keys,
                "segments": [str(one.remote_log_segment_id.id) for one in segments],
                "dry_run": wanted.tries,
            }
        )
    else:
        done = "would forget" if wanted.tries else "forgot"
        print_result(f"{done} {_text(tip, state.next_position, segments, wanted)}")


def _drop_columns(place: ColumnPlace | None, catalog: Catalog, tip: TopicIdPartition) -> None:
    """Remove the column files with events of the forgotten log."""
    again = (
        f"column files in {place} may have its events: tierledger columns write removes them"
    )
    try:
        if place is None or not place.names():
            return
        from tierledger.pipeline.column_files.index import drop_log
        from tierledger.pipeline.source.columns import FILE_SCHEMA

        count = drop_log(place, catalog.cluster_id, tip, FILE_SCHEMA)
    except ModuleNotFoundError:
        print_note(f"{again}, where tierledger[spark] is installed")
    except (OSError, RemoteStorageError) as error:
        print_note(f"{again} ({error})")
    else:
        if count:
            print_note(f"{count} column files that had its events are removed from {place}")


def _text(
    tip: TopicIdPartition,
    events: int,
    segments: Sequence[RemoteLogSegmentMetadata],
    wanted: _Wanted,
) -> str:
    if not segments:
        return f"{tip} and its {events} events"
    size = sum(one.segment_size_in_bytes for one in segments)
    data = "whose data stays in the tier" if wanted.leaves_data else "with their data"
    return f"{tip}, its {events} events and {len(segments)} segments ({size_text(size)}) {data}"


async def _refuse_hosted(catalog: Catalog, tip: TopicIdPartition) -> None:
    """Check by the coordinator's log that nobody needs the partition's segments.

    Raises:
        RejectedError: A broker hosts it, or Kafka's own manager knows its segments.
    """
    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.coordinator.log import folded
    from tierledger.actors.coordinator.unled_log import hosting

    fold = await folded(catalog)
    ownership = fold.state.ownership
    if Owner.KAFKA in {ownership.owner, ownership.source, ownership.heading}:
        raise RejectedError(
            f"{tip}: Kafka's own manager knows its segments; expected tierledger to own the "
            "metadata, so that the mirror removes them from Kafka's topic, too"
        )
    if brokers := hosting(fold, tip):
        named = ", ".join(map(str, brokers))
        raise RejectedError(f"{tip} is hosted by brokers {named}: they remove its segments")


async def _delete_data(tier: str, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
    """Delete the data of `segments`; after a failure the command may be repeated."""
    from tierledger.tiering.layouts.tier_url import open_tier

    async with open_tier(tier) as storage:
        for at, one in enumerate(segments):
            try:
                await storage.delete_log_segment_data(one)
            except Exception as error:
                error.add_note(f"the data of {at} of {len(segments)} segments is deleted")
                raise
