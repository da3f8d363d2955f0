"""A log that nobody leads is written in one step with the proof that nothing has changed."""

import asyncio

import pytest

from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    TIP,
    StoredPartition,
    finished,
    segment_id,
    updated,
)
from tierledger.actors.coordinator.events import CoordinatorBody, HoldPlaced
from tierledger.actors.coordinator.log import folded, read_on
from tierledger.actors.coordinator.unled_log import UnledLog
from tierledger.actors.holds import Hold
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidStateTransition, RejectedError
from tierledger.events.log_events import Origin, SegmentKept, SegmentPurgeStarted
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.verification import verify

START = cmd.StartPurges(Origin(-1, None), (segment_id(0),), 60_000)
HOLD = Hold("audit", "*", reason="the audit", by="somebody")


class Kept:
    """A partition with a kept segment that nobody leads."""

    def __init__(self, partition: StoredPartition) -> None:
        self.partition = partition
        self.catalog = Catalog(partition.backend, partition.keys, SERDE, CLUSTER)

    @classmethod
    async def made(cls) -> "Kept":
        partition = await StoredPartition.led()
        await partition.append(finished(0))
        kept = SegmentKept(segment_id(0), 9, 2, 1, 5, "undo")
        await partition.append([updated(0, 2), kept])
        await partition.close()
        return cls(partition)

    async def log(self) -> UnledLog:
        return await UnledLog.read(self.catalog, await folded(self.catalog), TIP)

    async def coordinator_writes(self, body: CoordinatorBody) -> tuple[str, bytes]:
        """The next slot of the coordinator's log, and what would be in it."""
        fold = await folded(self.catalog)
        _, stored = fold.events_of([body], fold.state, 1_000)
        return fold.key(fold.next_batch), fold.batch_of(stored)


async def test_what_is_written_is_read_by_whoever_leads_next() -> None:
    kept = await Kept.made()
    log = await kept.log()

    (event,) = await log.write(START, 1_000)
    assert event.body == SegmentPurgeStarted(segment_id(0), 61_000)
    await log.write(cmd.EndPurges(START.origin, START.segment_ids), 1_001)

    partition = await StoredPartition.resumed(kept.partition.backend)
    await partition.open()
    assert partition.state.digest() != log.state.digest()
    assert len(partition.state.kept) == 0
    assert not (await verify(partition.reader())).findings


async def test_a_hold_that_comes_between_decision_and_step_is_heeded() -> None:
    kept = await Kept.made()
    fold = await folded(kept.catalog)
    log = await UnledLog.read(kept.catalog, fold, TIP, is_coordinator=True)
    key, value = await kept.coordinator_writes(HoldPlaced(*HOLD))
    await kept.partition.backend.create(key, value)

    async def fold_it() -> None:
        await asyncio.sleep(0)
        await read_on(fold, kept.catalog.backend, kept.catalog.keys)

    # It decides before it knows the hold, and its step proves that there is something to read.
    written, _ = await asyncio.gather(log.write(START, 1_000), fold_it())
    assert written == ()
    assert len(log.state.kept) == 1


async def test_two_that_write_take_turns() -> None:
    kept = await Kept.made()
    first, second = await kept.log(), await kept.log()
    rival = START._replace(origin=Origin(7, None))

    assert len(await first.write(START, 1_000)) == 1
    assert await second.write(rival, 1_001) == (), "the lease is the first one's"
    assert first.state.digest() == second.state.digest()


async def test_a_session_that_nobody_closed_ends_with_it() -> None:
    kept = await Kept.made()
    await kept.partition.open()
    fold = await folded(kept.catalog)
    log = await UnledLog.read(kept.catalog, fold, TIP, is_coordinator=True)

    await log.write(START, 1_000)
    await log.write(cmd.EndPurges(START.origin, START.segment_ids), 1_001)

    assert not log.state.is_open
    await forget(kept.partition.reader())


async def test_one_that_slept_while_the_log_was_forgotten_writes_nothing_into_it() -> None:
    kept = await Kept.made()
    sleeping, awake = await kept.log(), await kept.log()
    await awake.write(START, 1_000)
    await awake.write(cmd.EndPurges(START.origin, START.segment_ids), 1_001)
    await forget(kept.partition.reader())
    left = dict(kept.partition.values)

    assert await sleeping.write(START, 1_002) == ()

    assert dict(kept.partition.values) == left


async def test_a_led_partition_and_a_refused_command_leave_it_as_it_is() -> None:
    kept = await Kept.made()
    early = await kept.log()
    assert await early.write(START, 8) == (), "it is not due"
    with pytest.raises(InvalidStateTransition, match="has not begun"):
        await early.write(cmd.EndPurges(START.origin, START.segment_ids), 8)
    await kept.partition.open()
    for log in (early, await kept.log()):
        with pytest.raises(RejectedError, match="is led by broker 1"):
            await log.write(START, 1_000)
