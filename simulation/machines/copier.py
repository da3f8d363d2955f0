"""One partition's leader at work: copies and deletes segments, and errs as brokers do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.events import commands as cmd
from tierledger.events.errors import CustomMetadataSizeLimitExceeded, PartitionDeleted
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

if TYPE_CHECKING:
    from tierledger.events.errors import RemoteStorageError
    from tierledger.simulation.machines.broker_node import BrokerNode
    from tierledger.simulation.machines.pending import Lane
    from tierledger.simulation.machines.world import World

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

CUSTOM = CustomMetadata(bytes(8))
CUSTOM_AT_LIMIT = CustomMetadata(bytes(128))
CUSTOM_OVER_LIMIT = CustomMetadata(bytes(129))

SEGMENTS_KEPT = 3
"""Finished segments before the oldest is deleted."""


class Copier:
    """What one life of a broker has copied in one leader epoch of a partition."""

    def __init__(self, world: World, broker: BrokerNode, partition: int, epoch: int) -> None:
        self.world = world
        self.broker = broker
        self.partition = partition
        self.epoch = epoch
        self._next_offset = epoch * 100
        self._segments = 0
        self._started: list[RemoteLogSegmentId] = []
        self._over: list[RemoteLogSegmentId] = []
        self._copied: list[RemoteLogSegmentId] = []
        self._deleting: list[RemoteLogSegmentId] = []
        self._early: RemoteLogSegmentId | None = None
        """A segment that was finished before it was added."""
        self._last_added: RemoteLogSegmentMetadata | None = None

    def step(self, lane: Lane, draw: int) -> None:
        """One write of a broker's copying and retention; `draw`, 0 to 999, chooses which."""
        rare = draw % 50
        if rare == 7 and self._last_added is not None:
            self._add(lane, self._last_added, "add again")
        elif rare == 13 and self._copied:
            self._move(lane, self._copied[-1], FINISHED, "finish again", CUSTOM)
        elif rare == 21:
            unknown = RemoteLogSegmentId(self._tip, self._new_id())
            self._move(lane, unknown, DELETED if draw % 2 else FINISHED, "unknown segment")
        elif rare == 29 and self._deleting:
            self._move(lane, self._deleting[-1], FINISHED, "finish what is deleted", CUSTOM)
        elif rare == 37 and self._early is None:
            self._early = RemoteLogSegmentId(self._tip, self._new_id())
            self._move(lane, self._early, FINISHED, "finish too early", CUSTOM)
        elif self._over:
            self._clean_up(lane)
        elif self._deleting:
            self._move(lane, self._deleting[0], DELETED, "deleted")
        elif self._started and draw % 10 < 8:
            self._finish(lane, rare)
        elif len(self._copied) > SEGMENTS_KEPT:
            self._move(lane, self._copied[0], DELETING, "delete")
        else:
            self._copy(lane, draw)

    @property
    def _tip(self) -> Any:  # noqa: ANN401
        return self.world.tips[self.partition]

    def _new_id(self) -> Uuid:
        self._segments += 1
        parts = (self.broker.life.number, self.partition, self.epoch, self._segments)
        return Uuid(b"".join(part.to_bytes(4, "big") for part in parts))

    def _copy(self, lane: Lane, draw: int) -> None:
        overlaps = draw % 11 == 3
        if overlaps:
            self.world.recording.mark("segments overlap")
        start = max(0, self._next_offset - (5 if overlaps else 0))
        epochs = {self.epoch: start}
        if self.epoch and draw % 7 == 2:
            epochs = {self.epoch - 1: start, self.epoch: start + 4}
            self.world.recording.mark("segment of two leader epochs")
        segment = self._early or RemoteLogSegmentId(self._tip, self._new_id())
        self._early = None
        self._next_offset = start + 10
        self._last_added = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment,
            start_offset=start,
            end_offset=start + 9,
            max_timestamp_ms=start,
            broker_id=self.broker.broker_id,
            event_timestamp_ms=start,
            segment_size_in_bytes=100 + start % 7,
            state=STARTED,
            segment_leader_epochs=epochs,
            txn_index_empty=draw % 2 == 0,
        )
        self._add(lane, self._last_added, "add")

    def _add(self, lane: Lane, metadata: RemoteLogSegmentMetadata, what: str) -> None:
        def then(error: RemoteStorageError | None) -> None:
            segment = metadata.remote_log_segment_id
            if error is None and what == "add":
                self._started.append(segment)

        self._write(
            lane, lambda claim, origin: cmd.AddSegment(claim, origin, metadata), what,
            metadata, then,
        )  # fmt: skip

    def _finish(self, lane: Lane, rare: int) -> None:
        custom = CUSTOM
        if rare == 3:
            custom = CUSTOM_OVER_LIMIT
        elif rare == 4:
            custom = CUSTOM_AT_LIMIT
            self.world.recording.mark("custom metadata as long as allowed")
        self._move(lane, self._started[0], FINISHED, "finish", custom)

    def _clean_up(self, lane: Lane) -> None:
        self._move(lane, self._over[0], DELETING, "delete", CUSTOM_OVER_LIMIT)

    def _move(
        self,
        lane: Lane,
        segment: RemoteLogSegmentId,
        state: RemoteLogSegmentState,
        what: str,
        custom: CustomMetadata | None = None,
    ) -> None:
        update = RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=segment,
            event_timestamp_ms=self._next_offset,
            custom_metadata=custom,
            state=state,
            broker_id=self.broker.broker_id,
        )

        def then(error: RemoteStorageError | None) -> None:
            self._moved(segment, what, error)

        self._write(
            lane, lambda claim, origin: cmd.UpdateSegment(claim, origin, update), what,
            update, then,
        )  # fmt: skip

    def _moved(
        self, segment: RemoteLogSegmentId, what: str, error: RemoteStorageError | None
    ) -> None:
        """What a broker keeps in mind of its segments; what failed is tried again."""
        if isinstance(error, CustomMetadataSizeLimitExceeded):
            _without(self._started, segment)
            self._over.append(segment)
        elif error is not None:
            return
        elif what == "finish":
            _without(self._started, segment)
            self._copied.append(segment)
        elif what == "delete":
            _without(self._over, segment)
            _without(self._copied, segment)
            self._deleting.append(segment)
        elif what == "deleted":
            _without(self._deleting, segment)

    def delete_partition(self, lane: Lane) -> None:
        """The next step of the partition's deletion: marked, started, finished."""
        steps = self.world.controller.deletions
        state = RemotePartitionDeleteState(steps.get(self.partition, 0))
        metadata = RemotePartitionDeleteMetadata(
            topic_id_partition=self._tip,
            state=state,
            event_timestamp_ms=1,
            broker_id=self.broker.broker_id,
        )

        def then(error: RemoteStorageError | None) -> None:
            if error is None or isinstance(error, PartitionDeleted):
                steps[self.partition] = max(steps.get(self.partition, 0), int(state) + 1)
                if int(state) == len(RemotePartitionDeleteState) - 1:
                    self.world.recording.mark("partition deleted")

        self._write(
            lane, lambda claim, origin: cmd.PutPartitionDelete(claim, origin, metadata),
            state.name, metadata, then,
        )  # fmt: skip

    def _write(self, lane: Lane, make: Any, what: str, wanted: Any, then: Any) -> None:  # noqa: ANN401
        begun = self.world.clock.now

        def heard(error: RemoteStorageError | None) -> None:
            then(error)
            if error is None or isinstance(error, PartitionDeleted):
                self.world.written[self.broker.broker_id, self.partition] = begun

        self.broker.write(self.partition, lane, make, what, wanted, heard)


def _without(segments: list[RemoteLogSegmentId], segment: RemoteLogSegmentId) -> None:
    if segment in segments:
        segments.remove(segment)
