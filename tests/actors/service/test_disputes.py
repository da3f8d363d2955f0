"""A whole service where two brokers claim to lead, with a leader oracle beside it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.models.actors.fake_oracle import FakeOracle
from tests.models.actors.harness import kinds
from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    lead,
    listed,
    partition,
    segment,
)
from tests.models.storage import faulty_store
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.events.commands import LeaderVerdict
from tierledger.events.errors import Fenced, NotLeader
from tierledger.events.log_events import SessionOpened

TIP = partition()
EPOCH = {TIP: 5}


@pytest.fixture
def oracle() -> FakeOracle:
    return FakeOracle()


@pytest.fixture
async def world(oracle: FakeOracle, tmp_path: Path) -> AsyncIterator[LocalWorld]:
    """A service with two hosts whose oracle is `oracle`."""
    world = LocalWorld(faulty_store.settings(str(tmp_path)), hosts=2, oracle=oracle)
    await world.start()
    yield world
    await world.stop()


async def leader_of(world: LocalWorld, oracle: FakeOracle) -> AsyncRemoteLogMetadataManager:
    """Broker 1, which leads in an epoch that nobody knows."""
    leader = await world.leader(TIP)
    oracle.asked.clear()
    return leader


async def rival_of(world: LocalWorld) -> AsyncRemoteLogMetadataManager:
    """Broker 2, which has announced that it leads in an epoch."""
    rival = await world.broker(2)
    await rival.on_partition_leadership_changes([TIP], [], leader_epochs=EPOCH)
    return rival


async def given_back(world: LocalWorld) -> None:
    """Return once the coordinator has the claim of broker 1 in force."""

    async def is_so() -> bool:
        leader = (await world.route(TIP)).leader
        return leader is not None and leader.broker_id == 1

    await eventually(is_so)


async def kill_leaders_host(world: LocalWorld) -> None:
    host = (await world.route(TIP)).leader_host
    assert host is not None
    await world.service.kill_host(host)


async def brokers_that_opened(world: LocalWorld) -> list[int]:
    """The broker of each session."""
    bodies = [one.body for one in await world.events(TIP)]
    return [body.broker_id for body in bodies if isinstance(body, SessionOpened)]


async def test_the_broker_that_the_oracle_names_leads_and_the_other_serves_until_then(
    world: LocalWorld, oracle: FakeOracle
) -> None:
    leader = await leader_of(world, oracle)
    oracle.verdict = LeaderVerdict(2, 6)
    oracle.answers.clear()
    rival = await rival_of(world)
    await eventually(lambda: len(oracle.asked) == 1)
    await copy(leader, segment(0))
    assert not await rival.is_ready(TIP)
    oracle.answers.set()

    await rival.when_ready([TIP])
    await copy(rival, segment(1))
    with pytest.raises(Fenced):
        await leader.add_remote_log_segment_metadata(segment(2))
    assert "SessionDisputed" not in kinds(await world.events(TIP))


async def test_a_refused_claim_is_given_back_and_outlives_the_host(
    world: LocalWorld, oracle: FakeOracle
) -> None:
    leader = await leader_of(world, oracle)
    oracle.verdict = LeaderVerdict(1)
    rival = await rival_of(world)
    await given_back(world)
    with pytest.raises(Fenced):
        await rival.add_remote_log_segment_metadata(segment(0))
    await copy(leader, segment(1))

    await kill_leaders_host(world)
    await copy(leader, segment(2))

    assert await listed(leader) == [1, 2]
    assert not await rival.is_ready(TIP)
    assert await brokers_that_opened(world) == [1, 1]
    assert len(oracle.asked) == 1


async def test_a_leader_that_kafka_does_not_name_hears_so_and_what_it_follows_is_announced(
    world: LocalWorld, oracle: FakeOracle
) -> None:
    followed = partition(1)
    oracle.verdict = LeaderVerdict(1, 7)
    leader = await world.leader(TIP)
    rival = await world.broker(2)

    with pytest.raises(NotLeader, match=r"another broker than 2 leads 1 of .*:orders-0"):
        await rival.on_partition_leadership_changes([TIP], [followed])

    await rival.when_ready([followed])
    with pytest.raises(Fenced):
        await rival.add_remote_log_segment_metadata(segment(0))
    await copy(leader, segment(0))
    oracle.verdict = LeaderVerdict(2, 8)
    await lead(rival, TIP)
    await copy(rival, segment(1))


async def test_an_oracle_that_fails_is_one_that_does_not_know(
    world: LocalWorld, oracle: FakeOracle
) -> None:
    await world.leader(TIP)
    oracle.error = ZeroDivisionError("an oracle's own mistake")
    rival = await rival_of(world)

    await rival.when_ready([TIP])
    assert kinds(await world.events(TIP))[-1] == "SessionDisputed"


async def test_an_oracle_that_hangs_is_waited_for_until_its_deadline(
    world: LocalWorld, oracle: FakeOracle
) -> None:
    leader = await leader_of(world, oracle)
    oracle.answers.clear()
    began = asyncio.get_running_loop().time()
    rival = await rival_of(world)
    await copy(leader, segment(0))

    await rival.when_ready([TIP])
    assert asyncio.get_running_loop().time() - began >= ORACLE_DEADLINE_S
    assert kinds(await world.events(TIP))[-1] == "SessionDisputed"


async def test_without_an_oracle_a_second_dispute_waits_for_the_back_off(
    tmp_path: Path,
) -> None:
    async with LocalWorld(faulty_store.settings(str(tmp_path))) as world:
        first = await world.leader(TIP)
        second = await rival_of(world)
        await second.when_ready([TIP])
        third = await world.broker(3)
        began = asyncio.get_running_loop().time()
        await third.on_partition_leadership_changes([TIP], [])
        await copy(second, segment(0))
        assert not await third.is_ready(TIP)
        await eventually(lambda: third.is_ready(TIP))

        assert asyncio.get_running_loop().time() - began > 0.5
        assert kinds(await world.events(TIP)).count("SessionDisputed") == 2
        assert not await first.is_ready(TIP)
