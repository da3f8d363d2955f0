"""A broker whose every call is in a history."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import islice

from tests.chaos.storms import Target
from tests.models.actors.local_world import CountedIds, moved, segment
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.discovery.connecting import connect
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.history.recorded_client import KnownIds, RecordedClient

PARTITIONS = 12
"""Enough for each host to lead some of them."""

SIDE_BY_SIDE = 50


class Writer:
    """A broker that leads some partitions, each call of it in a history; another follows."""

    def __init__(self, target: Target) -> None:
        self.recorder = Recorder(time.monotonic_ns)
        self.tips = [
            TopicIdPartition(Uuid(b"a topic of dead."), number, "zombies")
            for number in range(PARTITIONS)
        ]
        self._ids = KnownIds(CountedIds())
        self.manager = AsyncRemoteLogMetadataManager(connect, self._ids)
        self._follower = AsyncRemoteLogMetadataManager(connect, self._ids)
        """Without followers what the emptiest host led comes back to it when that is killed."""
        self._settings = target.service.settings

    async def start(self) -> None:
        tips, none = self.tips, list[TopicIdPartition]()
        brokers = {1: (self.manager, tips, none), 2: (self._follower, none, tips)}
        for number, (manager, led, followed) in brokers.items():
            known = {"cluster.id": self._settings.cluster_id, "broker.id": number}
            await manager.configure({**self._settings.storage, **known})
            await manager.on_partition_leadership_changes(led, followed)
            await manager.when_ready(tips)

    async def close(self) -> None:
        await self.manager.close()
        await self._follower.close()

    def client(self, name: object) -> RecordedClient:
        return RecordedClient(self.manager, self._ids, self.recorder, str(name))

    async def copy(self, tip: TopicIdPartition, numbers: Iterable[int]) -> None:
        """Copies side by side, all of which succeed."""

        async def one(number: int) -> RemoteStorageError | None:
            client, metadata = self.client(f"copy {number}"), segment(number, tip)
            add = self.manager.add_remote_log_segment_metadata(metadata)
            error = await client.write(tip, add, "add", metadata)
            if error is None:
                update = moved(metadata)
                finish = self.manager.update_remote_log_segment_metadata(update)
                error = await client.write(tip, finish, "finish", update)
            return error

        errors = await asyncio.gather(*map(one, numbers))
        assert [error for error in errors if error is not None] == []

    async def copy_until(
        self, end: asyncio.Event, tip: TopicIdPartition, numbers: Iterator[int]
    ) -> None:
        """Copies, a few side by side, again and again; the last begin after `end`."""
        is_last = False
        while not is_last:
            is_last = end.is_set()
            await self.copy(tip, islice(numbers, SIDE_BY_SIDE))
