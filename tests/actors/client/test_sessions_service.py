"""Two brokers contend for a partition of a service whose hosts die and whose store fails.

What each call was told is compared with the log at the end: acknowledged means in the log at
that position, refused means not in the log, and nothing is there twice.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import faulty_store
from tests.models.local_world import LocalWorld, listed, partition, segment
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StorageUnavailable
from tierledger.events.log_events import Event, SegmentAdded, SessionOpened

TIP = partition()
DEADLINE_S = 1.0
BROKERS = (1, 2)
WRITES = 3

_worlds = count()

BROKER = st.sampled_from(BROKERS)
STEPS = st.one_of(
    st.tuples(st.just("lead"), BROKER),
    st.tuples(st.just("lead"), BROKER),
    st.tuples(st.just("follow"), BROKER),
    st.tuples(st.just("stop"), BROKER),
    st.tuples(st.just("write"), BROKER),
    st.tuples(st.just("write"), BROKER),
    st.tuples(st.just("write"), BROKER),
    st.tuples(st.just("read"), BROKER),
    st.tuples(st.just("kill"), BROKER),
    st.tuples(st.just("lose an answer"), BROKER),
    st.tuples(st.just("refuse"), BROKER),
    st.tuples(st.just("wait"), BROKER),
)


@dataclass
class Told:
    """What came back of each write, by the number of its segment."""

    positions: dict[int, int] = field(default_factory=dict)
    refused: dict[int, RemoteStorageError] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)


class Contention:
    """One run of steps; calls overlap until a step waits for them."""

    def __init__(self, world: LocalWorld, faults: faulty_store.Faults) -> None:
        self.world = world
        self.faults = faults
        self.told = Told()
        self.managers: dict[int, AsyncRemoteLogMetadataManager] = {}
        self.calls: list[asyncio.Task[None]] = []
        self.numbers = count()

    async def run(self, steps: list[tuple[str, int]]) -> None:
        for broker in BROKERS:
            self.managers[broker] = await self.world.broker(broker, DEADLINE_S)
        for step, broker in steps:
            await self.take(step, self.managers[broker])
        await asyncio.gather(*self.calls)

    async def take(self, step: str, manager: AsyncRemoteLogMetadataManager) -> None:
        match step:
            case "lead":
                await self.quietly(manager.on_partition_leadership_changes([TIP], []))
                await self.take("write", manager)
            case "follow":
                await self.quietly(manager.on_partition_leadership_changes([], [TIP]))
            case "stop":
                await self.quietly(manager.on_stop_partitions([TIP]))
            case "write":
                for _ in range(WRITES):
                    self.start(self.write(manager, next(self.numbers)))
            case "read":
                self.start(self.read(manager))
            case "kill":
                await self.world.service.kill_host("host-0")
            case "lose an answer":
                self.faults.replies_to_lose += 1
            case "refuse":
                self.faults.refuse_writes = StorageUnavailable("full")
                self.start(self.recover())
            case "wait":
                await asyncio.gather(*self.calls)
            case _:
                raise AssertionError(step)

    def start(self, call: Coroutine[None, None, None]) -> None:
        self.calls.append(asyncio.create_task(call))

    async def quietly(self, call: Awaitable[None]) -> None:
        with suppress(RemoteStorageError):  # As it may be while hosts die.
            await call

    async def recover(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.faults.refuse_writes = None

    async def write(self, manager: AsyncRemoteLogMetadataManager, number: int) -> None:
        try:
            position = await manager.add_remote_log_segment_metadata(segment(number))
        except OutcomeUnknown:
            self.told.unknown.add(number)
        except RemoteStorageError as error:
            self.told.refused[number] = error
        else:
            self.told.positions[number] = position

    async def read(self, manager: AsyncRemoteLogMetadataManager) -> None:
        """What was acknowledged to a manager before it reads, it reads."""
        seen = set(self.told.positions)
        with suppress(RemoteStorageError):  # As it may be while hosts die.
            manager.observe(TIP, max(self.told.positions.values(), default=-1))
            found = await listed(manager)
            assert seen <= set(found)
            assert not set(found) & set(self.told.refused)


def check(told: Told, events: list[Event]) -> None:
    adds = [event for event in events if isinstance(event.body, SegmentAdded)]
    at = {number_of(event): event.position for event in adds}
    assert len(at) == len(adds), "nothing happens twice"
    assert told.positions.items() <= at.items()
    assert not set(at) & set(told.refused)
    assert set(at) <= set(told.positions) | told.unknown
    sessions = [event.body.number for event in events if isinstance(event.body, SessionOpened)]
    assert sessions == list(range(1, len(sessions) + 1))


def number_of(event: Event) -> int:
    assert isinstance(event.body, SegmentAdded)
    return int.from_bytes(event.body.segment_id, "big")


@settings(max_examples=max(10, settings().max_examples // 4))
@given(st.lists(STEPS, min_size=10, max_size=40))
def test_nobody_is_told_what_is_not_so(steps: list[tuple[str, int]]) -> None:
    name = f"contention-{next(_worlds)}"

    async def contend() -> tuple[Told, list[Event]]:
        world = LocalWorld(faulty_store.settings(name))
        await world.start()
        contention = Contention(world, faulty_store.faults(name))
        await contention.run([("lead", 1), *steps])
        await world.stop()
        return contention.told, await world.events(TIP)

    told, events = asyncio.run(contend())

    check(told, events)
