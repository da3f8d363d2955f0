"""`forget`: remove a partition's log that holds nothing any more, or what is left in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    from tierledger.events.partition.state import PartitionState
    from tierledger.pipeline.column_files.place import ColumnPlace
    from tierledger.storage.catalog import Catalog


async def forget(
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
    from tierledger.cli.service_settings import note_writer
    from tierledger.events.partition.answers import metadata_of
    from tierledger.pipeline.column_files.locate import column_place
    from tierledger.storage.partition.forgetting import forget as forget_partition

    if tier is not None and leave_data:
        raise InvalidArgument("expected --tier or --leave-data, got both")
    takes_segments = tier is not None or leave_data
    place, keys = column_place(columns_config(store, columns)), 0
    async with opened_catalog(StoreOptions(store, cluster), read_only=dry_run) as catalog:
        tip = await found_partition(catalog, topic, partition)
        reader = catalog.reader(tip)
        state, _ = await reader.state()
        print_notes(reader)
        await _refuse_needed(catalog, state, takes_segments=takes_segments)
        segments = [metadata_of(tip, row) for row in state.rows]
        what = _text(tip, state.next_position, segments, leaves_data=leave_data)
        if dry_run:
            await note_writer(StoreOptions(store, catalog.cluster_id))
        else:
            if not yes:
                confirm(f"Forget {what}?")
            if tier is not None:
                await _delete_data(tier, segments)
            keys = await forget_partition(reader, segments_too=takes_segments)
            _drop_columns(place, catalog, tip)
    if json:
        print_json(
            {
                "forgotten": str(tip),
                "events": state.next_position,
                "keys": keys,
                "segments": [str(one.remote_log_segment_id.id) for one in segments],
                "dry_run": dry_run,
            }
        )
    else:
        print_result(f"{'would forget' if dry_run else 'forgot'} {what}")


async def _refuse_needed(
    catalog: Catalog, state: PartitionState, *, takes_segments: bool
) -> None:
    """Check that nobody needs the log any more, nor the segments that it takes with it.

    Raises:
        RejectedError: Somebody does.
    """
    from tierledger.storage.partition.forgetting import (
        refuse_kept,
        refuse_led,
        refuse_unless_empty,
    )

    refuse_led(state)
    refuse_kept(state)
    if takes_segments:
        await _refuse_hosted(catalog, state.topic_id_partition)
        return
    try:
        refuse_unless_empty(state)
    except RejectedError as error:
        hint = "--tier or --leave-data removes them, too"
        raise RejectedError(f"{error}: {hint}") from None


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
    *,
    leaves_data: bool,
) -> str:
    if not segments:
        return f"{tip} and its {events} events"
    size = sum(one.segment_size_in_bytes for one in segments)
    data = "whose data stays in the tier" if leaves_data else "with their data"
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
