"""The names of the files of a local log's segments."""

from __future__ import annotations

from pathlib import Path

from tierledger.tiering.formats.index_type import IndexType

LOG_SUFFIX = ".log"


def segment_file(folder: Path, base_offset: int) -> Path:
    """The log file of the segment that begins at `base_offset`."""
    return folder / f"{base_offset:020}{LOG_SUFFIX}"


def index_file(log_file: Path, index_type: IndexType) -> Path:
    return log_file.with_suffix(f".{index_type.value}")


def snapshot_file(folder: Path, offset: int) -> Path:
    """The file of the producer snapshot at `offset`."""
    return folder / f"{offset:020}.{IndexType.PRODUCER_SNAPSHOT.value}"
