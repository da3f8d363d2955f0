"""The store beside the tier that a real broker wrote."""

from pathlib import Path

import pytest

from tests.models import tier_trace
from tests.models.command_line import write
from tests.models.stored_partitions import import_trace
from tierledger.storage.backends.sqlite.backend import SqliteBackend


@pytest.fixture(scope="session")
def tier_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.sqlite"

    async def imported(backend: SqliteBackend) -> None:
        await import_trace(backend, tier_trace.TRACE)

    write(path, imported)
    return path
