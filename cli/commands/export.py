"""`export`: the way back to Kafka's own manager."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import (
    PARTITION_MAX,
    ClusterOption,
    JsonOption,
    OverwriteOption,
    StoreOption,
)
from tierledger.cli.output import escaped, print_json, print_note, progress
from tierledger.events.kafka.metadata_partition import METADATA_PARTITIONS

if TYPE_CHECKING:
    from tierledger.storage.partition.reader import PartitionReader


async def export(
    out: Annotated[
        Path,
        typer.Argument(
            help="File to write, compressed if its name ends in .gz; - for standard output."
        ),
    ],
    metadata_partitions: Annotated[
        int,
        typer.Option(
            min=1, max=PARTITION_MAX, help="Number of partitions of the metadata topic."
        ),
    ] = METADATA_PARTITIONS,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Write all metadata as records of Kafka's __remote_log_metadata, one JSON object per line.

    The file appears under its name when it is complete. Exit 3: some logs are damaged; their
    partitions are named and left out.
    """
    from tierledger.storage.kafka_export import exported_records
    from tierledger.storage.partition.verification import FindingKind, verify

    require_place(out, overwrite=overwrite)
    count = 0
    damaged: list[str] = []
    readers: list[PartitionReader] = []
    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        async for entry in catalog.partitions():
            if entry.is_forgotten:
                continue
            tip = entry.topic_id_partition
            # Verify the log before writing any of it: half a log would pass for a whole one.
            report = await verify(catalog.reader(tip))
            found = [one for one in report.findings if one.kind is FindingKind.LOG]
            if found:
                print_note(f"{tip} is left out: {found[0].message}")
                damaged.append(str(tip))
            else:
                readers.append(catalog.reader(tip))
        with (
            complete_file(out, overwrite=overwrite) as lines,
            progress("records exported") as on_records,
        ):
            async for record in exported_records(readers, metadata_partitions):
                lines.write(record.json_line().encode("ascii"))
                on_records(1)
                count += 1
    if json:
        print_json({"records": count, "out": str(out), "damaged": damaged})
    else:
        print(f"{count} records in {escaped(str(out))}")
    if damaged:
        raise typer.Exit(ExitStatus.PARTLY)
