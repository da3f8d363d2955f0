"""A replay whose partitions somebody else takes away, or that meet a new broker at once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from typing_extensions import override

from tests.models.actors.local_world import (
    CLUSTER,
    DELETED,
    DELETING,
    CountedIds,
    TickingClock,
    lead,
    moved,
    partition,
    segment,
)
from tests.models.storage.written_traces import write_trace
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalService
from tierledger.conformance.loaded_trace import load_trace
from tierledger.conformance.replay import ReplayOptions, replay
from tierledger.events.kafka.writer import KafkaValue
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.storage.backend import MetadataStorageBackend

TIP = partition()


class RivalledService:
    """A service of which another broker wants the partition, too, once."""

    description = "for a test"

    def __init__(self) -> None:
        self.settings = ServiceSettings(CLUSTER, {"metadata.storage.url": "memory:"})
        self.local = LocalService(self.settings, TickingClock())
        self.disputes = 0

    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return RivalledManager(self)

    async def take_away(self) -> None:
        self.disputes += 1
        rival = AsyncRemoteLogMetadataManager(self.local.connect, CountedIds())
        await rival.configure({**self.settings.storage, "cluster.id": CLUSTER, "broker.id": 99})
        await lead(rival, TIP)
        await rival.close()

    async def kill_host(self, which: int) -> None:
        await self.local.kill_host(f"host-{which % self.settings.hosts}")

    async def readable_backend(self) -> MetadataStorageBackend:
        return await self.local.connector.backend(read_only=True)

    async def close(self) -> None:
        await self.local.close()


class SlowlyMetService(RivalledService):
    """A service with which a broker's manager connects in several turns of the loop."""

    @override
    def manager(self, deadline_s: float) -> AsyncRemoteLogMetadataManager:
        return SlowManager(self.local.connect, CountedIds())


class SlowManager(AsyncRemoteLogMetadataManager):
    @override
    async def configure(self, config: Mapping[str, object]) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await super().configure(config)


class RivalledManager(AsyncRemoteLogMetadataManager):
    """Loses its partition just before it reports that the first segment is deleted."""

    def __init__(self, service: RivalledService) -> None:
        super().__init__(service.local.connect, CountedIds())
        self._rivalled = service

    @override
    async def update_remote_log_segment_metadata(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> int:
        if update.state == DELETED and not self._rivalled.disputes:
            await self._rivalled.take_away()
        return await super().update_remote_log_segment_metadata(update)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "imported"])
async def test_what_was_sent_before_the_partition_was_lost_is_not_sent_again(
    strict: bool, tmp_path: Path
) -> None:
    one, two = segment(0), segment(1)
    moves: list[KafkaValue] = [
        one,
        moved(one),
        moved(one, DELETING),
        moved(one, DELETED),
        two,
        moved(two),
    ]
    trace = load_trace(write_trace(tmp_path / "trace", moves))
    service = RivalledService()
    await service.local.start()

    result = await replay(service, trace, [], ReplayOptions(strict=strict), lambda _: None)

    await service.close()
    assert service.disputes == (1 if strict else 0)
    assert result.refusals == []


async def test_partitions_that_meet_a_new_broker_at_once_get_its_configured_manager(
    tmp_path: Path,
) -> None:
    moves: list[KafkaValue] = []
    for number in range(4):
        early = segment(0, partition(number))
        late = replace(segment(1, partition(number)), broker_id=2)
        moves += [early, moved(early), late, replace(moved(late), broker_id=2)]
    trace = load_trace(write_trace(tmp_path / "trace", moves))
    service = SlowlyMetService()
    await service.local.start()

    result = await replay(service, trace, [], ReplayOptions(strict=True), lambda _: None)

    await service.close()
    assert result.refusals == []
