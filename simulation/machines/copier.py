"""Brokers that lead: they copy and delete segments, and make the mistakes of real brokers."""

from __future__ import annotations

from hashlib import blake2b

from msgspec.structs import replace

from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    PartitionDeleted,
    RemoteStorageError,
)
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.simulation.machines.struck import Heard, Struck, StruckBroker, StruckCaller

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

CUSTOM = CustomMetadata(bytes(8))
CUSTOM_AT_LIMIT = CustomMetadata(bytes(128))
CUSTOM_OVER_LIMIT = CustomMetadata(bytes(129))


class Copier:
    """What one life of a broker has copied in one leader epoch of a partition."""

    def __init__(
        self, world: Struck, broker: StruckBroker, partition: int, epoch: int, lane: int = 0
    ) -> None:
        """`lane`: without a tier, two lanes of a broker may give one id to two segments."""
        self.world = world
        self.broker = broker
        self.partition = partition
        self.epoch = epoch
        self._lane = lane
        self._next_offset = epoch * 100
        self._segments = 0
        self._started: list[RemoteLogSegmentId] = []
        self._over: list[RemoteLogSegmentId] = []
        self._copied: list[RemoteLogSegmentId] = []
        self._deleting: list[RemoteLogSegmentId] = []
        self._erased: set[RemoteLogSegmentId] = set()
        """Segments whose data is deleted, as far as the storage manager says."""
        self._deleted: list[RemoteLogSegmentMetadata] = []
        self._early: RemoteLogSegmentId | None = None
        """A segment that was finished before it was added."""
        self._added: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}

    def step(self, caller: StruckCaller, operation: str, draw: int) -> None:
        """One write of a broker's copying and retention; `draw`, 0 to 999, gives details."""
        if not self._odd(caller, operation, draw):
            self._go_on(caller, operation, draw)

    def _odd(self, caller: StruckCaller, operation: str, draw: int) -> bool:  # noqa: C901, PLR0912
        """Make a rare or wrong write; false if no segment fits, or `operation` is plain."""
        last = next(reversed(self._added.values()), None)
        match operation:
            case "add again" if last is not None:
                self._add(caller, last, operation)
            case "add other content" if last is not None:
                size = (last.segment_size_in_bytes or 0) + 1
                self._add(caller, replace(last, segment_size_in_bytes=size), operation)
            case "add what was deleted" if self._deleted:
                self._add(caller, self._deleted[draw % len(self._deleted)], operation)
            case "add what is being deleted" if self._deleting:
                self._add(caller, self._added[self._deleting[0]], operation)
            case "overlap":
                self._copy(caller, draw, overlaps=True)
            case "finish the newest" if self._started:
                self._move(caller, self._started[-1], FINISHED, "finish", CUSTOM)
            case "finish again" if self._copied:
                self._move(caller, self._copied[-1], FINISHED, operation, CUSTOM)
            case "finish over limit" if self._started:
                self._move(caller, self._started[0], FINISHED, "finish", CUSTOM_OVER_LIMIT)
            case "finish at limit" if self._started:
                self.world.recording.mark("custom metadata as long as allowed")
                self._move(caller, self._started[0], FINISHED, "finish", CUSTOM_AT_LIMIT)
            case "finish unknown":
                self._move(caller, self._unknown(), FINISHED, operation)
            case "finish too early" if self._early is None:
                self._early = self._unknown()
                self._move(caller, self._early, FINISHED, operation, CUSTOM)
            case "finish what is deleted" if self._deleting:
                self._move(caller, self._deleting[-1], FINISHED, operation, CUSTOM)
            case "delete unknown":
                self._move(caller, self._unknown(), DELETED, operation)
            case "delete again" if self._deleting:
                self._move(caller, self._deleting[-1], DELETING, operation)
            case "give a copy up" if self._started:
                self._move(caller, self._started[-1], DELETING, "delete")
            case "bury too early" if self._copied:
                self._move(caller, self._copied[-1], DELETED, operation)
            case _:
                return False
        return True

    def _go_on(self, caller: StruckCaller, operation: str, draw: int) -> None:
        """Make the plain write that is due, or the one that `operation` brings forward."""
        if self._over:
            self._move(caller, self._over[0], DELETING, "delete", CUSTOM_OVER_LIMIT)
        elif self._deleting and operation != "start":
            if self.world.scenario.guarded and self._deleting[0] not in self._erased:
                self._erase(caller, self._deleting[0])
            else:
                self._move(caller, self._deleting[0], DELETED, "deleted")
        elif self._started and operation != "start":
            self._move(caller, self._started[0], FINISHED, "finish", CUSTOM)
        elif self._copied and (operation == "retire" or self._has_enough):
            self._move(caller, self._copied[0], DELETING, "delete")
        else:
            self._copy(caller, draw)

    @property
    def _has_enough(self) -> bool:
        return len(self._copied) > self.world.scenario.rows_kept

    def _unknown(self) -> RemoteLogSegmentId:
        return RemoteLogSegmentId(self._tip, self._new_id())

    @property
    def _tip(self) -> TopicIdPartition:
        return self.world.tips[self.partition]

    def _new_id(self) -> Uuid:
        """An id that sorts anywhere among the others, as Kafka's random ones do."""
        self._segments += 1
        parts = [self.broker.life.number, self.partition, self.epoch, self._segments]
        if self.world.scenario.guarded:
            parts.append(self._lane)
        named = b"".join(part.to_bytes(4, "big") for part in parts)
        return Uuid(blake2b(named, digest_size=16).digest())

    def _copy(self, caller: StruckCaller, draw: int, *, overlaps: bool = False) -> None:
        if overlaps:
            self.world.recording.mark("segments overlap")
        start = max(0, self._next_offset - (5 if overlaps else 0))
        epochs = {self.epoch: start}
        if self.epoch and draw % 7 == 2:
            epochs = {self.epoch - 1: start, self.epoch: start + 4}
            self.world.recording.mark("segment of two leader epochs")
        segment = self._early or self._unknown()
        self._early = None
        self._next_offset = start + 10
        metadata = RemoteLogSegmentMetadata(
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
        self._added[segment] = metadata
        self._add(caller, metadata, "add")

    def _add(self, caller: StruckCaller, metadata: RemoteLogSegmentMetadata, what: str) -> None:
        def then(error: RemoteStorageError | None) -> None:
            segment = metadata.remote_log_segment_id
            if error is None and what == "add":
                self._started.append(segment)
                self.world.tier.put(self.world.keys_of[self.partition], bytes(segment.id))

        self._write(caller, metadata, what, then)

    def _move(
        self,
        caller: StruckCaller,
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

        self._write(caller, update, what, then)

    def _erase(self, caller: StruckCaller, segment: RemoteLogSegmentId) -> None:
        def then(error: RemoteStorageError | None) -> None:
            if error is None:
                self._erased.add(segment)

        self.broker.erase(self.partition, caller, bytes(segment.id), then)

    def _moved(
        self, segment: RemoteLogSegmentId, what: str, error: RemoteStorageError | None
    ) -> None:
        """Remember a write that succeeded; one that failed is due again."""
        if isinstance(error, CustomMetadataSizeLimitExceeded):
            _without(self._started, segment)
            self._over.append(segment)
        elif error is not None:
            return
        elif what == "finish":
            _without(self._started, segment)
            self._copied.append(segment)
        elif what == "delete":
            for among in (self._over, self._copied, self._started):
                _without(among, segment)
            self._deleting.append(segment)
        elif what == "deleted":
            _without(self._deleting, segment)
            self._deleted.append(self._added[segment])

    def delete_partition(self, caller: StruckCaller) -> None:
        """Write the next step of the partition's deletion: marked, started, finished."""
        steps = self.world.deletions
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

        self._write(caller, metadata, state.name, then)

    def _write(self, caller: StruckCaller, wanted: KafkaValue, what: str, then: Heard) -> None:
        begun = self.world.clock.now

        def heard(error: RemoteStorageError | None) -> None:
            then(error)
            if error is None or isinstance(error, PartitionDeleted):
                self.world.written[self.broker.broker_id, self.partition] = begun

        self.broker.write(self.partition, caller, wanted, what, heard)


class Copiers:
    """The copiers of one world."""

    def __init__(self, world: Struck) -> None:
        self._world = world
        self._copiers: dict[tuple[str, int, int], Copier] = {}

    def copy_once(
        self, broker: StruckBroker, partition: int, caller: int, operation: str, draw: int
    ) -> None:
        """Make a write as `broker`, if it believes that it leads; a step of its life."""
        world, epoch = self._world, broker.led.get(partition)
        if epoch is None:
            return
        one = broker.caller(partition, caller, "copy")
        if one.is_busy:
            return
        key = (broker.life.name, partition, caller)
        copier = self._copiers.get(key)
        if copier is None or copier.epoch != epoch:
            copier = self._copiers[key] = Copier(world, broker, partition, epoch, caller)
        copier.step(one, operation, draw)


def _without(segments: list[RemoteLogSegmentId], segment: RemoteLogSegmentId) -> None:
    if segment in segments:
        segments.remove(segment)
