"""`trash purge`: delete the data of what was kept long enough, where no broker does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import confirm, print_json, print_note
from tierledger.cli.table import PrintedTable, WideOption, print_table, size_cell
from tierledger.cli.topics import TopicIfAnyArgument
from tierledger.events.errors import DataError, RejectedError, RemoteResourceNotFound
from tierledger.events.tables.segment_rows import SIZE, unpack_row
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.coordinator.fold import Fold
    from tierledger.actors.coordinator.unled_log import UnledLog
    from tierledger.actors.holds import Deletions
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.metadata import RemoteLogSegmentMetadata
    from tierledger.events.partition.state import KeptSegment, PartitionState
    from tierledger.storage.catalog import Catalog
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

AT_A_TIME = 100
"""Segments of one step, whose data is deleted before the next one begins."""

LEASE_MS = 10 * 60_000
"""How long no broker is given what a command is deleting."""

PROBES_MAX = 5
"""Segments of a partition of which one has to be in the tier, so that it is the right one."""


class _Planned(NamedTuple):
    """What there is to do in one partition."""

    tip: TopicIdPartition
    due: int
    bytes: int
    stays: int
    """Segments that are kept, and are not due."""
    why_not: str
    """Why nothing is purged here, or why one of those stays."""


async def purge(
    tier: Annotated[
        str,
        typer.Option(metavar="URL", help="The tier that has the data; it is deleted there."),
    ],
    topic: TopicIfAnyArgument = None,
    partition: Annotated[
        int | None, typer.Argument(min=0, help="Number of the only partition to include.")
    ] = None,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="Also where the tier has nothing of what is to go."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be purged.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Delete the data of kept segments whose time is over, for good.

    What a hold is about stays. So does what is kept of partitions that brokers host: their
    guards purge it. A service may run on a PostgreSQL store meanwhile; a SQLite file has one
    writer. The command may be repeated, after a kill, too. Exit status 3: a partition cannot
    be read.
    """
    from tierledger.actors.coordinator.log import folded
    from tierledger.cli.service_settings import note_writer

    plan: list[_Planned] = []
    damaged = False
    async with opened_catalog(StoreOptions(store, cluster), read_only=dry_run) as catalog:
        fold, now_ms = await folded(catalog), WallClock().now_ms()
        for tip in await chosen_partitions(catalog, topic, partition):
            try:
                planned = await _planned(catalog, fold, tip, now_ms)
            except DataError as error:
                damaged = True
                print_note(f"{tip} cannot be read: {error}")
            else:
                plan += [planned] if planned.due or planned.stays else []
        doing = [one for one in plan if one.due]
        if not json:
            _show(plan, wide=wide)
        purged = [0, 0]
        if dry_run:
            await note_writer(StoreOptions(store, catalog.cluster_id))
        elif doing:
            if not yes:
                confirm(f"Purge {_text(doing)} for good?")
            purged = await _carry_out(catalog, fold, doing, now_ms, tier, missing=missing)
    if json:
        for one in plan:
            print_json({**_plain(one), "dry_run": dry_run})
    elif doing:
        print(f"would purge {_text(doing)}" if dry_run else _counted("purged", *purged))
    if damaged:
        raise typer.Exit(ExitStatus.PARTLY)


async def _planned(
    catalog: Catalog, fold: Fold, tip: TopicIdPartition, now_ms: int
) -> _Planned:
    from tierledger.actors.coordinator.holding import deletions
    from tierledger.actors.coordinator.unled_log import UnledLog

    log = await UnledLog.read(catalog, fold, tip)
    due, why_not = due_of(log.state, deletions(fold.state), now_ms)
    stays = len(log.state.kept) - len(due)
    try:
        log.refuse_led()
    except RejectedError as error:
        return _Planned(tip, 0, 0, len(log.state.kept), str(error))
    return _Planned(
        tip, len(due), sum(unpack_row(one.row)[SIZE] for one in due), stays, why_not
    )


def due_of(
    state: PartitionState, told: Deletions, now_ms: int
) -> tuple[list[KeptSegment], str]:
    """The kept segments to purge now, and why the first of the others is not."""
    from tierledger.actors.coordinator.purge_requests import COMMAND
    from tierledger.actors.holds import why_kept

    due: list[KeptSegment] = []
    first = ""
    for _, one in state.kept.all():
        why = why_kept(one, state.topic_id_partition, told, COMMAND, now_ms)
        if why:
            first = first or why
        else:
            due.append(one)
    return due, first


