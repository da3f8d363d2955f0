"""A door with a whole service behind it, and a client that says what it likes there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tests.models.local_world import CLUSTER, LocalWorld
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.limits import METHOD, SERVICE


async def door_of(world: LocalWorld, host: str = "host-0") -> str:
    """Where a host listens."""
    coordinator = world.service.coordinator
    return (await coordinator.doors())[(await coordinator.hosts())[host]]


@asynccontextmanager
async def served(folder: Path, hosts: int = 1) -> AsyncIterator[LocalWorld]:
    """A service that listens."""
    storage = {"metadata.storage.url": f"sqlite:{folder / 'store.sqlite'}"}
    world = LocalWorld(storage, hosts, door=True)
    await world.start()
    try:
        yield world
    finally:
        await world.stop()


class RawClient:
    """A stream without any rules; what it sends and reads is bytes or messages."""

    def __init__(self, door: str, method: str = METHOD) -> None:
        self._channel = grpc.aio.insecure_channel(door)
        self.call: Any = self._channel.stream_stream(f"/{SERVICE}/{method}")()

    async def send(self, frame: pb.ClientFrame | bytes) -> None:
        data = frame if isinstance(frame, bytes) else frame.SerializeToString()
        await self.call.write(data)

    async def next(self) -> pb.HostFrame | None:
        """The host's next frame; none if it has ended the stream."""
        data = await self.call.read()
        return None if data is grpc.aio.EOF else pb.HostFrame.FromString(data)

    async def greet(self, greeting: pb.ClientGreeting | None = None) -> pb.HostFrame:
        await self.send(pb.ClientFrame(greeting=greeting or greeting_of(CLUSTER)))
        frame = await self.next()
        assert frame is not None
        return frame

    async def ask(self, *calls: pb.Call) -> list[pb.Answer]:
        """The answers to calls that travel together, by id."""
        await self.send(pb.ClientFrame(calls=calls))
        answers: list[pb.Answer] = []
        while len(answers) < len(calls):
            frame = await self.next()
            assert frame is not None, "the host has ended the stream"
            assert not frame.HasField("farewell"), frame.farewell
            answers += frame.answers
        return sorted(answers, key=lambda one: one.id)

    async def close(self) -> None:
        self.call.cancel()
        await self._channel.close()


@asynccontextmanager
async def raw(door: str, method: str = METHOD) -> AsyncIterator[RawClient]:
    client = RawClient(door, method)
    try:
        yield client
    finally:
        await client.close()


async def until(holds: Any) -> None:  # noqa: ANN401 - Anything that can be called.
    while not holds():  # noqa: ASYNC110 - It has no event.
        await asyncio.sleep(0.002)
