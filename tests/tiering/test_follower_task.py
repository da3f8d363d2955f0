"""A follower drops local segments, or starts anew from the tier."""

from pathlib import Path

import pytest

from tests.models.tiering import tier_trace
from tests.models.tiering.copy_world import copy_task
from tests.models.tiering.memory_metadata import MemoryLedger, MemoryMetadataStore
from tests.models.tiering.memory_storage import MemoryStorage
from tests.models.tiering.planned_faults import PlannedFaults, When
from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    NotReady,
    RemoteResourceNotFound,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.tiering.follower_task import FollowerTask, LeaderLog, epoch_of_last_remote
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.local.leader_epochs import NOWHERE, OffsetAndEpoch
from tierledger.tiering.metrics.tier_metrics import (
    AUX_STATE_ERRORS,
    AUX_STATE_REQUESTS,
    TierMetrics,
)

PAYMENTS = next(one for one in tier_trace.topics() if one.topic == "payments-tx")
TIERED = tier_trace.segments_of(PAYMENTS.topic, PAYMENTS.partition)
LEADER = LeaderLog(
    log_start_offset=20,
    earliest_local_offset=160,
    earliest_local_epoch=0,
    end_of_epoch_before=None,
)
"""Offset 159 lies in the segment from 84 to 162."""


class FollowerWorld:
    """A leader (broker 1) that has copied a real log, and a follower of it (broker 2)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults = PlannedFaults()
        self.metrics = TierMetrics()
        self.ledger = MemoryLedger()
        self.storage = MemoryStorage(self.faults)

    async def copy(self) -> None:
        log = await LogDirectory.open(lay_out(self._folder / "leader"), PAYMENTS)
        await copy_task(log, self.ledger.store(PAYMENTS), self.storage).run_once()
        self.faults.restart()

    async def log(self) -> LogDirectory:
        """The follower's own, which ends with its second segment."""
        folder = lay_out(self._folder / "follower")
        for file in folder.glob("*.*"):
            if int(file.stem) > TIERED[0].metadata.end_offset + 1:
                file.unlink()
        return await LogDirectory.open(folder, PAYMENTS)

    def task(self, log: LogDirectory) -> FollowerTask:
        metadata = MemoryMetadataStore(self.ledger, 2, self.faults)
        return FollowerTask(log, metadata, self.storage, self.metrics)

    def damage(self, kind: IndexType, data: bytes | None) -> None:
        """Change an index of every segment, or take it away."""
        for indexes in self.storage.indexes.values():
            if data is None:
                indexes.pop(kind, None)
            else:
                indexes[kind] = data


def lay_out(folder: Path) -> Path:
    return tier_trace.local_log_directory(folder, PAYMENTS.topic, PAYMENTS.partition)


@pytest.fixture
def world(tmp_path: Path) -> FollowerWorld:
    return FollowerWorld(tmp_path)


async def test_a_follower_may_drop_what_is_remote_of_its_own_log(world: FollowerWorld) -> None:
    await world.copy()
    log = await world.log()

    assert await world.task(log).run_once() == OffsetAndEpoch(83, 0)
    assert log.highest_offset_in_remote_storage == 83


async def test_nothing_is_dropped_of_a_tier_empty_or_not_ready(world: FollowerWorld) -> None:
    world.ledger.store(PAYMENTS)
    log = await world.log()
    task = world.task(log)

    assert await task.run_once() == NOWHERE
    world.faults.fail_next("highest_offset_for_epoch", When.BEFORE, NotReady("catching up"))
    assert await task.run_once() is None
    assert log.highest_offset_in_remote_storage == -1


async def test_a_follower_of_an_unknown_partition_is_told_so(world: FollowerWorld) -> None:
    with pytest.raises(RemoteResourceNotFound):
        await world.task(await world.log()).run_once()


async def test_a_follower_begins_anew_behind_what_is_remote(world: FollowerWorld) -> None:
    await world.copy()
    log = await world.log()

    assert await world.task(log).rebuild_aux_state(LEADER) == 163

    assert [(one.base_offset, one.size_in_bytes) for one in log.segments()] == [(163, 0)]
    assert (log.log_start_offset, log.log_end_offset) == (20, 163)
    assert log.leader_epochs == {0: 20}
    snapshot = log.segments()[0].log_file.parent / f"{163:020}.snapshot"
    assert snapshot.read_bytes() == TIERED[2].indexes[IndexType.PRODUCER_SNAPSHOT]
    assert world.metrics.value(AUX_STATE_REQUESTS, PAYMENTS) == 1
    assert world.metrics.value(AUX_STATE_ERRORS, PAYMENTS) == 0
    assert await world.task(log).run_once() == OffsetAndEpoch(162, 0)


