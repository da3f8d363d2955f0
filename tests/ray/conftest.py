"""One service on a Ray cluster of this process, for all tests of a module."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from tests.models.ray.brokers import Brokers, settings_for
from tierledger.actors.ray.service import RayService

PACKED = 64
"""Leaders and followers of a host, where a test does not say otherwise."""


@pytest.fixture(scope="module")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RayService]:
    """A service on a store of its own.

    A module that is to run with other numbers of partitions per host parametrises it.
    """
    settings = settings_for(tmp_path_factory.mktemp("service") / "store.sqlite")
    per_host = getattr(request, "param", PACKED)
    service = RayService(replace(settings, hosts=2, partitions_per_host=per_host))
    asyncio.run(service.start())
    yield service
    asyncio.run(service.close())


@pytest.fixture
async def brokers(service: RayService) -> AsyncIterator[Brokers]:
    brokers = Brokers(service.settings)
    yield brokers
    for manager in brokers.managers:
        await manager.close()
