"""The host of the coordinators under test."""

from collections.abc import AsyncIterator

import pytest

from tests.models.actors.deaf_host import DeafHost
from tierledger.storage.backends.memory import MemoryBackend


@pytest.fixture
async def host() -> AsyncIterator[DeafHost]:
    host = DeafHost(MemoryBackend(), "host-0/1")
    yield host
    await host.close()
