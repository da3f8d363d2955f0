"""The end of a client of Kafka's brokers closes all, and takes no longer than it may."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tierledger.pipeline.imports import topic
from tierledger.pipeline.imports.topic import admin_of, started
from tierledger.storage.kafka_brokers import KafkaBrokers

NOBODY = KafkaBrokers("nobody:9092")


class Connection:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Client:
    """A client of aiokafka's that stops in a way of its own, with a connection."""

    def __init__(self, stop: Callable[[], Awaitable[None]]) -> None:
        self.stop = stop
        self.connection = Connection()
        self._conns = {0: self.connection}
        self._client = self

    async def bootstrap(self) -> None:
        pass

    async def start(self) -> None:
        await self.bootstrap()


async def test_an_end_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "END_S", 0.01)
    was_cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    client = Client(hangs)
    async with started(client, NOBODY):
        assert not client.connection.is_closed

    async with asyncio.timeout(10):
        await was_cancelled.wait()
    await asyncio.wait(topic._endings)
    assert client.connection.is_closed


async def test_an_end_that_fails_is_told() -> None:
    async def fails() -> None:
        raise OSError("the socket is gone")

    client = Client(fails)
    with pytest.raises(OSError, match="the socket is gone"):
        async with started(client, NOBODY):
            pass

    assert client.connection.is_closed


async def test_an_end_that_cancels_itself_cancels_nobody_else() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    async with started(Client(cancels), NOBODY):
        pass


API_VERSIONS, METADATA = 18, 3


@asynccontextmanager
async def half_a_broker(asked: asyncio.Event) -> AsyncIterator[str]:
    """One that tells which requests it knows, and answers no other; sets `asked` then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            request = await reader.readexactly(*struct.unpack(">i", size))
            key, _, number = struct.unpack(">hhi", request[:8])
            if key != API_VERSIONS:
                asked.set()
                continue
            known = struct.pack(">hihhhhhh", 0, 2, API_VERSIONS, 0, 0, METADATA, 0, 0)
            writer.write(struct.pack(">ii", 4 + len(known), number) + known)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_start_that_is_cancelled_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic, "REQUEST_MS", 500)
    left: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: left.append(found))
    asked = asyncio.Event()

    async def ask(address: str) -> None:
        async with admin_of(KafkaBrokers(address)):
            pytest.fail("nobody tells it of the cluster")

    async with half_a_broker(asked) as address:
        asking = asyncio.create_task(ask(address))
        async with asyncio.timeout(10):
            await asked.wait()
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()
        await asyncio.wait({*topic._endings, asyncio.create_task(asyncio.sleep(0))})

    assert left == []
