"""`cat`: a partition's records straight from the remote tier; no broker and no service."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import (
    StoreOptions,
    ask,
    found_partition,
    kept_text,
    opened_catalog,
)
from tierledger.cli.options import (
    OFFSET_MAX,
    ClusterOption,
    DeletedOption,
    PartitionArgument,
    StoreOption,
    TierOption,
    number_or_time,
)
from tierledger.cli.output import print_note
from tierledger.cli.settings import tier_options
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import (
    InvalidArgument,
    PartitionDeleted,
    RemoteResourceNotFound,
    StoreRefused,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.storage.catalog import Catalog
    from tierledger.tiering.formats.records import LostRecords, Record
    from tierledger.tiering.index_cache.cache import RemoteIndexCache
    from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

JSON, RAW = "json", "raw"
FORMATS = (JSON, RAW)
ISOLATIONS = ("read_uncommitted", "read_committed")

T = TypeVar("T")

WRITE_BYTES = 256 << 10
"""Bytes that are gathered before a write: writing each record would be slower than reading."""


FromOffsetOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=OFFSET_MAX,
        help="First offset to print; by default the earliest in the tier.",
    ),
]
FromTimestampOption = Annotated[
    str | None,
    typer.Option(
        metavar="MS|TIME",
        help="Begin with the first record of this time or later: ms since 1970 (N or ms:N), "
        "ISO 8601, UTC by default, or how long ago, like 90m.",
    ),
]
ToOffsetOption = Annotated[
    int | None,
    typer.Option(
        min=0, max=OFFSET_MAX, help="Stop before this offset; by default at the tier's end."
    ),
]
MaxRecordsOption = Annotated[
    int | None, typer.Option(min=0, max=OFFSET_MAX, help="Stop after this number of records.")
]
IsolationOption = Annotated[
    str,
    typer.Option(
        metavar="|".join(ISOLATIONS),
        help="read_committed leaves out aborted transactions and stops before the first "
        "unfinished one.",
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        metavar="|".join(FORMATS),
        help="json: one object per line for each record; raw: record batches as the log "
        "holds them.",
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder for cached indexes; by default in your own cache folder."
    ),
]


class Wanted(NamedTuple):
    """Which records are wanted, and how they are shown."""

    from_offset: int | None
    from_timestamp: int | None
    to_offset: int | None
    max_records: int | None
    isolation: str
    format: str

    def check(self) -> None:
        """Refuse options that contradict each other, before anything is opened."""
        if self.from_offset is not None and self.from_timestamp is not None:
            raise InvalidArgument("expected --from-offset or --from-timestamp, got both")
        if self.to_offset is not None and self.to_offset < (self.from_offset or 0):
            raise InvalidArgument(
                f"--to-offset: expected --from-offset, which is {self.from_offset}, or more, "
                f"got {self.to_offset}"
            )
        if self.isolation not in ISOLATIONS:
            raise InvalidArgument(
                f"--isolation: expected {' or '.join(ISOLATIONS)}, got {self.isolation!r}"
            )
        if self.format not in FORMATS:
            raise InvalidArgument(
                f"--format: expected {' or '.join(FORMATS)}, got {self.format!r}"
            )
        if self.format == RAW and self.max_records is not None:
            raise InvalidArgument("--max-records: --format raw prints whole batches")


async def cat(
    topic: TopicArgument,
    partition: PartitionArgument,
    tier: TierOption,
    from_offset: FromOffsetOption = None,
    from_timestamp: FromTimestampOption = None,
    to_offset: ToOffsetOption = None,
    max_records: MaxRecordsOption = None,
    isolation: IsolationOption = ISOLATIONS[0],
    format: FormatOption = JSON,  # noqa: A002 - The option's name.
    cache: CacheOption = None,
    deleted: DeletedOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Print a partition's records from the remote tier, without any broker."""
    from tierledger.tiering.layouts.tier_url import open_tier
    from tierledger.tiering.reader.reader import RemoteLogReader
    from tierledger.tiering.stored_metadata import StoredMetadata

    since_ms = None
    if from_timestamp is not None:
        number, time_ms = number_or_time(from_timestamp, "--from-timestamp", "ms")
        since_ms = number if time_ms is None else time_ms
    wanted = Wanted(from_offset, since_ms, to_offset, max_records, isolation, format)
    wanted.check()
    log_to_stderr()
    async with (
        opened_catalog(StoreOptions(store, cluster)) as catalog,
        open_tier(tier, tier_options()) as storage,
    ):
        tip = await found_partition(catalog, topic, partition)
        async with _opened_cache(cache, storage) as indexes:
            metadata = StoredMetadata(catalog.reader, with_deleted=deleted)
            reader = RemoteLogReader(metadata, storage, tip, indexes)
            try:
                written, lost = await _print(reader, tip, wanted)
            except PartitionDeleted as error:
                if kept := await _kept(catalog, tip):
                    error.add_note(kept_text(kept))
                raise
            except RemoteResourceNotFound as error:
                error.add_note(
                    "expected --tier to be the URL below which the segments were copied; "
                    "tierledger scrub tells what is damaged there"
                )
                raise
        if not (written or lost or deleted) and (kept := await _kept(catalog, tip)):
            print_note(kept_text(kept))
    for one in lost:
        print_note(f"left out: {one.error}")
    if lost:
        raise typer.Exit(ExitStatus.PARTLY)


