"""A service whose hosts have doors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.actors.door.clients import served
from tests.models.actors.local_world import LocalWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    async with served(tmp_path) as world:
        yield world
