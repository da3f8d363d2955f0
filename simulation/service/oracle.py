"""The leader oracle of a world: what Kafka's controller answers, if it does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.struck import Struck, passes
from tierledger.simulation.service.virtual_loop import current_process

SILENT_ABOVE = 85
"""Of 100 questions about retention, those with a higher number get no answer."""


class WorldOracle:
    """Answers as often, as late and as far behind as the world's scenario says."""

    def __init__(self, world: Struck) -> None:
        self._world = world
        self._asked = 0
        self._judged = 0

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        world, process = self._world, current_process()
        world.recording.mark("oracle asked")
        await asyncio.sleep(0 if world.is_healing else world.scenario.oracle_delay / S)
        verdicts = [self._verdict(tip.partition) for tip in partitions]
        assert process is not None, "only hosts and coordinators ask"
        passes(world, "verdict", process)
        if process.is_dead:
            await asyncio.get_running_loop().create_future()
        return verdicts

    async def retentions_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[ToldRetention | NotKnown]:
        """What brokers say of retention: mostly that all is old enough to go."""
        world = self._world
        await asyncio.sleep(0 if world.is_healing else world.scenario.oracle_delay / S)
        return [self._retention() for _ in partitions]

    def _retention(self) -> ToldRetention | NotKnown:
        world = self._world
        self._judged += 1
        drawn = (self._judged * 37 + world.scenario.seed) % 100
        if drawn < world.scenario.unexplained:
            return ToldRetention(-1, -1, 0, 0, 0)
        if drawn > SILENT_ABOVE and not world.is_healing:
            world.recording.mark("deletion not judged")
            return NotKnown("nobody answers")
        return ToldRetention(0, -1, 0, 0, 0)

    def _verdict(self, number: int) -> LeaderVerdict | None:
        world = self._world
        self._asked += 1
        if (self._asked * 61 + world.scenario.seed) % 100 >= world.scenario.oracle_knows:
            world.recording.mark("oracle silent")
            return None
        world.recording.mark("oracle answered")
        behind = 0 if world.is_healing else world.scenario.oracle_behind
        known = world.verdicts[number]
        verdict = known[max(0, len(known) - 1 - self._asked % (behind + 1))]
        if verdict != known[-1]:
            world.recording.mark("oracle outdated")
        return verdict
