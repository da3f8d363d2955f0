"""`undelete`: what was deleted and is kept, brought back into a topic."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.cli.options import (
    OFFSET_MAX,
    ClusterOption,
    JsonOption,
    OverwriteOption,
    StoreOption,
    TierOption,
    brokers_at,
    file_option,
)
from tierledger.cli.output import print_json, print_note, progress
from tierledger.cli.settings import tier_options
from tierledger.cli.table import PrintedTable, WideOption, print_table, size_cell, time_cell
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.pipeline.undeletion import Deleted, Undeletion, Undone
    from tierledger.storage.catalog import Catalog
    from tierledger.tiering.reader.reader import RemoteLogReader
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

ISOLATIONS = ("read_committed", "read_uncommitted")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


async def undelete(
    topic: TopicArgument,
    partitions: Annotated[
        list[int] | None,
        typer.Argument(help="Only these partitions; by default all with deleted segments."),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="NEW",
            help="The topic to write; it is made if it is not there. Partitions keep their "
            "numbers.",
        ),
    ],
    tier: TierOption,
    kafka: Annotated[
        str, typer.Option(metavar="HOST:PORT,…", help="Addresses of Kafka's brokers.")
    ],
    kafka_config: Annotated[
        Path | None, file_option("TLS and login settings, as of Kafka's own tools.")
    ] = None,
    from_offset: Annotated[
        int | None,
        typer.Option(min=0, max=OFFSET_MAX, help="First offset; by default the first deleted."),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option(
            min=0, max=OFFSET_MAX, help="Stop before it; by default the last deleted."
        ),
    ] = None,
    isolation: Annotated[
        str,
        typer.Option(
            metavar="|".join(ISOLATIONS),
            help="read_committed leaves out aborted transactions, and what has no end.",
        ),
    ] = ISOLATIONS[0],
    compression: Annotated[
        str, typer.Option(metavar="|".join(COMPRESSIONS), help="Codec of the new batches.")
    ] = "zstd",
    no_create: Annotated[
        bool, typer.Option("--no-create", help="Refuse a topic that is not there.")
    ] = False,
    offsets_to: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="At the end, read the new topic back, compare each record, and write which "
            "offsets became which, one range per line.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
    overwrite: OverwriteOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    wide: WideOption = False,
    json: JsonOption = False,
) -> None:
    """Bring records of a deleted topic back, or those that retention deleted, into a topic.

    They are read from the tier, where segments are kept (`trash ls`). Keys, values, headers,
    times and order stay; offsets do not. A run that was stopped goes on when it is repeated,
    and writes nothing twice. Exit 3: records that nobody can decode are left out, and named.
    """
    from tierledger.pipeline.undeletion import Undeletion, prepare
    from tierledger.tiering.layouts.tier_url import open_tier
    from tierledger.tiering.reader.reader import IsolationLevel

    for what, value, known in (
        ("isolation", isolation, ISOLATIONS),
        ("compression", compression, COMPRESSIONS),
    ):
        if value not in known:
            raise InvalidArgument(
                f"--{what}: expected one of {', '.join(known)}; got {value!r}"
            )
    if to_offset is not None and to_offset <= (from_offset or 0):
        raise InvalidArgument(
            f"--to-offset: expected more than --from-offset, which is {from_offset or 0}, "
            f"got {to_offset}"
        )
    require_place(offsets_to, overwrite=overwrite)
    brokers = brokers_at(kafka, kafka_config)
    log_to_stderr()
    codec = None if compression == "none" else compression
    undeletion = Undeletion(brokers, to, IsolationLevel(isolation), codec)
    async with (
        opened_catalog(StoreOptions(store, cluster)) as catalog,
        open_tier(tier, tier_options()) as storage,
    ):
        plan, partition_count = await _planned(
            catalog, topic, partitions or (), (from_offset, to_offset)
        )
        if not dry_run and await prepare(brokers, to, partition_count, creates=not no_create):
            print_note(
                f"{to} is made, partitions: {partition_count}; its retention.ms is -1, as "
                "retention would delete old records at once"
            )
        begun = await undeletion.progress(plan)
        _note_holes(plan)
        if not json:
            _print_plan(plan, begun, wide=wide)
        if dry_run:
            if json:
                _print_planned(plan, begun)
            return
        is_whole = True
        for one in plan:
            undone = await _brought_back(undeletion, one, _reader(catalog, storage, one))
            is_whole &= not undone.lost
            _tell(one, undone, to, json=json)
        if offsets_to is not None:
            readers = [(one, _reader(catalog, storage, one)) for one in plan]
            with complete_file(offsets_to, overwrite=overwrite) as file:
                await _write_map(undeletion, readers, file)
    if not is_whole:
        raise typer.Exit(ExitStatus.PARTLY)


async def _planned(
    catalog: Catalog,
    topic: str,
    wanted: Sequence[int],
    offsets: tuple[int | None, int | None],
) -> tuple[list[Deleted], int]:
    """What is to be brought back, and how many partitions the topic had."""
    from tierledger.pipeline.undeletion import Deleted

    tips = await chosen_partitions(catalog, topic, None)
    numbers = {one.partition for one in tips}
    for number in wanted:
        if number not in numbers:
            raise RemoteResourceNotFound(
                f"{topic} has no partition {number}: expected one of "
                f"{', '.join(map(str, sorted(numbers)))}"
            )
    found = []
    for tip in sorted(tips, key=lambda one: one.partition):
        if wanted and tip.partition not in wanted:
            continue
        deleted = Deleted.of((await catalog.reader(tip).state()).state, *offsets)
        if deleted is not None:
            found.append(deleted)
    if not found:
        raise RemoteResourceNotFound(
            f"nothing that was deleted of {topic} is kept: `trash ls` shows what is; a topic "
            "that was made again under the name has another id"
        )
    return found, max(numbers) + 1


def _note_holes(plan: Sequence[Deleted]) -> None:
    for one in plan:
        for first, last in one.holes:
            print_note(f"{one.tip}: offsets {first} to {last} are in no segment that is kept")


def _print_planned(plan: Sequence[Deleted], begun: Mapping[int, int]) -> None:
    for one in plan:
        told = {**one._asdict(), "tip": str(one.tip), "partition": one.tip.partition}
        print_json({**told, "begins_at": begun.get(one.tip.partition)})


def _print_plan(plan: Sequence[Deleted], begun: Mapping[int, int], *, wide: bool) -> None:
    rows = [
        {
            "partition": one.tip.partition,
            "first": one.first_offset,
            "end": one.end_offset,
            "segments": one.segments,
            "bytes": size_cell(one.size_in_bytes),
            "newest": time_cell(one.max_timestamp_ms),
            "begins at": begun.get(one.tip.partition, one.first_offset),
        }
        for one in plan
    ]
    print_table(PrintedTable.of(rows, ("newest", "segments")), wide=wide)


async def _brought_back(
    undeletion: Undeletion, deleted: Deleted, reader: RemoteLogReader
) -> Undone:
    """Bring one partition's records back, and note what is left out."""
    tip = deleted.tip
    with progress(f"{tip.topic}-{tip.partition}: bytes") as on_bytes:
        undone = await undeletion.run(deleted, reader, on_bytes)
    for lost in undone.lost:
        print_note(f"{tip}: {lost.first} to {lost.last} are left out: {lost.error}")
    if undone.next_offset < deleted.end_offset:
        print_note(
            f"{tip}: stopped before offset {undone.next_offset}: the transaction that begins "
            "there has not ended in the tier"
        )
    return undone


