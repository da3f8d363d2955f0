"""Deletion of segments by one broker: counted, and its index cache is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

import structlog

from tierledger.events.errors import NotReady, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.clock import Clock
from tierledger.tiering.deletion.segment_deletion import delete_segment
from tierledger.tiering.metadata_ports import RemoteLogMetadataStore
from tierledger.tiering.metrics.tier_metrics import (
    CLOCK_JUMPS,
    DELETE_ERRORS,
    DELETE_REQUESTS,
    TierMetrics,
)
from tierledger.tiering.remote_storage_manager import RemoteStorageManager
from tierledger.tiering.slewed_clock import SlewedClock

RemoveIndexes = Callable[[Iterable[RemoteLogSegmentId]], None]

_log = structlog.get_logger("tierledger.tiering")


def no_index_cache(_: Iterable[RemoteLogSegmentId]) -> None:
    """For a broker without an index cache."""


class CountedDeletions:
    """What a broker's retention and partition remover delete segments with: one for all tasks.

    `retention_clock` is what retention goes by. It believes a jump of `clock` slowly, and was
    made with this: an election, which a jump may well bring about, does not make it believe.
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

        `monotonic_s` counts seconds that nobody sets; if none is given, those of the running
        event loop. `clock` is believed now: a machine's time is to be right when it starts.
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
        """Delete `segment` from the tier; on return neither data nor metadata is there.

        Raises:
            RemoteStorageError, OSError: As `delete_segment` says; counted, and a repeat
                goes on.
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
        with suppress(NotReady):  # The cache is closed, and loads nothing any more.
            self._remove_indexes((segment_id,))
        _log.info("segment deleted", segment=str(segment_id), reason=reason)
