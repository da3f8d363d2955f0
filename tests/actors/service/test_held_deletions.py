"""While deletions are held, brokers cannot make a finished segment go from the tier."""

from typing import Any

import pytest

from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    listed,
    moved,
    partition,
    segment,
)
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import CONFIRM, Handover, PluginMode
from tierledger.actors.coordinator.unowned import SILENT_MS
from tierledger.events.errors import RejectedError
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata

TIP = partition()
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def report(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - As in JSON.
    """A follower's report."""
    plain = {"follower": "f", "reports": 1, "task": "mirror", "round": 1, "trouble": None}
    return {**plain, **fields}


async def held(world: LocalWorld) -> str:
    text: str = (await world.service.coordinator.status())["deletions_held_text"]
    return text


async def owned(world: LocalWorld) -> AsyncRemoteLogMetadataManager:
    """A leader of a cluster that tierledger owns, with two segments that were copied."""
    coordinator = world.service.coordinator
    await coordinator.hand_over(Handover(Owner.TIERLEDGER, Owner.NOBODY))
    leader = await world.leader(TIP)
    for number in range(2):
        await copy(leader, segment(number))
    return leader


async def move(
    leader: AsyncRemoteLogMetadataManager,
    added: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
) -> None:
    await leader.update_remote_log_segment_metadata(moved(added, state))


async def hold(world: LocalWorld) -> None:
    """A follower has met a record that others wrote; hosts hear of it with a ping."""
    coordinator = world.service.coordinator
    await coordinator.follow_kafka(report(foreign=1, foreign_since_ms=1_700_000_000_000))
    await until_hosts_know(world, is_held=True)


async def until_hosts_know(world: LocalWorld, *, is_held: bool) -> None:
    host = world.service.host("host-0").host

    async def know() -> bool:
        return bool(host.deletions.held) is is_held

    await eventually(know)


async def test_a_leader_refuses_to_begin_the_deletion_of_a_finished_segment(
    world: LocalWorld,
) -> None:
    leader = await owned(world)
    started = segment(2)
    await leader.add_remote_log_segment_metadata(started)
    await move(leader, segment(1), DELETING)
    await hold(world)

    with pytest.raises(RejectedError, match=r"held since 2023-11-14 .* records of others"):
        await move(leader, segment(0), DELETING)
    # What was begun before goes on, and a copy that failed is cleaned up.
    await move(leader, segment(1), DELETED)
    await move(leader, started, DELETING)

    assert await listed(leader) == [0, 2]
    assert (await world.alarms())["deletion-held"] == 1


async def test_the_deletion_of_a_topic_goes_on(world: LocalWorld) -> None:
    leader = await owned(world)
    await hold(world)
    marked = RemotePartitionDeleteState.DELETE_PARTITION_MARKED

    await leader.put_remote_partition_delete_metadata(
        RemotePartitionDeleteMetadata(TIP, marked, 5, 1)
    )
    await move(leader, segment(0), DELETING)


async def test_a_new_service_holds_deletions_until_they_are_confirmed(
    world: LocalWorld,
) -> None:
    await owned(world)
    await hold(world)
    await world.restart()
    leader = await world.leader(TIP)
    await until_hosts_know(world, is_held=True)
    with pytest.raises(RejectedError, match="deletions of finished segments are held"):
        await move(leader, segment(0), DELETING)

    owned_by = await world.service.coordinator.hand_over(CONFIRM)

    assert owned_by == (Owner.TIERLEDGER, 1)
    assert not await held(world)
    await until_hosts_know(world, is_held=False)
    await move(leader, segment(0), DELETING)
    # The same records hold nothing again.
    await world.service.coordinator.follow_kafka(report(foreign=1))
    assert not await held(world)


async def test_a_broker_that_could_not_report_holds_deletions_until_it_can(
    world: LocalWorld,
) -> None:
    """Started anew, so that its incarnation is another one."""
    await owned(world)
    coordinator = world.service.coordinator
    plugin = Attend(9, 0, PluginMode.TIERLEDGER, 1, False)
    await coordinator.attend(plugin)
    await coordinator.follow_kafka(report(alive=[9], seen_ms_ago=-2 * SILENT_MS))
    await until_hosts_know(world, is_held=True)
    assert "brokers 9 ran without the plugin" in await held(world)

    await coordinator.attend(plugin)
    assert await held(world)
    await coordinator.attend(plugin._replace(ran_ms=60_000))

    await until_hosts_know(world, is_held=False)
    assert not await held(world)
