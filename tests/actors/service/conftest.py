"""Whole services for tests: on each store, and on one that can fail."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.models.actors.local_world import LocalWorld, sqlite_in
from tests.models.storage import faulty_store
from tests.models.storage.faulty_store import Faults


@pytest.fixture(params=["memory", "sqlite", "postgresql", "door"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalWorld]:
    """A service on each of the stores, and one whose brokers come through its doors."""
    if request.param == "memory":
        storage = faulty_store.settings(str(tmp_path))
    elif request.param == "postgresql":
        storage = {"metadata.storage.url": request.getfixturevalue("postgres_url")}
    else:
        storage = sqlite_in(tmp_path)
    async with LocalWorld(storage, door=request.param == "door") as world:
        yield world


@pytest.fixture(params=["inside", "door"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalWorld]:
    """A service on a store that can fail; see `faults`. Its brokers are inside, or are not."""
    storage = faulty_store.settings(str(tmp_path))
    async with LocalWorld(storage, door=request.param == "door") as world:
        yield world


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    """The faults of the store of `shared`."""
    return faulty_store.faults(str(tmp_path))
