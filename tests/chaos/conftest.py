"""A service of real processes for all tests of a module, on each store."""

from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
import pytest_asyncio

from tests.chaos.storms import Target
from tierledger.actors.host_settings import ServiceSettings
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.ray_faults import LiveService

HOSTS = 3
NODES = 3

ELSEWHERE = {
    "kill coordinator",  # Kills of test_live_command.py, which are judged in the same way.
    "kill raylet",  # tests/ray/test_several_nodes.py
    "kill everything",  # tests/ray/test_lost_cluster.py
}
"""Faults that other tests cause, too."""

SLOW = {
    "sqlite": {"freeze coordinator", "freeze raylet", *ELSEWHERE},
    "postgresql": {"kill host", "freeze host", *ELSEWHERE},
}
"""Faults for which one store is enough, since they are the processes' and not the store's."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        known = item.callspec.params if hasattr(item, "callspec") else {}
        is_zombie = item.name.startswith("test_a_zombie") and known.get("target") == "sqlite"
        if is_zombie or known.get("fault") in SLOW.get(known.get("target", ""), ()):
            item.add_marker(pytest.mark.long)


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["sqlite", "postgresql"])
async def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Target]:
    folder = tmp_path_factory.mktemp("chaos")
    with ExitStack() as stack:
        postgres = None
        url = f"sqlite:{folder / 'store.sqlite'}"
        if request.param == "postgresql":
            postgres = stack.enter_context(PostgresServer())
            url = postgres.database()
        settings = ServiceSettings("chaos", {"metadata.storage.url": url}, hosts=HOSTS)
        service = LiveService(settings, folder, nodes=NODES)
        try:
            await service.start()
            yield Target(service, postgres, folder)
        finally:
            await service.stop()