async def _carry_out(
    catalog: Catalog,
    fold: Fold,
    doing: Sequence[_Planned],
    now_ms: int,
    tier: str,
    *,
    missing: bool,
) -> list[int]:
    """Purge what is due; the number of segments and bytes."""
    from tierledger.actors.coordinator.unled_log import UnledLog
    from tierledger.tiering.layouts.read_only_storage import ReadOnlyStorageManager
    from tierledger.tiering.layouts.tier_url import open_tier

    purged = [0, 0]
    async with open_tier(tier) as storage:
        if isinstance(storage, ReadOnlyStorageManager):  # Before a purge is said to begin.
            raise RejectedError(
                f"nothing is deleted from {storage.layout}, which is only read here"
            )
        for planned in doing:
            log = await UnledLog.read(catalog, fold, planned.tip)
            if not missing:
                await _probe(storage, log, fold, now_ms)
            after, segments = -1, 1
            try:
                while segments or after >= 0:
                    segments, size, after = await _step(storage, log, after)
                    purged = [purged[0] + segments, purged[1] + size]
            except Exception as error:
                error.add_note(f"{_counted('purged', *purged)} before; repeat the command")
                raise
    return purged


async def _step(
    storage: RemoteStorageManager, log: UnledLog, after: int
) -> tuple[int, int, int]:
    """Purge some segments: their number, their bytes, and behind where to look next."""
    from tierledger.actors.coordinator.purge_requests import COMMAND
    from tierledger.actors.due import purging_of
    from tierledger.events import commands as cmd
    from tierledger.events import log_events
    from tierledger.events.partition.answers import metadata_of
    from tierledger.events.tables.segment_rows import ID

    origin, now_ms = log_events.Origin(COMMAND, None), WallClock().now_ms()
    command = cmd.StartPurges(origin, (), LEASE_MS, AT_A_TIME, after)
    await log.write(command, now_ms)
    going = purging_of(log.state, command, now_ms)
    rows, done = list(map(unpack_row, going.rows)), list[bytes]()
    try:
        for row, stored in zip(rows, going.rows, strict=True):
            segment = metadata_of(log.state.topic_id_partition, stored)
            await storage.delete_log_segment_data(segment)
            done.append(row[ID])
    finally:
        if done:
            await log.write(cmd.EndPurges(origin, tuple(done)), WallClock().now_ms())
    # Behind what was looked at only if nothing due is left there.
    return len(done), sum(row[SIZE] for row in rows), after if done else going.after


async def _probe(storage: RemoteStorageManager, log: UnledLog, fold: Fold, now_ms: int) -> None:
    """Check that it is the tier that has the data: none would be found to delete elsewhere.

    Raises:
        RejectedError: It has none of the segments that nobody has begun to delete.
    """
    from tierledger.actors.coordinator.holding import deletions
    from tierledger.events.partition.answers import metadata_of

    tip = log.state.topic_id_partition
    due, _ = due_of(log.state, deletions(fold.state), now_ms)
    probed = [one for one in due if one.purger is None][:PROBES_MAX]
    for one in probed:
        if await _is_there(storage, metadata_of(tip, one.row)):
            return
    if probed:
        raise RejectedError(
            f"{tip}: the tier has none of {len(probed)} segments that are due; expected the "
            "tier that has their data. --missing purges them nevertheless"
        )


async def _is_there(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> bool:
    if not segment.segment_size_in_bytes:
        return True  # Nothing of it can be fetched.
    try:
        async for _ in storage.fetch_log_segment(segment, 0, 0):
            return True
    except RemoteResourceNotFound:
        return False
    except DataError:
        return True  # It is there, and damaged.
    return True


def _show(plan: Sequence[_Planned], *, wide: bool) -> None:
    if not plan:
        print_note("nothing that was deleted is kept")
        return
    rows = [
        {
            "topic": one.tip.topic,
            "partition": one.tip.partition,
            "due": one.due,
            "bytes": size_cell(one.bytes),
            "kept": one.stays,
            "why not": one.why_not,
        }
        for one in plan
    ]
    print_table(PrintedTable.of(rows, ("why not",)), wide=wide)


def _plain(one: _Planned) -> dict[str, Any]:
    return {
        "topic": one.tip.topic,
        "topic_id": str(one.tip.topic_id),
        "partition": one.tip.partition,
        "due": one.due,
        "due_bytes": one.bytes,
        "kept": one.stays,
        "why_not": one.why_not,
    }


def _text(plan: Sequence[_Planned]) -> str:
    return _counted("", sum(one.due for one in plan), sum(one.bytes for one in plan)).strip()


def _counted(verb: str, segments: int, size: int) -> str:
    return f"{verb} {segments} segments ({size_text(size)})"