async def _write_map(
    undeletion: Undeletion, readers: Sequence[tuple[Deleted, RemoteLogReader]], file: BinaryIO
) -> None:
    """Compare each record of the new topic, and write which offsets became which."""
    for deleted, reader in readers:
        async for became in undeletion.became(deleted, reader):
            line = json_text.dumps(became._asdict(), separators=(",", ":"))
            file.write(line.encode() + b"\n")


def _tell(deleted: Deleted, undone: Undone, target: str, *, json: bool) -> None:
    if json:
        print_json(
            {
                "topic": deleted.tip.topic,
                "topic_id": str(deleted.tip.topic_id),
                "partition": deleted.tip.partition,
                "to": target,
                "records": undone.records,
                "size_in_bytes": undone.size_in_bytes,
                "next_offset": undone.next_offset,
                "left_out": [[one.first, one.last] for one in undone.lost],
            }
        )
    else:
        print(f"{undone.records} records of {deleted.tip} in {target}")


def _reader(
    catalog: Catalog, storage: RemoteStorageManager, deleted: Deleted
) -> RemoteLogReader:
    from tierledger.tiering.reader.reader import RemoteLogReader
    from tierledger.tiering.stored_metadata import StoredMetadata

    metadata = StoredMetadata(catalog.reader, with_deleted=True)
    return RemoteLogReader(metadata, storage, deleted.tip)
