"""A SQLite store whose process is killed at the first step of an import, and the import itself.

Run as a program: URL and source.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from tierledger.storage.backend import MetadataStorageBackend, Operation
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.connector import CONNECTOR_SETTING, URL_SETTING, SqliteConnector


class KillingBackend(SqliteBackend):
    """Kills its own process once an atomic step is stored, before anybody hears of that."""

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await super().execute_atomically(operations)
        os.kill(os.getpid(), signal.SIGKILL)


class KillingConnector(SqliteConnector):
    """Leads to such a store."""

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        assert self.path is not None, "configured"
        return await KillingBackend.open(self.path, read_only=read_only)


def main(url: str, source: str) -> None:
    """Import `source` and die on the way."""
    from tests.models.imported_logs import import_into_store  # noqa: PLC0415
    from tierledger.pipeline.session import spark_session  # noqa: PLC0415

    config = {URL_SETTING: url, CONNECTOR_SETTING: f"{__name__}:{KillingConnector.__name__}"}
    import_into_store(spark_session("killed", "local[2]"), Path(source), config)


if __name__ == "__main__":
    # Under its own name, by which tasks import it.
    from tests.models.killing_connector import main as run

    run(*sys.argv[1:])
