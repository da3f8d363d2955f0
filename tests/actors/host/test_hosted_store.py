"""A store as other processes reach it: through the host that writes."""

from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import override

from tierledger.actors.calls import StoreCall
from tierledger.actors.host.host import FORMER_STORE_METHODS, STORE_METHODS, Host
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.events.errors import StorageUnavailable
from tierledger.storage.backend import MetadataStorageBackend, Put, WriterReplaced
from tierledger.storage.backends.memory import MemoryBackend


class StoreOfAHost:
    """A host as its handle shows it, of which only the store is there."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self.asked: set[str] = set()

    async def ask(self, call: StoreCall) -> Any:  # noqa: ANN401 - Whatever it is.
        self.asked.add(call.method)
        return await Host.store(self, call.method, call.arguments, call.named)  # type: ignore[arg-type]


async def test_the_host_carries_out_all_that_others_may_ask_of_its_store() -> None:
    host = StoreOfAHost(MemoryBackend())

    async def current() -> Any:  # noqa: ANN401 - A host, as far as it is needed.
        return host

    hosted = HostedBackend(current)
    await hosted.create("k/0", b"a")
    await hosted.update("k/0", b"b", expected=b"a")
    await hosted.execute_atomically([Put("k/1", b"c")])
    await hosted.create_each([("k/2", b"d")])
    assert await hosted.get("k/0") == b"b"
    assert await hosted.get_each(["k/1", "k/9"]) == [b"c", None]
    assert len(await hosted.get_like("k/")) == 3
    assert await hosted.get_firsts("k/", 1) == [("k/0", b"b"), ("k/1", b"c"), ("k/2", b"d")]
    assert await hosted.last_keys(["k/"]) == ["k/2"]
    assert await hosted.last_keys_seen(["k/"]) == ["k/2"]
    assert await hosted.remove_like("k/") == 3

    assert host.asked == set(STORE_METHODS) - set(FORMER_STORE_METHODS)
    own = {name for name in vars(MetadataStorageBackend) if not name.startswith("_")}
    assert own - set(STORE_METHODS) == {"close", "is_replaced", "get_firsts"}
    assert [await Host.store(host, "get", ["k/0"], {})] == [None]  # type: ignore[arg-type]


async def test_a_host_that_was_replaced_is_no_error_of_the_store_and_is_left() -> None:
    class Replaced(MemoryBackend):
        @override
        async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
            raise WriterReplaced("another process has opened it")

    hosts = [StoreOfAHost(Replaced()), StoreOfAHost(MemoryBackend())]

    async def current() -> Any:  # noqa: ANN401 - As above.
        return hosts[0]

    hosted = HostedBackend(current, lost=hosts.reverse)
    with pytest.raises(StorageUnavailable, match="was replaced"):
        await hosted.get_each(["k"])

    assert await hosted.get_each(["k"]) == [None]
