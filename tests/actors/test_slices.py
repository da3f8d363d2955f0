"""Long work yields to other tasks after a piece, once its time slice is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tierledger.actors import slices
from tierledger.actors.calls import LEADER, CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator.events import ClientRegistered
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.log import read_on
from tierledger.actors.host.host import Host
from tierledger.actors.messages import Assignment
from tierledger.actors.wall_clock import WallClock
from tierledger.events.commands import Claim
from tierledger.events.partition.decide import Limits
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.event_log import StoredBatch
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


async def test_who_only_reads_a_coordinators_log_folds_a_batch_at_a_time() -> None:
    backend, keys = MemoryBackend(), DefaultMetadataKeyFactory("cluster")
    written, read = (Fold("cluster", keys, MsgpackSerDe()) for _ in range(2))
    for broker in range(COUNT):
        body = ClientRegistered(broker, 1, b"request")
        _, stored = written.events_of([body], written.state, 5)
        value = written.batch_of(stored)
        await backend.create(keys.coordinator_batch(broker), value)
        written.take(StoredBatch(broker, value))

    async with counted() as turns:
        await read_on(read, backend, keys)

    assert read.state.chain_hash == written.state.chain_hash
    assert turns.taken >= COUNT - 1


def placed(key: PartitionKey) -> Placement:
    return Placement(key, "orders", LEADER, Assignment(1, Claim(1, 1, 1)))


async def test_a_host_closes_its_partitions_one_at_a_time() -> None:
    host = Host(
        "host-0",
        process="process",
        pid=1,
        cluster_id="cluster",
        backend=MemoryBackend(),
        keys=DefaultMetadataKeyFactory("cluster"),
        serde=MsgpackSerDe(),
        limits=Limits(),
        clock=WallClock(),
        give_up=lambda: None,
    )
    keys = [PartitionKey(bytes(16), number) for number in range(COUNT)]
    await host.place([placed(key) for key in keys])

    async with counted() as turns:
        await host.close_sessions([CloseCall(key, Claim(1, 1, 1)) for key in keys])
        assert turns.taken >= COUNT - 1
        await host.close()

    assert turns.taken >= 2 * COUNT - 1
