"""`export`: the way back to Kafka's own manager."""

from __future__ import annotations

import asyncio
import gzip
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import escaped, print_json, progress
from tierledger.events.errors import InvalidArgument
from tierledger.storage.kafka_export import METADATA_PARTITIONS, exported_records

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@contextmanager
def complete_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that gets its name, and becomes durable, when the block ends well.

    Raises:
        InvalidArgument: It cannot be written.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        try:
            with unfinished.open("wb") as file:
                if path.suffix == ".gz":
                    # Without name and time: one store gives one file, byte for byte.
                    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                        yield cast("BinaryIO", packed)
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror or error}") from error
