"""One service on a Ray cluster of this process, for all tests of a module."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.models.ray_brokers import Brokers, settings_for
from tierledger.actors.ray_service import RayService


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayService]:
    """A service on a store of its own."""
    service = RayService(settings_for(tmp_path_factory.mktemp("service") / "store.sqlite"))
    asyncio.run(service.start())
    yield service
    asyncio.run(service.close())


@pytest.fixture
async def brokers(service: RayService) -> AsyncIterator[Brokers]:
    brokers = Brokers(service.settings)
    yield brokers
    for manager in brokers.managers:
        await manager.close()
