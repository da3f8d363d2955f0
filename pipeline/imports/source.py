"""Where recorded metadata comes from: JSON lines, Kafka's log segments, or a live topic.

A source is planned as units; one task reads a unit whole. Records are sorted later, so the
order of the units does not matter.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.imports.units import JsonSplit, SegmentFile, TopicRange, Unit
from tierledger.storage.kafka_brokers import KafkaBrokers

METADATA_TOPIC = "__remote_log_metadata"

KAFKA_SCHEME = "kafka:"
"""Prefix of a live topic's address: `kafka:HOST:PORT,HOST:PORT`."""

RECORDS_NAMES = ("records.jsonl", "records.jsonl.gz")
"""Names of a folder's file of JSON lines. If both are there, the plain one is read."""

SPLIT_BYTES = 16 * 1024 * 1024
"""Bytes of JSON lines per task: half a second of parsing. A gzipped file cannot be split."""

BYTES_PER_TASK = 8 * 1024 * 1024
"""Source bytes per writing task. With less, starting tasks costs more than they save."""

OFFSETS_PER_TASK = 250_000
"""Offsets of a live topic per task: some seconds of reading."""

RECORD_BYTES = 100
"""Assumed size of a record of a live topic, of which only the number of offsets is known."""

GZIP_MAGIC = b"\x1f\x8b"
_PARTITION_FOLDER = re.compile(r"(.+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Source:
    """A planned source. What is appended to it after planning is not imported."""

    units: tuple[Unit, ...]
    size_in_bytes: int
    """An estimate."""
    name: str
    """Default name of the recorded cluster."""


def planned_source(
    text: str, topic: str = METADATA_TOPIC, kafka_config: str | None = None
) -> Source:
    """The source at `text`: a file, a folder, or `kafka:HOST:PORT`.

    `kafka_config` is a file of client settings for the brokers.

    Raises:
        InvalidArgument: There are no recorded metadata, or the address has another form.
        RemoteResourceNotFound: The brokers have no such topic.
        StorageUnavailable: The brokers do not answer.
    """
    if text.startswith(KAFKA_SCHEME):
        return _live(KafkaBrokers(text.removeprefix(KAFKA_SCHEME), kafka_config), topic)
    path = Path(text)
    try:
        if not path.exists():
            raise InvalidArgument(f"expected recorded metadata, but {path} does not exist")
        if path.is_file():
            return _json_lines(path)
        for name in RECORDS_NAMES:
            if (path / name).is_file():
                return _json_lines(path / name)
        return _segments(path, topic)
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror or error}") from error


def _json_lines(path: Path) -> Source:
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(len(GZIP_MAGIC))
    name = path.resolve().parent.name if path.name in RECORDS_NAMES else path.stem
    if magic == GZIP_MAGIC:
        # Lines of hex shrink to about a fifth.
        return Source((JsonSplit(str(path.absolute()), 0, 0, True),), size * 5, name)
    splits = tuple(
        JsonSplit(str(path.absolute()), start, min(start + SPLIT_BYTES, size), False)
        for start in range(0, size, SPLIT_BYTES)
    )
    return Source(splits, size, name)


def _segments(folder: Path, topic: str) -> Source:
    """The topic's segments in `folder`: a partition's own, or one with such folders in it."""
    units: list[SegmentFile] = []
    size = 0
    for path in (folder, *sorted(folder.iterdir())):
        if not path.is_dir():  # A symbolic link to itself is no folder, either.
            continue
        found = _PARTITION_FOLDER.fullmatch(path.resolve().name)
        if found is None or found[1] != topic:
            continue
        files = sorted(path.glob("*.log"))
        size += sum(file.stat().st_size for file in files)
        units += (
            SegmentFile(str(file.absolute()), int(found[2]), file == files[-1])
            for file in files
        )
    if not units:
        raise InvalidArgument(
            f"expected {' or '.join(RECORDS_NAMES)}, or folders {topic}-N with log segments, "
            f"in {folder}; found none"
        )
    return Source(tuple(units), size, folder.resolve().name)


def _live(brokers: KafkaBrokers, topic: str) -> Source:
    # Imported here: reading files does not need aiokafka.
    from tierledger.pipeline.imports.topic import offsets_of  # noqa: PLC0415

    units = [
        TopicRange(brokers, topic, partition, start, min(start + OFFSETS_PER_TASK, end))
        for partition, (first, end) in asyncio.run(offsets_of(brokers, topic)).items()
        for start in range(first, end, OFFSETS_PER_TASK)
    ]
    size = sum(unit.end - unit.start for unit in units) * RECORD_BYTES
    return Source(tuple(units), size, topic)


def tasks_for(size_in_bytes: int, cores: int) -> int:
    """How many tasks should write the logs of a source of `size_in_bytes`."""
    return max(1, min(4 * cores, -(-size_in_bytes // BYTES_PER_TASK)))
