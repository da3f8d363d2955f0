"""Reads of partitions that nobody hosts share loads, and only some load at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from typing_extensions import override

from tests.models.actors.local_world import KEYS, eventually, lone_host
from tierledger.actors.calls import STORAGE, PartitionKey, QueryCall
from tierledger.actors.host import machine
from tierledger.actors.host.host import Host
from tierledger.actors.host.machine import LOADS_AT_ONCE
from tierledger.actors.messages import Query
from tierledger.events.errors import NotReady, Overloaded, Quarantined
from tierledger.storage.backends.memory import MemoryBackend


class GatedStore(MemoryBackend):
    """Notes which checkpoints are read, and answers once its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.loads: list[str] = []
        self.reading = 0
        self.failing: dict[str, Exception] = {}

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        if keys[0].endswith("/partition"):
            self.loads.append(keys[0])
            self.reading += 1
            try:
                await self.gate.wait()
            finally:
                self.reading -= 1
        if keys[0] in self.failing:
            raise self.failing[keys[0]]
        return await super().get_each(keys)


@pytest.fixture
def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
async def host(store: GatedStore) -> AsyncIterator[Host]:
    host = lone_host(store)
    host.start()
    yield host
    await host.abandon()


def reads(*partitions: int, timeout_ms: int = 10_000) -> list[QueryCall]:
    query = Query("highest_offset")
    return [
        QueryCall(PartitionKey(bytes(16), one), STORAGE, query, timeout_ms=timeout_ms)
        for one in partitions
    ]


def asked(host: Host, calls: list[QueryCall]) -> list[asyncio.Future[Any]]:
    return [host.call(call) for call in calls]


async def answers(asked: list[asyncio.Future[Any]]) -> list[Any]:
    """The outcomes of the calls `asked`."""
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_a_load_that_nobody_waits_for_any_more_is_not_begun(
    host: Host, store: GatedStore
) -> None:
    asked_reads = asked(host, reads(*range(LOADS_AT_ONCE)))
    late = await answers(asked(host, reads(*range(50, 60), timeout_ms=30)))
    store.gate.set()
    await answers(asked_reads)
    await answers(asked(host, reads(70)))

    assert {type(one) for one in late} == {NotReady}
    assert len(store.loads) == LOADS_AT_ONCE + 1


async def test_a_store_that_is_away_keeps_no_place_for_reads_that_are_over(
    host: Host, store: GatedStore
) -> None:
    over = await answers(asked(host, reads(*range(LOADS_AT_ONCE), timeout_ms=30)))
    assert {type(one) for one in over} == {NotReady}
    await eventually(lambda: store.reading == 0)

    late = asked(host, reads(50))
    await eventually(lambda: len(store.loads) == LOADS_AT_ONCE + 1)
    store.gate.set()
    await answers(late)


async def test_too_many_that_wait_are_refused_at_once(
    host: Host, store: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "READS_MAX", 5)
    asked_reads = asked(host, reads(*range(8)))
    store.gate.set()

    found = await answers(asked_reads)

    assert [type(one) for one in found[5:]] == [Overloaded] * 3
    assert [one.position for one in found[:5]] == [-1] * 5
    assert [one.position for one in await answers(asked(host, reads(9)))] == [-1]


async def test_a_partition_that_cannot_be_read_harms_its_own_readers_only(
    host: Host, store: GatedStore
) -> None:
    store.gate.set()
    broken = KEYS.partition(PartitionKey(bytes(16), 1).named(""))
    store.failing[broken] = KeyError("odd")
    bad, good = await answers(asked(host, reads(1, 2)))

    assert type(bad) is Quarantined
    assert good.position == -1
