"""The leader oracle of a world: what Kafka's controller answers, if it does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.struck import Struck, passes
from tierledger.simulation.service.virtual_loop import current_process


class WorldOracle:
    """Answers as often, as late and as far behind as the world's scenario says."""

    def __init__(self, world: Struck) -> None:
        self._world = world
        self._asked = 0

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
