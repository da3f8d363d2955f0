"""A process with replicas that the feed's benchmark queries; see `feed_wire`.

It reads one command per line and answers each with one line, both JSON.
"""

import asyncio
import json
import sys
import time
from typing import Any

from typing_extensions import override

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.feed_stream import FeedStream
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.actors.door.wire.feed import frame_of
from tierledger.actors.feed.frames import Slice, Subscription
from tierledger.actors.ray.collector import keep_pauses_short
from tierledger.benchmarks.workload import CLUSTER
from tierledger.events.identifiers import TopicIdPartition, Uuid


class Counter:
    """Decodes a snapshot without keeping it, to measure the wire and the decoding."""

    def __init__(self) -> None:
        self.rows = 0

    def given(self, item: pb.Fed) -> bool:
        frame = frame_of(item)
        if not isinstance(frame, Slice):
            return True
        self.rows += len(frame.contents.rows)
        return not frame.is_last


class TimedReplica(FedReplica):
    """A replica that notes the time of each position it reaches."""

    def __init__(self, home: Replicas, tip: TopicIdPartition) -> None:
        super().__init__(home, tip, LEADER, None)
        self.moves: list[tuple[int, float]] = []

    @override
    def given(self, item: pb.Fed) -> bool:
        goes_on = super().given(item)
        self.moves.append((self.position, time.perf_counter()))
        return goes_on


class ReaderCommands:
    """The commands of the process, by name."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._home = Replicas(url, CLUSTER)
        self._followed: list[TimedReplica] = []

    async def counted(self, tip: TopicIdPartition) -> int:
        """The number of rows of a snapshot, which is not kept."""
        counter = Counter()
        door = self._url.partition("://")[2].split(",")[0]
        stream = await FeedStream.opened(door, greeting_of(CLUSTER))
        await stream.feed(Subscription(PartitionKey.of(tip), LEADER), counter)
        await stream.close()
        return counter.rows

    async def kept(self, tip: TopicIdPartition) -> int:
        """Load the snapshot into a replica; returns how many subscriptions that took."""
        replica = self._home.of(tip, LEADER)
        await replica.reached(0)
        await replica.close()
        return replica.counts.subscriptions

    async def follow(self, *tips: TopicIdPartition) -> int:
        """Load replicas that are fed from now on; returns how many."""
        self._followed = [TimedReplica(self._home, tip) for tip in tips]
        await asyncio.gather(*(one.reached(0) for one in self._followed))
        return len(tips)

    async def moves(self, *positions: int) -> list[list[tuple[int, float]]]:
        """The positions and times of each of those replicas, once they are at `positions`."""
        for one, position in zip(self._followed, positions, strict=True):
            await one.reached(position)
        return [one.moves for one in self._followed]

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._followed))
        await self._home.close()


async def main(url: str) -> None:
    """Carry out commands until the input ends."""
    keep_pauses_short()
    reader = ReaderCommands(url)
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, *given = json.loads(line)
        begun = time.perf_counter()
        answer = await getattr(reader, name)(*map(_known, given))
        print(json.dumps([answer, time.perf_counter() - begun]), flush=True)
    await reader.close()


def _known(given: Any) -> Any:  # noqa: ANN401 - As JSON has it.
    if not isinstance(given, list):
        return given
    topic_id, partition, topic = given
    return TopicIdPartition(Uuid(bytes.fromhex(topic_id)), partition, topic)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
