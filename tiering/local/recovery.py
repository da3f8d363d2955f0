"""Reads the files of a local log: its segments, its end, and its open transactions.

It blocks, so `directory` calls it in a thread. No file is changed: bytes that a crash left
behind the last whole batch are not part of the log, and stay in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tierledger.events.errors import CorruptRemoteData
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.formats.index_files import TIME_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.producer_snapshot import (
    open_transactions,
    parse_producer_snapshot,
)
from tierledger.tiering.formats.record_batches import (
    BatchSplitter,
    RecordBatch,
    note_transaction,
)
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.local.segment_files import (
    LOG_SUFFIX,
    index_file,
    segment_file,
    snapshot_file,
)

PIECE_BYTES: Final = 1 << 20
"""Bytes of a log file per read."""

_LOG_NAME = re.compile(r"(\d{20})" + re.escape(LOG_SUFFIX), re.ASCII)

_log = ProcessLog("tierledger.tiering")


class LogFiles(NamedTuple):
    """The state of a log at one moment."""

    segments: tuple[LocalSegment, ...]
    log_end_offset: int
    first_open_offset: int | None
    """Where the oldest open transaction begins; none if none is open."""


def segment_bases(folder: Path) -> list[int]:
    """Base offsets of the segments in `folder`, ascending."""
    names = (_LOG_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(name[1]) for name in names if name is not None)


def read_log(folder: Path, known: Sequence[LocalSegment] = ()) -> LogFiles:
    """The log in `folder`. Unchanged closed segments are taken from `known`, not read again.

    Raises:
        CorruptRemoteData: A batch in the middle of the log is damaged.
        RejectedError: The log has messages from before Kafka 0.11.
    """
    bases = segment_bases(folder)
    start, opened = _newest_snapshot(folder, bases)
    tail = [_Batches(folder, base) for base in bases if base >= start]
    for read in tail:
        for batch in read.all(is_active=read is tail[-1]):
            note_transaction(opened, batch)
    before = {one.base_offset: one for one in known}
    segments = [
        _closed_segment(folder, base, following, before.get(base))
        for base, following in pairwise(bases)
    ]
    segments.append(tail[-1].as_segment())
    return LogFiles(tuple(segments), tail[-1].end_offset, min(opened.values(), default=None))


class _Batches:
    """Reads one segment's batches, and sums up end, size and latest timestamp."""

    def __init__(self, folder: Path, base_offset: int) -> None:
        self._base_offset = base_offset
        self._path = segment_file(folder, base_offset)
        self.end_offset = base_offset
        self._size_in_bytes = 0
        self._latest_ms = -1

    def all(self, *, is_active: bool) -> Iterator[RecordBatch]:
        """All batches in order; in the active segment, those before the first damaged one.

        Raises:
            CorruptRemoteData: A closed segment is damaged.
        """
        splitter = BatchSplitter(str(self._path), 0, self._path.stat().st_size)
        with self._path.open("rb") as file:
            try:
                while piece := file.read(PIECE_BYTES):
                    for batch in splitter.feed(piece):
                        self.end_offset = batch.last_offset + 1
                        self._size_in_bytes = splitter.position
                        self._latest_ms = max(self._latest_ms, batch.max_timestamp_ms)
                        yield batch
                splitter.finish()
            except CorruptRemoteData as error:
                if not is_active:
                    raise
                _log.warning("a log ends before its file does", error=str(error))

    def latest_ms(self) -> int:
        """The largest timestamp; as in Kafka the file's time if no record has one."""
        if self._latest_ms >= 0:
            return self._latest_ms
        return self._path.stat().st_mtime_ns // 1_000_000

    def as_segment(self) -> LocalSegment:
        """The segment, which ends with its last whole batch."""
        return LocalSegment(
            self._base_offset,
            self.end_offset,
            self._size_in_bytes,
            self.latest_ms(),
            self._path,
        )


def _closed_segment(
    folder: Path, base: int, following: int, known: LocalSegment | None
) -> LocalSegment:
    path = segment_file(folder, base)
    size = path.stat().st_size
    if known is not None and (known.next_base_offset, known.size_in_bytes) == (following, size):
        return known
    latest = _latest_by_index(path, base, following)
    if latest is None:
        read = _Batches(folder, base)
        for _ in read.all(is_active=False):
            pass
        latest = read.latest_ms()
    return LocalSegment(base, following, size, latest, path)


def _latest_by_index(path: Path, base: int, following: int) -> int | None:
    """The largest timestamp, from the last entry of the time index; none if not plausible.

    Kafka writes that entry when it closes a segment.
    """
    try:
        data = index_file(path, IndexType.TIMESTAMP).read_bytes()
    except FileNotFoundError:
        return None
    if not data or len(data) % TIME_ENTRY.size:
        return None
    latest, relative = TIME_ENTRY.unpack_from(data, len(data) - TIME_ENTRY.size)
    is_likely = latest > 0 and 0 <= relative < following - base
    return int(latest) if is_likely else None


def _newest_snapshot(folder: Path, bases: Sequence[int]) -> tuple[int, dict[int, int]]:
    """The segment from which to read, and the transactions open at its start, by producer."""
    for base in reversed(bases):
        path = snapshot_file(folder, base)
        try:
            producers = parse_producer_snapshot(path.read_bytes(), str(path))
        except FileNotFoundError:
            continue
        except CorruptRemoteData as error:
            _log.warning("a producer snapshot is passed over", error=str(error))
            continue
        return base, open_transactions(producers)
    return bases[0], {}
