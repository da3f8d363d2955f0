"""Where recorded metadata comes from: JSON lines, Kafka's log segments, or a live topic.

A source is planned into units, each of which one task reads whole; what they hold is sorted
later, so their order means nothing.
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
"""What a live topic's brokers follow: `kafka:HOST:PORT,HOST:PORT`."""

RECORDS_NAMES = ("records.jsonl", "records.jsonl.gz")
"""What a folder calls its file of JSON lines; the plain one is read where both are there."""

SPLIT_BYTES = 16 * 1024 * 1024
"""What one task reads of a file of JSON lines: half a second of parsing. A gzipped one
cannot be entered in the middle."""

BYTES_PER_TASK = 8 * 1024 * 1024
"""Source bytes for each task that writes: below, starting tasks costs more than they save."""

OFFSETS_PER_TASK = 250_000
"""What one task reads of a live topic: seconds."""

RECORD_BYTES = 100
"""About what a record of a live topic has; only how many there are is known."""

GZIP_MAGIC = b"\x1f\x8b"
_PARTITION_FOLDER = re.compile(r"(.+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Source:
    """What is imported, up to where it went when it was planned."""

    units: tuple[Unit, ...]
    size_in_bytes: int
    """About as much."""
    name: str
    """What the recorded cluster is called if nobody says."""


def planned_source(
    text: str, topic: str = METADATA_TOPIC, kafka_config: str | None = None
) -> Source:
    """What `text` names: a file, a folder, or `kafka:HOST:PORT`, with that file of its clients.

    Raises:
        InvalidArgument: There is nothing of the kind there.
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
        # A line of hex shrinks to a fifth, more or less.
        return Source((JsonSplit(str(path.absolute()), 0, 0, True),), size * 5, name)
    splits = tuple(
        JsonSplit(str(path.absolute()), start, min(start + SPLIT_BYTES, size), False)
        for start in range(0, size, SPLIT_BYTES)
    )
    return Source(splits, size, name)


def _segments(folder: Path, topic: str) -> Source:
    """The topic's segments in a folder of a partition, or in a broker's with such folders."""
    units: list[SegmentFile] = []
    size = 0
    for path in (folder, *sorted(folder.iterdir())):
        if not path.is_dir():  # A link to itself is none either.
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
    if not re.fullmatch(r"[^\s,]+:\d+(,[^\s,]+:\d+)*", brokers.addresses):
        raise InvalidArgument(f"expected kafka:HOST:PORT,HOST:PORT,…; got kafka:{brokers}")
    # Imported here: who reads files does without.
    from tierledger.pipeline.imports.topic import offsets_of  # noqa: PLC0415

    units = [
        TopicRange(brokers, topic, partition, start, min(start + OFFSETS_PER_TASK, end))
        for partition, (first, end) in asyncio.run(offsets_of(brokers, topic)).items()
        for start in range(first, end, OFFSETS_PER_TASK)
    ]
    size = sum(unit.end - unit.start for unit in units) * RECORD_BYTES
    return Source(tuple(units), size, topic)


def tasks_for(size_in_bytes: int, cores: int) -> int:
    """How many tasks should write what so many bytes hold."""
    return max(1, min(4 * cores, -(-size_in_bytes // BYTES_PER_TASK)))
