"""A door that tells plugins who owns a cluster's metadata, and refuses all other calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

import grpc
import grpc.aio

from tests.models.kafka.clients import WAIT_S
from tierledger.actors.coordinator.attendance import Attended
from tierledger.actors.coordinator.ownership import Ownership
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import METHOD, SERVICE, DoorLimits
from tierledger.actors.door.wire.coordination import attend_of, attended_message


class OwnershipDoor:
    """An async context manager that listens at `address`."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._server = grpc.aio.server()
        self._heard_one = asyncio.Condition()
        self.address = ""
        self.ownership = Ownership()
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

    async def change_owner(self, owner: str, source: str = "", heading: str = "") -> int:
        """Make `owner` the owner; returns the owner epoch once a plugin follows it."""
        epoch = self.ownership.epoch + 1
        self.ownership = Ownership(epoch, owner, source, heading)
        await self.attended(epoch)
        return epoch

    async def attended(self, owner_epoch: int, *, is_idle: bool | None = None) -> pb.Attend:
        """The next report of a plugin in that owner epoch that is idle as required."""
        async with self._heard_one, asyncio.timeout(WAIT_S):
            while True:
                await self._heard_one.wait()
                last = self.heard[-1]
                if last.owner_epoch == owner_epoch and is_idle in (None, last.is_idle):
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
            async with self._heard_one:
                self.heard.append(call.attend)
                self._heard_one.notify_all()
            attended = Attended(self.ownership, None)
            ownership = attended_message(attended, attend_of(call.attend).mode)
            return pb.Answer(id=call.id, ownership=ownership)
        if call.HasField("register"):
            self.registered.append(call.register)
        failure = pb.Failure(kind=pb.NOT_READY, message="no service is here", fate=pb.RETRYABLE)
        return pb.Answer(id=call.id, failure=failure)