async def test_a_transaction_that_the_tier_left_open_stays_open(world: FollowerWorld) -> None:
    """Its first offset comes with the producer snapshot, for the log has nothing of it."""
    await world.copy()
    log = await world.log()
    leader = LEADER._replace(earliest_local_offset=83)  # Held by the segment from 82 to 83.

    assert await world.task(log).rebuild_aux_state(leader) == 84

    assert log.last_stable_offset < log.log_end_offset == 84


async def test_an_offset_in_no_segment_leaves_the_log_alone(world: FollowerWorld) -> None:
    await world.copy()
    log = await world.log()
    before = log.segments()

    with pytest.raises(RemoteResourceNotFound, match="holds offset 9998 in leader epoch 0"):
        await world.task(log).rebuild_aux_state(LEADER._replace(earliest_local_offset=9999))

    assert log.segments() == before
    assert world.metrics.value(AUX_STATE_ERRORS, PAYMENTS) == 1


@pytest.mark.parametrize(
    ("kind", "data", "error", "message"),
    [
        (IndexType.LEADER_EPOCH, None, RemoteResourceNotFound, "expected LEADER_EPOCH in"),
        (IndexType.PRODUCER_SNAPSHOT, None, RemoteResourceNotFound, "PRODUCER_SNAPSHOT"),
        (IndexType.LEADER_EPOCH, b"nonsense", CorruptRemoteData, "leader epochs"),
        (IndexType.PRODUCER_SNAPSHOT, b"nonsense", CorruptRemoteData, "producer snapshot"),
    ],
)
async def test_a_state_that_is_missing_or_damaged_leaves_the_log_alone(
    world: FollowerWorld,
    kind: IndexType,
    data: bytes | None,
    error: type[RemoteStorageError],
    message: str,
) -> None:
    await world.copy()
    world.damage(kind, data)
    log = await world.log()
    before = log.segments()

    with pytest.raises(error, match=message):
        await world.task(log).rebuild_aux_state(LEADER)

    assert log.segments() == before
    assert world.metrics.value(AUX_STATE_ERRORS, PAYMENTS) == 1


@pytest.mark.parametrize("number", range(3))
async def test_what_fails_on_the_way_can_be_retried(world: FollowerWorld, number: int) -> None:
    await world.copy()
    log = await world.log()
    task = world.task(log)
    world.faults.fail_call(number, When.BEFORE, StorageUnavailable("away"))

    with pytest.raises(StorageUnavailable):
        await task.rebuild_aux_state(LEADER)

    assert log.log_end_offset == 84
    assert await task.rebuild_aux_state(LEADER) == 163


async def test_of_a_leader_that_has_all_itself_nothing_is_remote(world: FollowerWorld) -> None:
    with pytest.raises(InvalidArgument, match="the leader has offset 0 itself"):
        await world.task(await world.log()).rebuild_aux_state(
            LEADER._replace(earliest_local_offset=0)
        )


@pytest.mark.parametrize(
    ("earliest", "epoch", "before", "expected"),
    [
        (160, 0, None, 0),
        (160, 2, OffsetAndEpoch(160, 1), 1),  # The local log begins with epoch 2.
        (160, 5, OffsetAndEpoch(160, 3), 3),  # Epoch 4 wrote nothing.
        (160, 2, OffsetAndEpoch(159, 1), 2),  # Epoch 2 began at 159, which is remote.
        (160, 2, OffsetAndEpoch(100, 1), 2),
    ],
)
def test_the_last_remote_offset_was_written_in_the_epoch_that_reaches_it(
    earliest: int, epoch: int, before: OffsetAndEpoch | None, expected: int
) -> None:
    assert epoch_of_last_remote(LeaderLog(0, earliest, epoch, before)) == expected


def test_the_partition_of_these_tests_has_what_they_need() -> None:
    assert isinstance(PAYMENTS, TopicIdPartition)
    assert [one.metadata.end_offset for one in TIERED[:3]] == [81, 83, 162]
