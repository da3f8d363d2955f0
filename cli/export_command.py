"""`export`: the way back to Kafka's own manager."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from tierledger.cli.complete_file import complete_file
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import escaped, print_json, progress
from tierledger.storage.kafka_export import METADATA_PARTITIONS, exported_records


def register(app: typer.Typer) -> None:
    app.command("export")(export)


def export(
    out: Annotated[Path, typer.Argument(help="The file to write; gzipped if named *.gz.")],
    metadata_partitions: Annotated[
        int, typer.Option(min=1, help="Partitions of the metadata topic.")
    ] = METADATA_PARTITIONS,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Write everything as records of Kafka's __remote_log_metadata, one JSON object to a line.

    The file appears under its name when it is complete.
    """
    options = StoreOptions(store, cluster)
    count = asyncio.run(_export(options, out, metadata_partitions))
    if json:
        print_json({"records": count, "out": str(out)})
    else:
        print(f"{count} records in {escaped(str(out))}")


async def _export(options: StoreOptions, out: Path, metadata_partitions: int) -> int:
    count = 0
    async with opened_catalog(options) as catalog:
        readers = [
            catalog.reader(entry.topic_id_partition)
            async for entry in catalog.partitions()
            if not entry.is_forgotten
        ]
        with complete_file(out) as lines, progress("records exported") as on_records:
            async for record in exported_records(readers, metadata_partitions):
                lines.write(record.json_line().encode("ascii"))
                on_records(1)
                count += 1
    return count
