"""Copies a led partition's segments to the tier, oldest first (Kafka's RLMCopyTask)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, NoReturn

from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    Fenced,
    InvalidArgument,
    InvalidStateTransition,
    NotLeader,
    OutcomeUnknown,
    PartitionDeleted,
    RemoteResourceNotFound,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from tierledger.events.partition.answers import PartitionSummary
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.copying.copy_lag import COPY_AT_ONCE, CopyLag
from tierledger.tiering.copying.dangling_copies import DanglingCopies
from tierledger.tiering.copying.quota import CopyQuota
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.local.leader_epochs import OffsetAndEpoch
from tierledger.tiering.local.log import LocalLog, LocalSegment
from tierledger.tiering.local.producer_snapshots import ProducerSnapshots
from tierledger.tiering.local.remote_offsets import (
    find_highest_remote_offset,
    find_log_start_offset,
)
from tierledger.tiering.local.segment_data import describe_segment
from tierledger.tiering.metrics.tier_metrics import (
    COPY_BYTES,
    COPY_ERRORS,
    COPY_LAG_BYTES,
    COPY_LAG_SEGMENTS,
    COPY_REQUESTS,
    KEPT_LOCAL_BYTES,
    KEPT_LOCAL_SEGMENTS,
)
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

INT32_MAX: Final = (1 << 31) - 1

_log = ProcessLog("tierledger.tiering")


@dataclass(frozen=True, slots=True)
class CopySettings:
    """How a copy task works.

    Attributes:
        custom_metadata_max_bytes: `remote.log.metadata.custom.metadata.max.bytes`, 0 to
            2147483647. Custom metadata of exactly this size is allowed.
        dangling_copy_grace_ms: How long another broker's unfinished copy is left alone. It
            must be longer than a copy takes: data that arrives after the removal stays for
            ever. Ten minutes are enough for a segment of 1 GiB at 2 MiB/s.
        copy_lag: How long closed segments stay local on purpose, by `remote.copy.lag.*` of
            brokers from 4.4 on.
    """

    custom_metadata_max_bytes: int = 128
    dangling_copy_grace_ms: int = 10 * 60 * 1000
    copy_lag: CopyLag = COPY_AT_ONCE

    def __post_init__(self) -> None:
        if not 0 <= self.custom_metadata_max_bytes <= INT32_MAX:
            raise InvalidArgument(
                "remote.log.metadata.custom.metadata.max.bytes: expected 0 to 2147483647, "
                f"got {self.custom_metadata_max_bytes}"
            )
        if self.dangling_copy_grace_ms < 0:
            raise InvalidArgument(
                f"expected a grace of 0 ms or more, got {self.dangling_copy_grace_ms}"
            )


class CopyResult(NamedTuple):
    """What one run did."""

    segments: int = 0
    size_in_bytes: int = 0
    is_ready: bool = True
    """False: the metadata could not answer, so nothing was copied. Run again later."""
    kept_local: int = 0
    """Segments that could be copied and stay local on purpose, by the copy lag."""


class _DeletionBegun(Exception):
    """The partition is marked for deletion."""


def candidate_segments(
    segments: Sequence[LocalSegment], from_offset: int, last_stable_offset: int
) -> list[LocalSegment]:
    """The segments that may be copied, in order, from the one that holds `from_offset` on.

    The active segment is never among them. A segment qualifies once the next one begins at or
    below `last_stable_offset`: then all transactions in it are decided.
    """
    held = [one for one in segments if one.base_offset <= from_offset]
    first = held[-1].base_offset if held else from_offset
    wanted = [one for one in segments if one.base_offset >= first]
    return [one for one, after in pairwise(wanted) if after.base_offset <= last_stable_offset]


class CopyTask:
    """One partition's copies, for as long as this broker leads it: run it every interval.

    A stopped task (`is_stopped`) does not start again. When this broker becomes leader again
    it announces itself anew and makes a new task. Only one run at a time. `copy_lag` may be
    replaced between two runs, as a topic's configuration changes.

    No data is sent for a partition that is being deleted. Each copy is listed in
    `being_copied`, then announced, and only then asks whether the partition is marked for
    deletion. The remover does the reverse: it makes the mark durable, then reads
    `being_copied`. If it finds the copy there, it waits for its end. If it does not, the copy
    is announced after the mark, so it is told of the mark before any byte is sent.
    """

    def __init__(
        self,
        log: LocalLog,
        storage: RemoteStorageManager,
        deletions: CountedDeletions,
        new_id: Callable[[], Uuid],
        settings: CopySettings | None = None,
        quota: CopyQuota | None = None,
    ) -> None:
        """Broker id, metadata store, clock and metrics are those of `deletions`.

        `new_id` returns an id that was never used before: every attempt gets its own.
        """
        self._log = log
        self._tip = log.topic_id_partition
        self._store = deletions.store
        self._storage = storage
        self._deletions = deletions
        self._new_id = new_id
        self._settings = settings or CopySettings()
        self.copy_lag = self._settings.copy_lag
        self._quota = quota
        self._metrics = deletions.metrics
        self._snapshots = ProducerSnapshots()
        self._dangling = DanglingCopies(deletions, self._settings.dangling_copy_grace_ms)
        self._folder = log.segments()[0].log_file.parent
        self._is_start_known = False
        """Whether the local log has been told where the remote one starts."""
        self._copied: OffsetAndEpoch | None = None
        """The end of the last finished copy; None: the metadata has to be asked for it."""
        self._running: set[RemoteLogSegmentId] = set()
        self.stop_reason: str | None = None
        """Why the task stopped; none while it may run."""

    @property
    def is_stopped(self) -> bool:
        return self.stop_reason is not None

    def being_copied(self) -> frozenset[RemoteLogSegmentId]:
        """The copies under way, which retention must leave alone."""
        return frozenset(self._running)

    def stop(self, reason: str) -> None:
        """Begin no further copy; a running copy ends as usual."""
        if self.stop_reason is None:
            self.stop_reason = reason
            _log.info("copying stops", partition=str(self._tip), reason=reason)

    async def run_once(self) -> CopyResult:
        """Copy all segments that may be copied now; each is durable and finished on return.

        If the metadata cannot answer before the first copy, nothing is copied and no error is
        counted. A failed copy is removed, and the next run starts after the last finished
        segment with a new id. If the finishing update is in doubt (`OutcomeUnknown`), the copy
        stays, since readers may be served from it, and the next run asks for the highest
        remote offset. If the partition's deletion has begun, the task stops without an error.

        Raises:
            CustomMetadataSizeLimitExceeded: The storage manager returned too much custom
                metadata (KIP-917). The task has stopped; the message tells how to go on.
            Fenced: Another broker leads; the task has stopped.
            RemoteStorageError, OSError: A copy failed, and was counted.
        """
        if self.is_stopped:
            return CopyResult()
        try:
            await self._prepare()
        except (PartitionDeleted, _DeletionBegun) as error:
            self._stop_for_deletion(error)
            return CopyResult()
        except (RetryableError, OutcomeUnknown) as error:
            _log.debug("not ready", partition=str(self._tip), error=str(error))
            return CopyResult(is_ready=False)
        except (RemoteStorageError, OSError) as error:
            self._note_failure(error)
            raise
        try:
            return await self._copy_candidates()
        except (RemoteStorageError, OSError) as error:
            self._note_failure(error)
            raise

    def _note_failure(self, error: Exception) -> None:
        self._metrics.count(COPY_ERRORS, self._tip)
        if isinstance(error, Fenced):
            self.stop(str(error))
            self._metrics.forget(self._tip)

    def _stop_for_deletion(self, error: PartitionDeleted | _DeletionBegun) -> None:
        self.stop(str(error))
        # The remover may have ended, and forgotten the metrics, before this run set some.
        self._metrics.forget(self._tip)

    async def _summary(self) -> PartitionSummary:
        summary = await self._store.partition_summary(self._tip)
        if summary.delete_state is not None:
            raise _DeletionBegun(f"{self._tip}: its deletion has begun")
        return summary

    async def _prepare(self) -> None:
        """Find the offset to copy from; once it is known, later runs ask for the summary only.

        Then remove dangling copies.
        """
        summary = await self._summary()
        folder = self._log.segments()[0].log_file.parent
        if folder != self._folder:  # The replica has moved to another disk.
            self._folder, self._is_start_known, self._copied = folder, False, None
        if not self._is_start_known:
            start = await find_log_start_offset(self._log, self._store)
            await self._log.raise_log_start_offset(start)
            self._is_start_known = True
        if self._copied is None:
            copied = await find_highest_remote_offset(self._log, self._store)
            await self._log.raise_highest_offset_in_remote_storage(copied.offset)
            self._copied = copied
        await self._dangling.clean(self._tip, summary, self._copied.offset)

    async def _copy_candidates(self) -> CopyResult:
        stable = self._log.last_stable_offset
        lag = self._lag()
        self._show_lag(lag)
        segments, candidates = self._log.segments(), list[LocalSegment]()
        if self._copied is not None and self._copied.offset < stable and stable > 0:
            from_offset = max(self._copied.offset + 1, self._log.log_start_offset)
            candidates = candidate_segments(segments, from_offset, stable)
        due = self._due(candidates, segments)
        done = CopyResult(kept_local=len(candidates) - len(due))
        for segment in due:
            if self._quota is not None:
                await self._quota.take(segment.size_in_bytes)
            if self.is_stopped:
                break
            try:
                await self._copy(segment)
            except (PartitionDeleted, _DeletionBegun) as error:
                self._stop_for_deletion(error)
                break
            done = done._replace(
                segments=done.segments + 1,
                size_in_bytes=done.size_in_bytes + segment.size_in_bytes,
            )
            self._show_lag((lag[0] - done.segments, lag[1] - done.size_in_bytes))
        return done

    def _due(
        self, candidates: Sequence[LocalSegment], segments: Sequence[LocalSegment]
    ) -> Sequence[LocalSegment]:
        """The candidates that the copy lag allows; the metrics tell what it keeps."""
        at = segments.index(candidates[0]) if candidates else len(segments)
        now_ms = self._deletions.clock.now_ms()
        number = self.copy_lag.due(segments[at:], len(candidates), now_ms)
        kept = candidates[number:]
        self._metrics.set(KEPT_LOCAL_SEGMENTS, self._tip, len(kept))
        self._metrics.set(KEPT_LOCAL_BYTES, self._tip, sum(one.size_in_bytes for one in kept))
        return candidates[:number]

    def _lag(self) -> tuple[int, int]:
        """Number and bytes of the closed segments that are not remote yet."""
        remote = self._log.highest_offset_in_remote_storage
        sizes = [
            one.size_in_bytes for one in self._log.segments()[:-1] if one.end_offset > remote
        ]
        return len(sizes), sum(sizes)

    def _show_lag(self, lag: tuple[int, int]) -> None:
        self._metrics.set(COPY_LAG_SEGMENTS, self._tip, lag[0])
        self._metrics.set(COPY_LAG_BYTES, self._tip, lag[1])

    async def _copy(self, segment: LocalSegment) -> None:
        self._metrics.count(COPY_REQUESTS, self._tip)
        segment_id = RemoteLogSegmentId(self._tip, self._new_id())
        self._running.add(segment_id)
        try:
            metadata = await self._copy_as(segment_id, segment)
        finally:
            self._running.discard(segment_id)
        self._metrics.count(COPY_BYTES, self._tip, segment.size_in_bytes)
        last_epoch = max(metadata.segment_leader_epochs)
        self._copied = OffsetAndEpoch(metadata.end_offset, last_epoch)
        await self._log.raise_highest_offset_in_remote_storage(metadata.end_offset)

    async def _copy_as(
        self, segment_id: RemoteLogSegmentId, segment: LocalSegment
    ) -> RemoteLogSegmentMetadata:
        """Copy `segment` under `segment_id`; return its metadata once the copy is finished."""
        metadata, data = await asyncio.to_thread(
            describe_segment,
            segment_id,
            segment,
            self._log.leader_epochs,
            self._snapshots,
            broker_id=self._deletions.broker_id,
            now_ms=self._deletions.clock.now_ms(),
        )
        await self._store.add_remote_log_segment_metadata(metadata)
        try:
            # A client's answers are never older than its own writes. So this one is as of the
            # announcement or later, and finds a deletion mark that came before.
            await self._summary()
            custom = await self._storage.copy_log_segment_data(metadata, data)
        except PartitionDeleted:
            raise  # The entry was deleted with the partition, and no data was sent.
        except (RemoteStorageError, OSError, _DeletionBegun):
            await self._clean_up(metadata)
            raise
        size = 0 if custom is None else len(custom.value)
        limit = self._settings.custom_metadata_max_bytes
        if size > limit:
            why = f"{size} bytes, the limit is {limit}"
            await self._give_up_on_size(metadata, custom, why)
        await self._finish(metadata, custom)
        return metadata

    async def _finish(
        self, metadata: RemoteLogSegmentMetadata, custom: CustomMetadata | None
    ) -> None:
        """Write COPY_SEGMENT_FINISHED; on failure, remove what the error allows to remove."""
        update = RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id,
            self._deletions.clock.now_ms(),
            RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            self._deletions.broker_id,
            custom,
        )
        try:
            await self._store.update_remote_log_segment_metadata(update)
        except OutcomeUnknown:
            # In doubt: readers may be served from this copy now or soon, so nothing is removed.
            # The next run asks for the highest remote offset.
            self._dangling.unsettled[metadata.remote_log_segment_id] = metadata.end_offset
            self._copied = None
            raise
        except CustomMetadataSizeLimitExceeded as error:
            await self._give_up_on_size(metadata, custom, f"the leader refused it: {error}")
        except (Fenced, NotLeader, RemoteResourceNotFound, InvalidStateTransition):
            # Another broker leads, or the entry was deleted: nobody will ever read this copy.
            # Only its data is removed; the metadata is the leader's to change.
            await self._remove_data(metadata.create_with_custom_metadata(custom))
            raise
        except RemoteStorageError:
            await self._clean_up(metadata.create_with_custom_metadata(custom))
            raise

    async def _give_up_on_size(
        self, metadata: RemoteLogSegmentMetadata, custom: CustomMetadata | None, why: str
    ) -> NoReturn:
        """Stop the task, and try once to remove the copy (KIP-917)."""
        message = (
            f"{metadata.remote_log_segment_id}: custom metadata of the storage manager is too "
            f"large: {why}; no more of this partition is copied. Raise "
            "remote.log.metadata.custom.metadata.max.bytes, or let the manager return less, "
            "and start the task again"
        )
        self.stop(message)  # First, so that the task stops even if the clean-up fails.
        await self._clean_up(metadata.create_with_custom_metadata(custom))
        raise CustomMetadataSizeLimitExceeded(message)

    async def _clean_up(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Try to remove data and entry. A failure is ignored: the caller raises the cause."""
        with suppress(RemoteStorageError, OSError):
            await self._deletions.delete(metadata, "failed copy")

    async def _remove_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Try to remove the data alone. If that fails, the leader removes it with the entry."""
        try:
            await self._storage.delete_log_segment_data(metadata)
        except (RemoteStorageError, OSError) as error:
            segment = str(metadata.remote_log_segment_id)
            _log.warning("a refused copy stays", segment=segment, error=str(error))
