"""How long a partition cannot be written to while a service is restarted under load."""

import asyncio
import time

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.restarting import restarted
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.failover import HOSTS, SERVED_S, fill
from tierledger.benchmarks.services import followed, led, new_partitions, on_ray, unclaimed
from tierledger.benchmarks.workload import Workload
from tierledger.events.errors import RemoteStorageError

PAUSE_S = 0.05
"""Between two writes of a partition."""

TIMEOUT_S = 120.0


async def restart(bench: Bench) -> None:
    """The longest write while all processes are replaced, and how many writes failed."""
    tips, number = new_partitions("restarted"), bench["failover_segments"]
    await fill(bench, tips)
    async with on_ray(bench.place.url, HOSTS) as service:
        leader, follower = await service.manager(1), await service.manager(2)
        await led(leader, tips)
        await followed(follower, tips)
        writers = [TimedWriter(leader, one, number) for one in unclaimed(tips, number)]
        for _ in bench.turns("restart", "failovers"):
            await asyncio.sleep(SERVED_S)
            writing = [asyncio.create_task(writer.write()) for writer in writers]
            begun = time.perf_counter()
            async for one in restarted(service.connection.coordinator, TIMEOUT_S):
                bench.say(f"{one.process} is replaced: {_longest(writers):.2f} s so far")
            took_s = time.perf_counter() - begun
            # A write that is under way is part of the pause.
            for writer in writers:
                writer.ends = True
            await asyncio.gather(*writing)
            bench.note(
                longest=_longest(writers),
                failed=sum(one.failed for one in writers),
                writes=sum(one.writes for one in writers),
                took_s=took_s,
            )
            for writer in writers:
                writer.longest_s, writer.writes, writer.failed = 0.0, 0, 0
                writer.ends = False
            await service.all_serve()


class TimedWriter:
    """Writes segments of a partition, one after the other, and notes how long each took."""

    def __init__(
        self, manager: AsyncRemoteLogMetadataManager, workload: Workload, number: int
    ) -> None:
        """Segments are numbered from `number`."""
        self.longest_s = 0.0
        self.writes = 0
        self.failed = 0
        self.ends = False
        """Whether no further write begins."""
        self._manager = manager
        self._workload = workload
        self._number = number

    async def write(self) -> None:
        """Until it `ends`."""
        while not self.ends:
            metadata = self._workload.add(self._number).metadata
            self._number += 1
            begun = time.perf_counter()
            try:
                await self._manager.add_remote_log_segment_metadata(metadata)
            except RemoteStorageError:
                self.failed += 1
            self.writes += 1
            self.longest_s = max(self.longest_s, time.perf_counter() - begun)
            await asyncio.sleep(PAUSE_S)


def _longest(writers: list[TimedWriter]) -> float:
    return max(writer.longest_s for writer in writers)
