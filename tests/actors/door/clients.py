"""A door with a whole service behind it, and a client that sends arbitrary frames."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tests.models.actors.local_world import CLUSTER, LocalWorld, sqlite_in
from tierledger.actors.coordinator.requests import DoorsCall, HostsCall
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.limits import METHOD, SERVICE


async def door_of(world: LocalWorld, host: str = "host-0") -> str:
    """The address at which a host listens."""
    coordinator = world.service.coordinator
    return (await coordinator.ask(DoorsCall()))[(await coordinator.ask(HostsCall()))[host]]


def served(folder: Path, hosts: int = 1) -> LocalWorld:
    """A service that listens, to be entered."""
    return LocalWorld(sqlite_in(folder), hosts, door=True)


class RawClient:
    """A stream without any rules; what it sends and reads is bytes or messages."""

    def __init__(self, door: str, method: str = METHOD) -> None:
        self._channel = grpc.aio.insecure_channel(door)
        self.call: Any = self._channel.stream_stream(f"/{SERVICE}/{method}")()

    async def send(self, frame: pb.ClientFrame | bytes) -> None:
        data = frame if isinstance(frame, bytes) else frame.SerializeToString()
        await self.call.write(data)

    async def next_or_end(self) -> pb.HostFrame | None:
        """The host's next frame; none if it has ended the stream."""
        data = await self.call.read()
        return None if data is grpc.aio.EOF else pb.HostFrame.FromString(data)

    async def next(self) -> pb.HostFrame:
        """The host's next frame, which has to come."""
        frame = await self.next_or_end()
        assert frame is not None, "the host has ended the stream"
        return frame

    async def farewell(self) -> pb.Failure:
        """The host's farewell; frames before it are skipped, and none may follow."""
        while not (frame := await self.next()).HasField("farewell"):
            pass
        assert await self.next_or_end() is None
        return frame.farewell

    async def greet(self, greeting: pb.ClientGreeting | None = None) -> pb.HostFrame:
        await self.send(pb.ClientFrame(greeting=greeting or greeting_of(CLUSTER)))
        return await self.next()

    async def ask(self, *calls: pb.Call) -> list[pb.Answer]:
        """The answers to calls that travel together, by id."""
        await self.send(pb.ClientFrame(calls=calls))
        answers: list[pb.Answer] = []
        while len(answers) < len(calls):
            frame = await self.next()
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


@asynccontextmanager
async def greeted(door: str, method: str = METHOD) -> AsyncIterator[RawClient]:
    """A client that was let in."""
    async with raw(door, method) as client:
        assert (await client.greet()).HasField("greeting")
        yield client
