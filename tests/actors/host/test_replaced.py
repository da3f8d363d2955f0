"""A host whose store another process writes by now ends."""

import asyncio

from typing_extensions import override

from tests.models.actors.local_world import eventually, lone_host
from tierledger.actors.host.timed_backend import TimedBackend
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.memory import MemoryBackend


class TakenStore(MemoryBackend):
    """Another process has opened it for writing once `is_taken` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_taken = asyncio.Event()

    @override
    async def is_replaced(self) -> bool:
        return await self.is_taken.wait()


async def test_a_host_ends_once_another_process_writes_its_store() -> None:
    store, ended = TakenStore(), []
    host = lone_host(store, give_up=lambda: ended.append(True))
    host.start()

    store.is_taken.set()
    await eventually(lambda: bool(ended))

    await host.abandon()


def test_a_backend_around_another_passes_everything_on() -> None:
    wanted = {name for name in vars(MetadataStorageBackend) if not name.startswith("_")}
    made_of_others = {"create", "update", "get"}

    assert wanted - made_of_others == wanted & vars(TimedBackend).keys()
