"""Lists, the past, limits and configuration, through a whole service."""

import asyncio

import pytest

from tests.models.actors.local_world import (
    DELETING,
    LocalWorld,
    copy,
    eventually,
    listed,
    moved,
    partition,
    segment,
)
from tierledger.actors.calls import LEADER, PartitionKey, QueryCall
from tierledger.actors.host.answering import PAGE_ROWS
from tierledger.actors.host_settings import CUSTOM_METADATA_KEY
from tierledger.actors.messages import Query
from tierledger.events.errors import CustomMetadataSizeLimitExceeded, InvalidArgument, NotReady

TIP = partition()


# Lists.


async def test_lists_of_a_host_that_died_are_not_mixed_up_with_those_of_the_next(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    adds = [manager.add_remote_log_segment_metadata(segment(n)) for n in range(PAGE_ROWS + 1)]
    await asyncio.gather(*adds)
    router = await world.router()
    former = await manager.ask(TIP, LEADER, Query("list"))
    await world.service.kill_host("host-0")
    other = await manager.ask(TIP, LEADER, Query("list"))
    assert former.cursor is not None
    assert other.cursor is not None

    with pytest.raises(NotReady):
        await router.next_page(PartitionKey.of(TIP), LEADER, former.cursor)
    last = await router.next_page(PartitionKey.of(TIP), LEADER, other.cursor)
    assert len(last.value) == 1  # type: ignore[arg-type]


async def test_the_past_can_be_asked(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    before = await copy(manager, segment(0))
    await copy(manager, segment(1))
    then = manager.as_of(TIP, position=before)
    by_time = (await world.events(TIP))[before].log_time_ms

    assert [one.start_offset async for one in then.list_remote_log_segments()] == [0]
    assert await then.highest_offset_for_epoch(0) == 9
    assert await manager.as_of(TIP, time_ms=by_time).remote_log_size(0) == 10
    with pytest.raises(InvalidArgument):
        manager.as_of(TIP)


# Limits and configuration.


@pytest.mark.parametrize("limit", [0, 3])
async def test_custom_metadata_is_limited_and_equal_is_allowed(
    world: LocalWorld, limit: int
) -> None:
    world.storage[CUSTOM_METADATA_KEY] = str(limit)
    await world.restart()
    manager = await world.leader(TIP)
    one, two = segment(0), segment(1)
    for added in (one, two):
        await manager.add_remote_log_segment_metadata(added)

    await manager.update_remote_log_segment_metadata(moved(one, custom=bytes(limit)))
    with pytest.raises(CustomMetadataSizeLimitExceeded):
        await manager.update_remote_log_segment_metadata(moved(two, custom=bytes(limit + 1)))

    oversized = moved(two, DELETING, bytes(limit + 1))
    await manager.update_remote_log_segment_metadata(oversized)
    assert (await world.alarms())["CustomMetadataSizeLimitExceeded"] == 1
    found = await manager.remote_log_segment_metadata(TIP, 0, 5)
    assert found is not None
    assert found.custom_metadata is not None
    assert found.custom_metadata.value == bytes(limit)


async def test_configuration_comes_with_or_without_the_prefix(world: LocalWorld) -> None:
    prefixed: dict[str, object] = {
        f"rlmm.config.{key}": value for key, value in world.storage.items()
    }
    manager = await world.broker(7, more=prefixed)
    await manager.configure({"broker.id": 99})  # A second call is ignored.
    await manager.on_partition_leadership_changes([TIP], [])

    assert 7 in (await world.service.coordinator.status())["brokers"]


@pytest.mark.parametrize("wrong", [{"broker.id": "x"}, {"cluster.id": ""}])
async def test_a_configuration_without_an_identity_is_refused(
    world: LocalWorld, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument):
        await world.broker(1, more=wrong)


async def test_a_closed_manager_answers_nothing(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    await manager.close()
    await manager.close()

    for call in (
        manager.add_remote_log_segment_metadata(segment(0)),
        manager.remote_log_segment_metadata(TIP, 0, 0),
        manager.on_partition_leadership_changes([TIP], []),
        manager.is_ready(TIP),
    ):
        with pytest.raises(NotReady):
            await call


async def test_a_service_that_was_closed_goes_on_where_it_was(world: LocalWorld) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(0))
    await world.restart()
    (route,) = await world.service.coordinator.route([PartitionKey.of(TIP)])
    assert route.leader is not None
    assert route.leader[:2] == (1, 1)
    await world.until_led(TIP, route.leader)

    assert await world.alarms() == {}
    assert await listed(await world.broker(2)) == [0]
    later = await world.leader(TIP)
    await copy(later, segment(1))
    assert await listed(later) == [0, 1]


class SlowReader:
    """A stream whose client reads nothing until `reads` is set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.making = asyncio.Lock()
        self.reads = asyncio.Event()

    async def room(self) -> None:
        await self.reads.wait()


async def test_lists_are_not_made_for_who_does_not_read_and_others_do_not_wait(
    world: LocalWorld,
) -> None:
    manager = await world.leader(TIP)
    await copy(manager, segment(0))
    host = world.service.host("host-0").host
    question = QueryCall(PartitionKey.of(TIP), LEADER, Query("list"))
    slow, quick, made = SlowReader("slow"), SlowReader("quick"), list[str]()
    quick.reads.set()
    asked = [host.answer(question, lambda _: made.append("slow"), slow) for _ in range(5)]

    host.answer(question, lambda _: made.append("quick"), quick)
    assert await listed(manager, TIP) == [0]
    await eventually(lambda: made)

    assert made == ["quick"]
    for one in asked[:4]:
        host.drop_call(one)
    slow.reads.set()
    await eventually(lambda: len(made) == 2)
    assert made == ["quick", "slow"]
    assert host._readers == {}
