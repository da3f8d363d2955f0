"""One partition of a tier in memory, for tasks that delete from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.models.tiering.memory_metadata import MemoryLedger
from tests.models.tiering.memory_storage import MemoryStorage
from tests.models.tiering.planned_faults import PlannedFaults
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from tierledger.tiering.broker_version import BrokerVersion
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.deletion.partition_remover import PartitionRemover
from tierledger.tiering.local import leader_epochs
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.metrics.tier_metrics import TierMetrics
from tierledger.tiering.retention.expiration_task import (
    ExpirationTask,
    Retention,
    RetentionResult,
)
from tierledger.tiering.retention.walk import Reason

TIP = TopicIdPartition(Uuid(bytes(range(16))), 3, "orders")
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
SIZE = 1024
NOW_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
LINEAGE = {0: 0, 1: 20, 3: 50, 4: 100}
"""Leader epochs of a log; its first hundred records are of three epochs."""

BEFORE_4_3 = BrokerVersion(4, 2)
"""Here a segment exactly as old as the retention goes, which makes round numbers of hours."""


class FixedClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms


class MemoryLog:
    """A local log without records; raising its start drops epochs, as Kafka's cache does."""

    def __init__(
        self, epochs: Mapping[int, int], end: int, faults: PlannedFaults | None = None
    ) -> None:
        self.topic_id_partition = TIP
        self.log_start_offset = 0
        self.last_stable_offset = end
        self.log_end_offset = end
        self.leader_epochs: dict[int, int] = dict(sorted(epochs.items()))
        self.highest_offset_in_remote_storage = -1
        self.local: list[LocalSegment] = []
        self._faults = faults or PlannedFaults()

    def segments(self) -> Sequence[LocalSegment]:
        return tuple(self.local)

    def add_local(self, base: int, next_base: int, size: int = SIZE) -> None:
        self.local.append(LocalSegment(base, next_base, size, NOW_MS, Path(f"{base}.log")))

    async def raise_highest_offset_in_remote_storage(self, offset: int) -> None:
        highest = max(offset, self.highest_offset_in_remote_storage)
        self.highest_offset_in_remote_storage = highest

    async def raise_log_start_offset(self, offset: int) -> None:
        async def work() -> None:
            if offset > self.log_end_offset:
                raise InvalidArgument(f"{offset} lies behind {self.log_end_offset}")
            if offset > self.log_start_offset:
                self.log_start_offset = offset
                self._forget_epochs_before(offset)

        await self._faults.call("raise_log_start_offset", work)

    def _forget_epochs_before(self, offset: int) -> None:
        passed = [epoch for epoch, start in self.leader_epochs.items() if start <= offset]
        for epoch in passed:
            del self.leader_epochs[epoch]
        if passed:
            self.leader_epochs = {passed[-1]: offset, **self.leader_epochs}

    async def restart_at(
        self,
        offset: int,
        leader_epochs: Mapping[int, int],
        producer_snapshot: bytes,
        start: int,
    ) -> None:
        raise NotImplementedError("nothing that deletes restarts a log")


