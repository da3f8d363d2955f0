"""Stores that commands read: a small one, and the one beside a tier of a real broker."""

from pathlib import Path

import pytest

from tests.models.cli.command_line import orders, others, write
from tests.models.storage.stored_partitions import import_trace
from tests.models.tiering import tier_trace
from tierledger.storage.backends.sqlite.backend import SqliteBackend


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Partitions with segments, and some without."""
    write(tmp_path / "store.sqlite", orders, others)
    return tmp_path / "store.sqlite"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that starts Spark fails."""
    monkeypatch.setenv("JAVA_HOME", "no-such-java")


@pytest.fixture(scope="session")
def tier_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.sqlite"

    async def imported(backend: SqliteBackend) -> None:
        await import_trace(backend, tier_trace.TRACE)

    write(path, imported)
    return path
