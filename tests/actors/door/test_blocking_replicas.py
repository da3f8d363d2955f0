"""Replicas of programs that block answer as those on asyncio do."""

import asyncio

import pytest

from tests.actors.door.clients import door_of
from tests.models.actors.local_world import CLUSTER, LocalWorld, copy, partition, segment
from tierledger.actors.calls import LEADER
from tierledger.client import BlockingReplicas, InvalidArgument, NotReady
from tierledger.events.commands import Claim

TIP = partition()


def used(url: str, claim: Claim, position: int) -> list[object]:
    with BlockingReplicas(url, CLUSTER) as home:
        replica = home.of(TIP, LEADER)
        replica.expect(claim)
        replica.when_ready()
        replica.reached(position)
        with pytest.raises(NotReady, match=r"not there within 0\.05 s"):
            replica.reached(position + 1, timeout_s=0.05)
        found = replica.remote_log_segment_metadata(0, 15)
        answers: list[object] = [
            replica.is_ready,
            replica.position == position,
            replica.counts.snapshots,
            None if found is None else found.start_offset,
            sorted(one.start_offset for one in replica.list_remote_log_segments()),
            [one.start_offset for one in replica.list_remote_log_segments(0)],
            replica.highest_offset_for_epoch(0),
            replica.remote_log_size(0),
            replica.next_segment_with_txn_index(0, 0) is None,
        ]
        replica.close()
        with pytest.raises(NotReady, match="closed"):
            replica.remote_log_size(0)
    home.close()
    with pytest.raises(NotReady, match="closed"):
        home.of(TIP)
    return answers


async def test_a_program_that_blocks_is_fed_and_answered(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    position = await copy(manager, *map(segment, range(3)))
    claim = manager.claim_to_lead(TIP)
    assert claim is not None
    url = f"tierledger://{await door_of(world)}"

    answers = await asyncio.to_thread(used, url, claim, position)

    assert answers[:8] == [True, True, 1, 10, [0, 10, 20], [0, 10, 20], 29, 30]
    later = await manager.next_segment_with_txn_index(TIP, 0, 0)
    assert answers[8] is (later is None)


def test_what_replicas_refuse_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        BlockingReplicas("http://127.0.0.1:1", CLUSTER)
