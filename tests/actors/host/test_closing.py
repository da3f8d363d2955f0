"""A host that closes serves first what it has accepted."""

import asyncio
from collections.abc import Mapping, Sequence

from typing_extensions import override

from tests.models.actors.local_world import eventually, lone_host
from tierledger.actors.calls import LEADER, CommandCall, PartitionKey, Placement
from tierledger.actors.messages import Assignment
from tierledger.events.commands import Claim, CloseSession
from tierledger.storage.backend import NO_FORMERS, CreateOutcome, Former
from tierledger.storage.backends.memory import MemoryBackend

KEY, CLAIM = PartitionKey(bytes(16), 0), Claim(1, 1, 1)


class SlowStore(MemoryBackend):
    """Appends nothing before its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.appends = 0

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        self.appends += 1
        await self.gate.wait()
        return await super().create_each(items, formers)


async def test_a_write_that_a_host_had_accepted_is_answered_before_it_closes() -> None:
    store = SlowStore()
    host = lone_host(store)
    host.start()
    await host.place([Placement(KEY, "orders", LEADER, Assignment(1, CLAIM))])
    await eventually(lambda: store.appends == 1)  # Of its session.

    written = host.call(CommandCall(KEY, CloseSession(CLAIM, "it follows")))
    closing = asyncio.ensure_future(host.close())
    await asyncio.wait({closing}, timeout=0)
    store.gate.set()
    await closing

    assert written.done()
    assert written.result() == 1
