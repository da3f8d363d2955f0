"""A leader's copy task between a log of small files, a ledger and a storage in memory."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from pathlib import Path

from tests.models.tiering.memory_metadata import MemoryLedger
from tests.models.tiering.memory_storage import MemoryStorage
from tests.models.tiering.planned_faults import PlannedFaults
from tests.models.tiering.retention_world import FINISHED, NOW_MS, TIP, FixedClock, MemoryLog
from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.partition.decide import Limits
from tierledger.tiering.copying.quota import CopyQuota
from tierledger.tiering.copying.task import CopyResult, CopySettings, CopyTask
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.local.log import LocalLog, LocalSegment
from tierledger.tiering.metadata_ports import RemoteLogMetadataStore
from tierledger.tiering.metrics.tier_metrics import TierMetric, TierMetrics
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

SEGMENT_BYTES = 10


def lay_out(folder: Path, bases: Sequence[int], end: int) -> list[LocalSegment]:
    """Write segment files that start at `bases`, the last one active; they hold no records."""
    folder.mkdir(parents=True, exist_ok=True)
    segments = []
    for base, following in pairwise((*bases, end)):
        log_file = folder / f"{base:020}.log"
        log_file.write_bytes(b"%010d" % base)
        for suffix in (".index", ".timeindex"):
            log_file.with_suffix(suffix).write_bytes(suffix.encode())
        (folder / f"{following:020}.snapshot").write_bytes(b"snapshot")
        segments.append(LocalSegment(base, following, SEGMENT_BYTES, NOW_MS, log_file))
    return segments


class CopyWorld:
    """A partition that broker 1 leads. The segments of its log start at `bases`."""

    def __init__(
        self,
        folder: Path,
        bases: Sequence[int] = (0, 150, 250),
        *,
        epochs: Mapping[int, int] | None = None,
        stable: int = 300,
        end: int = 300,
        limits: Limits | None = None,
    ) -> None:
        self.folder = folder
        self.faults = PlannedFaults()
        self.ledger = MemoryLedger(limits)
        self.store = self.ledger.store(TIP, faults=self.faults)
        self.storage = MemoryStorage(self.faults)
        self.log = MemoryLog(epochs or {0: 0, 1: 100, 2: 200}, end)
        self.log.last_stable_offset = stable
        self.log.local = lay_out(folder / "disk-1", bases, end)
        self.clock = FixedClock()
        self.metrics = TierMetrics()
        self._ids = count(1)

    async def held_copy(self, task: CopyTask) -> tuple[asyncio.Task[CopyResult], asyncio.Event]:
        """Start a run; returns it when its first copy is announced, and its data's gate."""
        gate = self.storage.copy_gate = asyncio.Event()
        run = asyncio.create_task(task.run_once())
        while not self.segments():  # noqa: ASYNC110 - There is no event to wait for.
            await asyncio.sleep(0)
        return run, gate

    def new_id(self) -> Uuid:
        return Uuid(next(self._ids).to_bytes(16, "big"))

    def task(
        self,
        settings: CopySettings | None = None,
        *,
        broker_id: int = 1,
        quota: CopyQuota | None = None,
    ) -> CopyTask:
        """A new copy task of broker `broker_id`, which leads from now on."""
        if broker_id != self.store.broker_id:
            self.store = self.ledger.store(TIP, broker_id=broker_id, faults=self.faults)
        deletions = CountedDeletions(
            self.store, self.storage, self.clock, broker_id, self.metrics
        )
        return CopyTask(self.log, self.storage, deletions, self.new_id, settings, quota)

    def restart(self, broker_id: int = 1) -> CopyTask:
        """The copy task of a new process, after a crash of the one before."""
        self.faults.restart()
        self.log.highest_offset_in_remote_storage = -1
        self.store = self.ledger.store(TIP, broker_id=broker_id, faults=self.faults)
        return self.task(broker_id=broker_id)

    def counted(self, metric: TierMetric) -> int:
        return self.metrics.value(metric, TIP)

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        return self.ledger.segments(TIP)

    def finished(self) -> list[tuple[int, int]]:
        """Start and end offset of every finished segment."""
        found = self.segments()
        return [(one.start_offset, one.end_offset) for one in found if one.state == FINISHED]

    def check_readable(self) -> None:
        """Assert that finished segments have their data, and only they count as remote."""
        finished = [one for one in self.segments() if one.state == FINISHED]
        for one in finished:
            assert one.remote_log_segment_id.id in self.storage.logs
            assert one.remote_log_segment_id.id in self.storage.indexes
        highest = self.log.highest_offset_in_remote_storage
        assert highest <= max((one.end_offset for one in finished), default=-1)

    def check_agreement(self) -> None:
        """Assert that metadata and storage have the same segments, all finished."""
        assert self.storage.ids == {one.remote_log_segment_id.id for one in self.segments()}
        assert {one.state for one in self.segments()} <= {FINISHED}


def copy_task(
    log: LocalLog, store: RemoteLogMetadataStore, storage: RemoteStorageManager
) -> CopyTask:
    """The copy task of broker 1, which leads; its segments' ids count up from 1."""
    ids = count(1)
    deletions = CountedDeletions(store, storage, FixedClock(), 1, TierMetrics())
    return CopyTask(log, storage, deletions, lambda: Uuid(next(ids).to_bytes(16, "big")))


async def until_done(world: CopyWorld, task: CopyTask) -> None:
    """Run `task` until nothing is left to do; fails if it is stopped, as it would never end."""
    while True:
        assert not task.is_stopped
        result = await task.run_once()
        world.check_readable()
        if result == CopyResult():
            return
