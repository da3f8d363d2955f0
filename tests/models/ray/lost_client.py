"""A program that writes while the Ray cluster of its service is killed, and until it is back.

`python -m tests.models.ray.lost_client URL CLUSTER` prints `ready` and waits for a line. Then
it writes until a write succeeds, and prints as JSON the names of the errors that it got, and
the longest time for which its event loop was blocked.
"""

import asyncio
import contextlib
import json
import sys

from tests.models.actors.local_world import lead, partition, segment
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.wall_clock import RandomIds

DEADLINE_S = 2.0
TICK_S = 0.01


class Loop:
    """Measures for how long the event loop is blocked."""

    longest_s = 0.0

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await asyncio.sleep(TICK_S)
            self.longest_s = max(self.longest_s, loop.time() - begun)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(url: str, cluster: str) -> None:
    manager = AsyncRemoteLogMetadataManager(connect, RandomIds(), deadline_s=DEADLINE_S)
    config = {"metadata.storage.url": url, "cluster.id": cluster, "broker.id": 1}
    tip, told, loop = partition(), set(), Loop()
    while True:
        with contextlib.suppress(Exception):
            await manager.configure(config)
            await lead(manager, tip)
            break
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    watching = asyncio.ensure_future(loop.watch())
    number = 0
    while True:
        try:
            await manager.add_remote_log_segment_metadata(segment(number))
            break
        except BaseException as error:  # noqa: BLE001 - It reports any error.
            told.add(type(error).__name__)
            number += 1
            await asyncio.sleep(TICK_S)
    watching.cancel()
    say(json.dumps({"told": sorted(told), "longest_s": loop.longest_s}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
