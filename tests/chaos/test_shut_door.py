"""A host whose door is shut for brokers, while Ray pings it, loses what it led and lives on."""

from pathlib import Path

import pytest

from tests.chaos.storms import Target, struck
from tierledger.actors.host_settings import ServiceSettings
from tierledger.simulation.live.chaos.faults import CABLED
from tierledger.simulation.live.ray_faults import LiveService

pytestmark = [pytest.mark.chaos, pytest.mark.ray, pytest.mark.long]


async def test_a_service_outlives_a_door_that_is_shut(tmp_path: Path) -> None:
    storage = {"metadata.storage.url": f"sqlite:{tmp_path / 'store.sqlite'}"}
    settings = ServiceSettings("chaos", storage, hosts=3)
    service = LiveService(settings, tmp_path, has_cables=True)
    try:
        await service.start()
        before = await service.hosts()
        _, chaos = await struck(Target(service, None, tmp_path), CABLED, seed=1)
        after = await service.hosts()
    finally:
        await service.stop()

    assert [one.fault for one in chaos.strikes] == [*CABLED]
    assert [one.process for one in after] == [one.process for one in before]
