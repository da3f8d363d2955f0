"""What is done for many lets others run after each piece, if the time for it is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tierledger.actors import slices
from tierledger.actors.calls import LEADER, CloseCall, PartitionKey
from tierledger.actors.coordinator_events import ClientRegistered
from tierledger.actors.coordinator_log import CoordinatorLog
from tierledger.actors.host import Host
from tierledger.actors.wall_clock import WallClock
from tierledger.events.commands import Claim
from tierledger.events.decide import Limits
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.memory import MemoryBackend
from tierledger.storage.serde import MsgpackSerDe

COUNT = 50


@pytest.fixture(autouse=True)
def time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", -1.0)


class Turns:
    """How often the loop has come round."""

    taken = 0


@asynccontextmanager
async def counted() -> AsyncIterator[Turns]:
    turns = Turns()

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            turns.taken += 1

    task = asyncio.create_task(count())
    yield turns
    task.cancel()


def log_on(backend: MemoryBackend) -> CoordinatorLog:
    keys = DefaultMetadataKeyFactory("cluster")
    return CoordinatorLog("cluster", keys, MsgpackSerDe(), WallClock(), backend, b"me")


async def test_a_coordinator_folds_an_event_at_a_time() -> None:
    backend = MemoryBackend()
    bodies = [ClientRegistered(broker, 1, b"request") for broker in range(COUNT)]
    log = log_on(backend)
    _, stored = log.encoded(bodies, 0, log.state.chain_hash)

    async with counted() as turns:
        assert await log.append(stored, 0)
        assert turns.taken >= COUNT - 1
        assert await log_on(backend).read_on()

    assert turns.taken >= 2 * COUNT - 1


async def test_a_host_closes_its_partitions_one_at_a_time() -> None:
    host = Host(
        "host-0",
        process="process",
        cluster_id="cluster",
        backend=MemoryBackend(),
        keys=DefaultMetadataKeyFactory("cluster"),
        serde=MsgpackSerDe(),
        limits=Limits(),
        clock=WallClock(),
        give_up=lambda: None,
    )
    keys = [PartitionKey(bytes(16), number) for number in range(COUNT)]
    for key in keys:
        host._shells[key, LEADER] = host._reader(key)

    async with counted() as turns:
        await host.close_sessions([CloseCall(key, Claim(1, 1, 1)) for key in keys])
        assert turns.taken >= COUNT - 1
        await host.close()

    assert turns.taken >= 2 * COUNT - 1