async def _print(
    reader: RemoteLogReader, tip: TopicIdPartition, wanted: Wanted
) -> tuple[int, list[LostRecords]]:
    """Print what is wanted: how many records or batches, and which records were left out."""
    from tierledger.tiering.reader.reader import IsolationLevel

    isolation = IsolationLevel(wanted.isolation)
    lost: list[LostRecords] = []
    start = wanted.from_offset
    if wanted.from_timestamp is not None:
        start = await reader.from_timestamp(wanted.from_timestamp)
        end = OFFSET_MAX if wanted.to_offset is None else wanted.to_offset
        if start is not None and start > end:
            print_note(f"the records of that time begin at {start}, behind --to-offset")
    if wanted.format == RAW:
        batches = reader.batches(start, isolation, wanted.to_offset)
        written = await _write(batches, lambda batch: batch.data, None)
    else:
        records = reader.records(start, isolation, wanted.to_offset, lost.append)
        written = await _write(records, _lines_of(tip), wanted.max_records)
    if not (written or lost):
        await _note_nothing(reader, start)
    await _note_unfinished(reader, isolation, wanted)
    return written, lost


async def _kept(catalog: Catalog, tip: TopicIdPartition) -> int:
    """How many segments of a partition are in the trash."""
    return await ask(catalog.reader(tip), None, lambda state: len(state.kept))


async def _note_nothing(reader: RemoteLogReader, start: int | None) -> None:
    """Note why nothing was printed, if the tier has no record from `start` on."""
    end = await reader.end_offset()
    if end is None:
        print_note("the tier has no segment of it")
    elif start is not None and start >= end:
        print_note(f"the tier has no such record: its last offset is {end - 1}")


async def _write(
    items: AsyncIterator[T], text_of: Callable[[T], bytes], items_max: int | None
) -> int:
    """Write the items; how many there were."""
    from tierledger.tiering.closing import closing

    written = 0
    with _Output() as output:
        async with closing(items):
            while items_max is None or written < items_max:
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    break
                output.write(text_of(item))
                written += 1
    return written


def _lines_of(tip: TopicIdPartition) -> Callable[[Record], bytes]:
    def line(record: Record) -> bytes:
        fields: dict[str, Any] = {
            "topic": tip.topic,
            "partition": tip.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "timestamp_type": record.timestamp_type,
            "leader_epoch": record.leader_epoch,
            "key_hex": _hex(record.key),
            "value_hex": _hex(record.value),
            "headers": [[name, _hex(value)] for name, value in record.headers],
        }
        if record.header_names is not None:
            fields["header_names_hex"] = [name.hex() for name in record.header_names]
        return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"

    return line


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


async def _note_unfinished(
    reader: RemoteLogReader, isolation: IsolationLevel, wanted: Wanted
) -> None:
    """Note why the reader stopped before the tier's end, if it did."""
    from tierledger.tiering.reader.reader import IsolationLevel

    if isolation is not IsolationLevel.READ_COMMITTED or wanted.max_records is not None:
        return
    stable, end = await reader.end_offset(isolation), await reader.end_offset()
    if stable is None or end is None or stable == end:
        return
    if wanted.to_offset is None or wanted.to_offset > stable:
        print_note(
            f"stopped before offset {stable}: the transaction that begins there has not ended "
            f"in the tier, which reaches to {end - 1}"
        )


@asynccontextmanager
async def _opened_cache(
    directory: Path | None, storage: RemoteStorageManager
) -> AsyncIterator[RemoteIndexCache | None]:
    """The index cache; none if it cannot be used, since reading works without it."""
    from tierledger.tiering.index_cache.cache import RemoteIndexCache

    if directory is None:
        from platformdirs import user_cache_path

        try:
            directory = user_cache_path("tierledger", appauthor=False) / "indexes"
        except RuntimeError:
            print_note("indexes are read from the tier: there is no home folder for a cache")
            yield None
            return
    cache = RemoteIndexCache(directory, storage)
    try:
        await cache.open()
    except StoreRefused as error:
        print_note(f"indexes are read from the tier, not from the cache: {error}")
        yield None
        return
    try:
        yield cache
    finally:
        await cache.close()


class _Output:
    """Standard output, as bytes; gathered bytes are written when the block ends."""

    def __init__(self) -> None:
        self._gathered: list[bytes] = []
        self._bytes = 0

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        # Also after an error: the records before it are good, and were asked for.
        self._flush()

    def write(self, data: bytes) -> None:
        self._gathered.append(data)
        self._bytes += len(data)
        if self._bytes >= WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        data, self._gathered, self._bytes = b"".join(self._gathered), [], 0
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