class RetentionWorld:
    """A partition that broker 1 leads. All its fakes share `faults`; setup counts no calls."""

    def __init__(self, epochs: Mapping[int, int] | None = None, end: int = 1_000_000) -> None:
        self.faults = PlannedFaults()
        self.ledger = MemoryLedger()
        self.store = self.ledger.store(TIP, faults=self.faults)
        self.storage = MemoryStorage(self.faults)
        self.log = MemoryLog(epochs or {0: 0}, end, self.faults)
        self.clock = FixedClock()
        self.passed_s = 0.0
        """The time of the monotonic clock."""
        self.metrics = TierMetrics()
        self.being_copied: set[RemoteLogSegmentId] = set()
        self.without_indexes: list[RemoteLogSegmentId] = []
        self._count = 0

    async def add(
        self,
        start: int,
        end: int,
        epochs: Mapping[int, int],
        *,
        state: RemoteLogSegmentState = FINISHED,
        size: int = SIZE,
        age_ms: int = 0,
        custom: bytes | None = None,
    ) -> RemoteLogSegmentMetadata:
        """Add a segment with data, whose newest record is `age_ms` old."""
        self._count += 1
        segment_id = RemoteLogSegmentId(TIP, Uuid(self._count.to_bytes(16, "big")))
        added = RemoteLogSegmentMetadata(
            segment_id, start, end, NOW_MS - age_ms, 1, NOW_MS, size, STARTED, epochs
        )
        await self.store.add_remote_log_segment_metadata(added)
        self.storage.logs[segment_id.id] = bytes(1)
        self.storage.indexes[segment_id.id] = {}
        for step in (FINISHED, DELETING):
            if state != STARTED and step in {state, FINISHED}:
                added = await self.move(added, step, custom)
        self.faults.restart()
        return added

    async def add_hundreds(self, *starts: int, epoch: int = 0) -> None:
        """Add a finished segment of a hundred records from each of `starts` on."""
        for start in starts:
            await self.add(start, start + 99, {epoch: start})

    async def move(
        self,
        segment: RemoteLogSegmentMetadata,
        state: RemoteLogSegmentState,
        custom: bytes | None = None,
    ) -> RemoteLogSegmentMetadata:
        given = None if custom is None else CustomMetadata(custom)
        segment_id = segment.remote_log_segment_id
        update = RemoteLogSegmentMetadataUpdate(segment_id, NOW_MS, state, 1, given)
        await self.store.update_remote_log_segment_metadata(update)
        self.faults.restart()
        return segment.create_with_updates(update)

    def deletions(self) -> CountedDeletions:
        return CountedDeletions(
            self.store,
            self.storage,
            self.clock,
            1,
            self.metrics,
            self.without_indexes.extend,
            lambda: self.passed_s,
        )

    def task(
        self,
        retention_ms: int = -1,
        retention_bytes: int = -1,
        broker: BrokerVersion = BEFORE_4_3,
    ) -> ExpirationTask:
        return self.task_with(self.deletions(), retention_ms, retention_bytes, broker)

    def task_with(
        self,
        deletions: CountedDeletions,
        retention_ms: int = -1,
        retention_bytes: int = -1,
        broker: BrokerVersion = BEFORE_4_3,
    ) -> ExpirationTask:
        retention = Retention(retention_ms, retention_bytes, broker)
        return ExpirationTask(self.log, deletions, retention, lambda: self.being_copied)

    def remover(self) -> PartitionRemover:
        return PartitionRemover(self.deletions(), lambda _: self.being_copied)

    def left(self) -> list[tuple[int, int]]:
        """Start and end offset of every segment that the metadata knows."""
        return [(one.start_offset, one.end_offset) for one in self.ledger.segments(TIP)]

    def check_agreement(self) -> None:
        """Assert that metadata and storage have the same segments: no orphan, none missing."""
        known = {one.remote_log_segment_id.id for one in self.ledger.segments(TIP)}
        assert self.storage.ids == known

    def check_readable(self) -> None:
        """Assert that each finished segment, which readers may use, has its data."""
        for one in self.ledger.segments(TIP):
            if one.state == FINISHED:
                segment_id = one.remote_log_segment_id.id
                assert segment_id in self.storage.logs, f"{one.start_offset} lost its log"
                assert segment_id in self.storage.indexes, f"{one.start_offset} lost indexes"


def reasons(result: RetentionResult) -> list[tuple[int, Reason]]:
    """The start offset of each segment that a run deleted, and the reason."""
    return [(one.segment.start_offset, one.reason) for one in result.deleted]


async def add_fifty(world: RetentionWorld, old: int = 0) -> None:
    """Add fifty segments of a hundred records along `LINEAGE`, the first `old` an hour old."""
    for number in range(50):
        start, end = number * 100, number * 100 + 99
        age_ms = HOUR_MS if number < old else 0
        await world.add(start, end, epochs_between(LINEAGE, start, end), age_ms=age_ms)


def epochs_between(lineage: Mapping[int, int], start: int, end: int) -> dict[int, int]:
    """The leader epochs of a segment from `start` to `end`, as a copy task writes them."""
    return leader_epochs.epochs_between(lineage, start, end + 1)
