"""A door that tells plugins who owns a cluster's metadata, and refuses all other calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

import grpc
import grpc.aio

from tests.models.kafka_clients import WAIT_S
from tierledger.actors.coordinator.ownership import OwnerWord
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import METHOD, SERVICE, DoorLimits
from tierledger.actors.door.wire.coordination import attend_of, word_message


class WordDoor:
    """An async context manager that listens at `address`."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._server = grpc.aio.server()
        self._said = asyncio.Condition()
        self.address = ""
        self.word = OwnerWord()
        self.heard: list[pb.Attend] = []
        self.registered: list[pb.Register] = []

    async def __aenter__(self) -> Self:
        handler = grpc.stream_stream_rpc_method_handler(
            self._converse, pb.ClientFrame.FromString, pb.HostFrame.SerializeToString
        )
        handlers = grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})
        self._server.add_generic_rpc_handlers((handlers,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def say(self, owner: str, source: str = "", heading: str = "") -> int:
        """Make `owner` the next word; returns its number once a plugin follows it."""
        number = self.word.number + 1
        self.word = OwnerWord(number, owner, source, heading)
        await self.attended(number)
        return number

    async def attended(self, number: int, *, is_idle: bool | None = None) -> pb.Attend:
        """The next report of a plugin that follows word `number`, and is idle as required."""
        async with self._said, asyncio.timeout(WAIT_S):
            while True:
                await self._said.wait()
                last = self.heard[-1]
                if last.number == number and is_idle in (None, last.is_idle):
                    return last

    async def _converse(
        self, frames: AsyncIterator[pb.ClientFrame], _: object
    ) -> AsyncIterator[pb.HostFrame]:
        limits = DoorLimits()
        yield pb.HostFrame(
            greeting=pb.HostGreeting(
                version=1,
                cluster_id=self._cluster_id,
                host="host-0/1",
                frame_bytes_max=limits.frame_bytes_max,
                calls_max=limits.calls_max,
            )
        )
        async for frame in frames:
            for call in frame.calls:
                yield pb.HostFrame(answers=[await self._answer(call)])

    async def _answer(self, call: pb.Call) -> pb.Answer:
        if call.HasField("attend"):
            async with self._said:
                self.heard.append(call.attend)
                self._said.notify_all()
            word = word_message(self.word, attend_of(call.attend).mode)
            return pb.Answer(id=call.id, owner_word=word)
        if call.HasField("register"):
            self.registered.append(call.register)
        failure = pb.Failure(kind=pb.NOT_READY, message="no service is here", fate=pb.RETRYABLE)
        return pb.Answer(id=call.id, failure=failure)
