"""A client that is not ours: it asks for more than hosts have, and cancels or abandons calls.

Its questions are for positions that no log reaches. Their deadlines are short, and only the
host enforces them. No checker judges its answers; `WireWatch` judges the frames of its streams.
"""

from __future__ import annotations

import asyncio

import grpc.aio

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.streams import OPEN_S
from tierledger.actors.door.wire.segments import partition_message
from tierledger.simulation.machines.scenario.streams import stream
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.streams import PORT, End
from tierledger.simulation.service.virtual_loop import VirtualProcess

BEYOND = 1 << 40
"""A position that no log of a world reaches."""

PAUSE_S = 0.05
"""Mean time between two of its questions."""

HOSTS = 0.3
"""Share of its questions that only the coordinator can answer."""

WITHDRAWN = 0.5
"""Share of its questions that it cancels when it sends the next."""


class Stranger:
    """A process that opens one stream after the other, each to a random host's door.

    It leaves when the world's brokers make no more calls.
    """

    def __init__(self, world: Stage) -> None:
        self.process = VirtualProcess("stranger")
        self._world = world
        self._random = stream(world.scenario.seed, "stranger")
        self._asked = 0

    def start(self) -> None:
        self._world.loop.spawn(self.process, self._come_and_go())

    async def _come_and_go(self) -> None:
        while not self._world.is_quiet:
            door = f"host-{self._random.randrange(self._world.scenario.hosts)}:{PORT}"
            end = self._world.streams.connected(door).client
            try:
                async with asyncio.timeout(OPEN_S):
                    greeting = greeting_of(self._world.cluster_id)
                    await end.write(pb.ClientFrame(greeting=greeting).SerializeToString())
                    await end.read()
                await self._ask(end)
            except (grpc.aio.AioRpcError, TimeoutError):
                pass
            end.cancel()
            await asyncio.sleep(PAUSE_S)

    async def _ask(self, end: End) -> None:
        listening = asyncio.get_running_loop().create_task(self._listen(end))
        number = 0
        while not (listening.done() or self._world.is_quiet):
            await asyncio.sleep(2 * PAUSE_S * self._random.random())
            frame = pb.ClientFrame()
            if number and self._random.random() < WITHDRAWN:
                frame.cancelled.append(number)
            number += 1
            frame.calls.append(self._question(number))
            await end.write(frame.SerializeToString())

    def _question(self, number: int) -> pb.Call:
        self._asked += 1
        deadline_ms = self._random.choice((50, 300))
        if self._random.random() < HOSTS:
            return pb.Call(id=number, deadline_ms=deadline_ms, hosts=pb.HostsQuestion())
        question = pb.Question(
            partition=partition_message(self._random.choice(self._world.tips)),
            role=pb.FOLLOWER,
            kind=pb.LOOKUP,
            offset=self._asked,  # Makes each question unique.
            position_min=BEYOND,
        )
        return pb.Call(id=number, deadline_ms=deadline_ms, question=question)

    @staticmethod
    async def _listen(end: End) -> None:
        try:
            while await end.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
