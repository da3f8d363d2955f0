"""A partition's folder of a Kafka log directory as a `LocalLog`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.durable_files import flush, replace_durably
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tierledger.tiering.formats.offset_checkpoint import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    read_offsets,
    write_offset,
)
from tierledger.tiering.formats.producer_snapshot import parse_producer_snapshot
from tierledger.tiering.local.leader_epochs import epochs_from, epochs_until
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.local.recovery import LogFiles, read_log, segment_bases
from tierledger.tiering.local.segment_files import index_file, segment_file, snapshot_file

LEADER_EPOCHS = "leader-epoch-checkpoint"
_SEGMENT_SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot")


class LogDirectory:
    """The log in one folder `<topic>-<partition>`, as it was at the last `refresh`.

    Beside the folder are the broker's checkpoints. That of log start offsets is kept up to
    date; a partition without an entry starts at 0, as a tiered log in Kafka. That of high
    watermarks is only read; without the file, all records count as replicated.
    """

    def __init__(self, folder: Path, topic_id_partition: TopicIdPartition) -> None:
        """For `open` only."""
        self._folder = folder
        self._tip = topic_id_partition
        self._changing = threading.Lock()
        """Held by the threads that work on files. They go on even if their caller is cancelled,
        so without it two could run at once."""
        self._files = LogFiles((), 0, None)
        self._high_watermark: int | None = None
        self._log_start_offset = 0
        self._leader_epochs: dict[int, int] = {}
        self._highest_remote = -1

    @classmethod
    async def open(cls, folder: Path, topic_id_partition: TopicIdPartition) -> Self:
        """The log in `folder`. In an empty folder, a segment is created at the log's start.

        Raises:
            CorruptRemoteData: A checkpoint or a batch in the middle of the log is damaged.
            RejectedError: The log has messages from before Kafka 0.11.
            OSError: The folder cannot be read.
        """
        log = cls(folder, topic_id_partition)
        await log.refresh()
        return log

    async def refresh(self) -> None:
        """Read the files again. Raises as `open` does."""
        await asyncio.to_thread(self._refresh)

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self._tip

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def last_stable_offset(self) -> int:
        bounds = (self.log_end_offset, self._files.first_open_offset, self._high_watermark)
        return min(one for one in bounds if one is not None)

    @property
    def log_end_offset(self) -> int:
        return self._files.log_end_offset

    @property
    def leader_epochs(self) -> Mapping[int, int]:
        return self._leader_epochs

    @property
    def highest_offset_in_remote_storage(self) -> int:
        return self._highest_remote

    def segments(self) -> tuple[LocalSegment, ...]:
        return self._files.segments

    async def raise_highest_offset_in_remote_storage(self, offset: int) -> None:
        self._highest_remote = max(self._highest_remote, offset)

    async def raise_log_start_offset(self, offset: int) -> None:
        if offset > self.log_end_offset:
            raise InvalidArgument(
                f"{self._tip}: expected a log start of at most {self.log_end_offset}, "
                f"where the log ends, got {offset}"
            )
        if offset > self._log_start_offset:
            await asyncio.to_thread(self._raise_log_start_offset, offset)

    async def restart_at(
        self,
        offset: int,
        leader_epochs: Mapping[int, int],
        producer_snapshot: bytes,
        start: int,
    ) -> None:
        """As `LocalLog.restart_at`; all arguments are checked before anything is dropped.

        A crash leaves the first segments of the old log, an empty log, or the new log.

        Raises:
            InvalidArgument: `start` is negative or behind `offset`.
            CorruptRemoteData: `producer_snapshot` cannot be parsed.
        """
        if not 0 <= start <= offset:
            raise InvalidArgument(
                f"{self._tip}: expected a log start of 0 to {offset}, got {start}"
            )
        parse_producer_snapshot(producer_snapshot, f"{self._tip}: producer snapshot")
        await asyncio.to_thread(
            self._restart_at, offset, leader_epochs, producer_snapshot, start
        )

    # The methods below run in threads, one at a time.

    def _refresh(self) -> None:
        with self._changing:
            self._load()

    def _load(self) -> None:
        log_starts = read_offsets(self._beside(LOG_START_OFFSETS)) or {}
        high_watermarks = read_offsets(self._beside(HIGH_WATERMARKS))
        start = max(self._log_start_offset, log_starts.get(self._key, 0))
        if not segment_bases(self._folder):
            self._make_segment(start)
        files = read_log(self._folder, self._files.segments)
        epochs = epochs_until(self._read_epochs(), files.log_end_offset + 1)
        self._files = files
        self._log_start_offset = start
        self._high_watermark = (
            None if high_watermarks is None else high_watermarks.get(self._key, 0)
        )
        self._leader_epochs = epochs_from(epochs, start)

    def _read_epochs(self) -> dict[int, int]:
        path = self._folder / LEADER_EPOCHS
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        return parse_leader_epochs(data, str(path))

    def _raise_log_start_offset(self, offset: int) -> None:
        with self._changing:
            if offset <= self._log_start_offset:
                return
            epochs = epochs_from(self._leader_epochs, offset)
            write_offset(self._beside(LOG_START_OFFSETS), *self._key, offset)
            if epochs != self._leader_epochs:
                replace_durably(self._folder / LEADER_EPOCHS, format_leader_epochs(epochs))
            self._log_start_offset, self._leader_epochs = offset, epochs

    def _restart_at(
        self,
        offset: int,
        leader_epochs: Mapping[int, int],
        producer_snapshot: bytes,
        start: int,
    ) -> None:
        with self._changing:
            self._remove_segments()
            replace_durably(snapshot_file(self._folder, offset), producer_snapshot)
            data = format_leader_epochs(leader_epochs)
            replace_durably(self._folder / LEADER_EPOCHS, data)
            write_offset(self._beside(LOG_START_OFFSETS), *self._key, start)
            self._make_segment(offset)
            self._files = LogFiles((), 0, None)
            self._log_start_offset = 0  # Let the leader's `start` apply, even if it is lower.
            self._load()

    def _remove_segments(self) -> None:
        """Remove all segments, newest first, so that a crash leaves a log without a hole."""
        stems = {
            path.stem for one in _SEGMENT_SUFFIXES for path in self._folder.glob(f"*.{one}")
        }
        for stem in sorted(stems, reverse=True):
            for suffix in _SEGMENT_SUFFIXES:
                (self._folder / f"{stem}.{suffix}").unlink(missing_ok=True)
        flush(self._folder)

    def _make_segment(self, base_offset: int) -> None:
        path = segment_file(self._folder, base_offset)
        for made in (
            index_file(path, IndexType.OFFSET),
            index_file(path, IndexType.TIMESTAMP),
            path,
        ):
            made.touch()
        flush(self._folder)

    @property
    def _key(self) -> tuple[str, int]:
        return self._tip.topic, self._tip.partition

    def _beside(self, name: str) -> Path:
        return self._folder.parent / name
