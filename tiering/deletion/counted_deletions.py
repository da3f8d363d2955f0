"""Deletion of segments by one broker, which counts them and updates its index cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from tierledger.events.errors import NotReady, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.storage.clock import Clock
from tierledger.storage.process_log import ProcessLog
from tierledger.storage.slewed_clock import SlewedClock
from tierledger.tiering.deletion.segment_deletion import delete_segment
from tierledger.tiering.metadata_ports import RemoteLogMetadataStore
from tierledger.tiering.metrics.tier_metrics import (
    CLOCK_JUMPS,
    DELETE_ERRORS,
    DELETE_REQUESTS,
    TierMetrics,
)
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

RemoveIndexes = Callable[[Iterable[RemoteLogSegmentId]], None]

_log = ProcessLog("tierledger.tiering")


def no_index_cache(_: Iterable[RemoteLogSegmentId]) -> None:
    """The `remove_indexes` of a broker without an index cache."""


class CountedDeletions:
    """Deletes segments for a broker's retention, remover and copies; all tasks share one.

    Retention uses `retention_clock`, which follows a jump of `clock` only slowly. It lives as
    long as this object, not as long as a task: a jump may well cause an election, and a clock
    that was made anew then would start with the wrong time.
    """

    def __init__(
        self,
        store: RemoteLogMetadataStore,
        storage: RemoteStorageManager,
        clock: Clock,
        broker_id: int,
        metrics: TierMetrics,
        remove_indexes: RemoveIndexes = no_index_cache,
        monotonic_s: Callable[[], float] | None = None,
    ) -> None:
        """`remove_indexes` is the `remove` of the broker's index cache, if it has one.

        `monotonic_s` is a monotonic clock in seconds, by default the running event loop's.
        `clock` must be right now: `retention_clock` starts with its time.
        """
        self.store = store
        self.clock = clock
        self.broker_id = broker_id
        self.metrics = metrics
        self.monotonic_s = monotonic_s or asyncio.get_running_loop().time
        self.retention_clock = SlewedClock(
            clock, self.monotonic_s, lambda: metrics.count(CLOCK_JUMPS, None)
        )
        self._storage = storage
        self._remove_indexes = remove_indexes

    async def delete(self, segment: RemoteLogSegmentMetadata, reason: str) -> None:
        """Delete `segment` from the tier; on return its data and metadata are gone.

        Raises:
            RemoteStorageError, OSError: As `delete_segment` raises them. The failure is
                counted; a retry goes on where it ended.
        """
        segment_id = segment.remote_log_segment_id
        tip = segment_id.topic_id_partition
        self.metrics.count(DELETE_REQUESTS, tip)
        try:
            await delete_segment(self.store, self._storage, segment, self.broker_id, self.clock)
        except (RemoteStorageError, OSError) as error:
            self.metrics.count(DELETE_ERRORS, tip)
            _log.warning(
                "segment not deleted", segment=str(segment_id), reason=reason, error=str(error)
            )
            raise
        with suppress(NotReady):  # The cache is closed, so it serves nothing any more.
            self._remove_indexes((segment_id,))
        _log.info("segment deleted", segment=str(segment_id), reason=reason)
