"""Retention of a partition's remote log: what a run deletes."""

from itertools import pairwise

import pytest

from tests.models.tiering.retention_world import (
    DELETING,
    FINISHED,
    LINEAGE,
    SIZE,
    STARTED,
    TIP,
    RetentionWorld,
    add_fifty,
    reasons,
)
from tierledger.events.errors import InvalidArgument
from tierledger.tiering.retention.expiration_task import Retention, RetentionResult
from tierledger.tiering.retention.walk import Reason


@pytest.mark.parametrize("deletable", [0, 1, 23, 50])
async def test_by_size_the_oldest_go_until_only_the_limit_is_left(deletable: int) -> None:
    world = RetentionWorld(LINEAGE, end=5200)
    await add_fifty(world)
    world.log.highest_offset_in_remote_storage = 4999
    for base in (4900, 5000, 5100):  # The first is in the tier already.
        world.log.add_local(base, base + 100)

    task = world.task(retention_bytes=(50 - deletable) * SIZE + 2 * SIZE)
    result = await task.run_once()

    expected = [(number * 100, Reason.SIZE) for number in range(deletable)]
    assert reasons(result) == expected
    assert world.log.log_start_offset == deletable * 100
    assert len(world.left()) == 50 - deletable
    world.check_agreement()
    again = await task.run_once()
    assert again == RetentionResult((), None, is_complete=True)


async def test_the_plain_sum_over_epochs_would_delete_too_much() -> None:
    """KIP-852's sum of `remoteLogSize` counts a segment once for each of its epochs."""
    world = RetentionWorld(LINEAGE, end=5000)
    await add_fifty(world)

    plain = sum([await world.store.remote_log_size(TIP, epoch) for epoch in LINEAGE])
    result = await world.task(retention_bytes=50 * SIZE).run_once()

    assert plain == 52 * SIZE  # The first segment has three epochs: two too many would go.
    assert result.deleted == ()
    assert len(world.left()) == 50


async def test_what_is_of_another_history_is_summed_up_once_not_for_each_segment() -> None:
    world = RetentionWorld({1: 0, 3: 100, 4: 300}, end=700)
    lost = await world.add(150, 250, {4: 150}, size=10 * SIZE)
    for start, epoch in ((0, 1), (100, 3), (200, 3), (300, 4)):
        await world.add(start, start + 99, {epoch: start})
    task = world.task(retention_bytes=3 * SIZE)

    lists = []
    for due, added in ((0, 400), (100, 500), (200, 600)):
        world.faults.calls.clear()
        assert reasons(await task.run_once()) == [(due, Reason.SIZE)]
        lists.append(world.faults.calls.count("list_remote_log_segments"))
        await world.add(added, added + 99, {4: added})

    # Walked and summed up; the first run leaves epoch 1 without records, so the second sums up
    # anew; the third does not.
    assert lists == [2 + 3, 1 + 2, 2]
    assert lost in world.ledger.segments(TIP)


async def test_what_is_of_another_history_is_summed_up_anew_once_some_is_deleted() -> None:
    world = RetentionWorld({2: 0, 3: 500}, end=700)
    await world.add(0, 50, {0: 0}, size=10 * SIZE)
    await world.add_hundreds(0, 100, 200, 300, epoch=2)
    task = world.task(retention_bytes=3 * SIZE)

    first = await task.run_once()
    await world.add(400, 499, {2: 400})
    second = await task.run_once()

    assert reasons(first) == [(0, Reason.SIZE), (0, Reason.STALE_EPOCH)]
    assert reasons(second) == [(100, Reason.SIZE)]


@pytest.mark.parametrize(
    ("spans", "local", "known"),
    [
        ([(0, 99), (100, 199)], (0, 100, 200, 300), -1),
        ([(0, 99), (100, 199)], (0, 100, 200, 300), 99),
        ([(0, 98), (99, 99)], (99, 100, 200), 99),
    ],
    ids=["it knows of no copy", "it knows of the first", "one begins with the last remote"],
)
async def test_what_is_remote_and_local_is_counted_once(
    spans: list[tuple[int, int]], local: tuple[int, ...], known: int
) -> None:
    """After an election the log knows that late, and of a copy once it has finished."""
    world = RetentionWorld(end=local[-1])
    for start, end in spans:
        await world.add(start, end, {0: start})
    for base, following in pairwise(local):
        world.log.add_local(base, following)
    world.log.highest_offset_in_remote_storage = known

    kept = await world.task(retention_bytes=3 * SIZE).run_once()
    one = await world.task(retention_bytes=2 * SIZE).run_once()

    assert kept.deleted == ()
    assert reasons(one) == [(0, Reason.SIZE)]


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "named"),
    [(-2, 0, r"retention\.ms: .* got -2"), (0, -3, r"retention\.bytes: .* got -3")],
)
def test_a_retention_below_minus_one_is_refused(
    retention_ms: int, retention_bytes: int, named: str
) -> None:
    with pytest.raises(InvalidArgument, match=named):
        Retention(retention_ms, retention_bytes)


async def test_a_deletion_that_the_copy_task_works_on_is_left_to_it() -> None:
    world = RetentionWorld({0: 0}, end=300)
    await world.add(0, 99, {0: 0})
    failed_copy = await world.add(100, 199, {0: 100}, state=DELETING)
    world.being_copied = {failed_copy.remote_log_segment_id}

    assert (await world.task().run_once()).deleted == ()


async def test_copies_that_never_finished_count_for_nothing_and_are_deleted_in_turn() -> None:
    world = RetentionWorld(end=1400)
    await world.add(0, 99, {0: 0}, state=STARTED)
    await world.add(100, 199, {0: 100}, state=DELETING)
    second = await world.add(200, 299, {0: 200}, state=STARTED)
    await world.add_hundreds(*range(300, 1400, 100))
    task = world.task(retention_bytes=10 * SIZE)

    first_run = await task.run_once()
    await world.move(second, FINISHED)
    second_run = await task.run_once()

    assert sorted(reasons(first_run)) == [(0, Reason.SIZE), (100, Reason.INTERRUPTED)]
    assert reasons(second_run) == [(200, Reason.SIZE), (300, Reason.SIZE)]
    assert len(world.left()) == 10
    world.check_agreement()


async def test_nothing_is_deleted_while_the_first_segment_is_being_copied() -> None:
    world = RetentionWorld(end=200)
    first = await world.add(0, 99, {0: 0}, state=STARTED)
    await world.add(100, 199, {0: 100})
    world.being_copied = {first.remote_log_segment_id}
    task = world.task(retention_bytes=0)

    during = await task.run_once()
    await world.move(first, FINISHED)
    world.being_copied = set()
    after = await task.run_once()

    assert during.deleted == ()
    assert reasons(after) == [(0, Reason.SIZE), (100, Reason.SIZE)]
