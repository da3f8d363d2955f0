"""A broker's commands for one partition: copies at the log's end, deletions at its head.

The same number always names the same segment, so work on a partition can be continued.
"""

import itertools
from collections.abc import Iterable
from hashlib import blake2b

from tierledger.events import commands as cmd
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)

CLUSTER = "benchmark"
BROKER = 1
PARTITION = TopicIdPartition(Uuid(b"a benched topic!"), 0, "benched")

OFFSETS_PER_SEGMENT = 1_000
LEADER_EPOCHS = 10
"""Leader epochs of a partition, whatever its size: partitions differ in size alone."""

CUSTOM_METADATA_EVERY = 10
"""One segment in so many carries custom metadata, as if its bucket's name differed."""

START_MS = 1_700_000_000_000

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class Workload:
    """The commands about the numbered segments of one partition."""

    def __init__(
        self,
        segments: int,
        claim: cmd.Claim,
        tip: TopicIdPartition = PARTITION,
        *,
        first_request: int = 0,
    ) -> None:
        """`segments`: how many the partition has at first; its leader epochs divide these.

        Requests are numbered from `first_request`; a number that was used before is a repeat.
        """
        self.claim = claim
        self.tip = tip
        self._per_epoch = max(segments // LEADER_EPOCHS, 1)
        self._requests = itertools.count(first_request)
        self._prefix = blake2b(repr(claim).encode(), digest_size=8).digest()

    def epochs_of(self, number: int) -> dict[int, int]:
        """Leader epochs of segment `number` with their start offsets in it; mostly one."""
        start = number * OFFSETS_PER_SEGMENT
        epoch = self._epoch(number)
        before = self._epoch(max(number - 1, 0))
        if before == epoch:
            return {epoch: start}
        return {before: start, epoch: start + OFFSETS_PER_SEGMENT // 2}

    def epoch_at(self, offset: int) -> int:
        epochs = self.epochs_of(offset // OFFSETS_PER_SEGMENT)
        return max(epoch for epoch, start in epochs.items() if start <= offset)

    def _epoch(self, number: int) -> int:
        return min(number // self._per_epoch, LEADER_EPOCHS - 1)

    def add(self, number: int) -> cmd.AddSegment:
        start = number * OFFSETS_PER_SEGMENT
        return self._add(
            self._id(number), start, start + OFFSETS_PER_SEGMENT - 1, self.epochs_of(number)
        )

    def add_overlapping(self, number: int) -> cmd.AddSegment:
        """A second copy that starts within segment `number` and ends within the next."""
        start = number * OFFSETS_PER_SEGMENT + 300
        epoch = self.epoch_at(start)
        return self._add(
            self._id(number, b"overlapping"), start, start + OFFSETS_PER_SEGMENT, {epoch: start}
        )

    def _add(
        self, segment_id: RemoteLogSegmentId, start: int, end: int, epochs: dict[int, int]
    ) -> cmd.AddSegment:
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=segment_id,
            start_offset=start,
            end_offset=end,
            max_timestamp_ms=START_MS + end,
            broker_id=BROKER,
            event_timestamp_ms=START_MS + end,
            segment_size_in_bytes=1 << 30,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs=epochs,
            txn_index_empty=True,
        )
        return cmd.AddSegment(self.claim, self._origin(), metadata)

    def finish(self, number: int) -> cmd.UpdateSegment:
        custom = None
        if number % CUSTOM_METADATA_EVERY == 0:
            custom = CustomMetadata(b"bucket-%08d" % (number % 100))
        return self._update(self._id(number), number, FINISHED, custom)

    def finish_overlapping(self, number: int) -> cmd.UpdateSegment:
        return self._update(self._id(number, b"overlapping"), number, FINISHED)

    def delete(self, number: int) -> list[cmd.UpdateSegment]:
        """Retention deletes segment `number`: its deletion starts and finishes."""
        segment_id = self._id(number)
        return [
            self._update(segment_id, number, DELETE_STARTED),
            self._update(segment_id, number, DELETE_FINISHED),
        ]

    def keep(self, number: int) -> cmd.UpdateSegment:
        """Retention deletes segment `number`, and a term of a week keeps it."""
        until_ms = START_MS + (number + 1) * OFFSETS_PER_SEGMENT + 7 * 86_400_000
        keep = cmd.Keep(until_ms, "the term 'retention-7d' of 'orders*'")
        started = self._update(self._id(number), number, DELETE_STARTED)
        return started._replace(guarded_for=DeletionCause.RETENTION, keep=keep)

    def _update(
        self,
        segment_id: RemoteLogSegmentId,
        number: int,
        state: RemoteLogSegmentState,
        custom: CustomMetadata | None = None,
    ) -> cmd.UpdateSegment:
        time_ms = START_MS + (number + 1) * OFFSETS_PER_SEGMENT
        update = RemoteLogSegmentMetadataUpdate(segment_id, time_ms, state, BROKER, custom)
        return cmd.UpdateSegment(self.claim, self._origin(), update)

    def _origin(self) -> Origin:
        return Origin(BROKER, self._prefix + next(self._requests).to_bytes(4, "big"))

    def _id(self, number: int, kind: bytes = b"") -> RemoteLogSegmentId:
        name = number.to_bytes(8, "big") + kind
        return RemoteLogSegmentId(self.tip, Uuid(blake2b(name, digest_size=16).digest()))


def build_commands(workload: Workload, numbers: Iterable[int]) -> list[cmd.Command]:
    """Copy each of `numbers`: add it, and finish it before the next is added."""
    commands: list[cmd.Command] = []
    for number in numbers:
        commands += (workload.add(number), workload.finish(number))
    return commands
