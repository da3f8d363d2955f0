"""A SQLite store that kills its process at the first step of an import, and the import itself.

Run as a program with the arguments URL and source.
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
    """Kills its process once an atomic step is stored, before the caller gets an answer."""

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await super().execute_atomically(operations)
        os.kill(os.getpid(), signal.SIGKILL)


class KillingConnector(SqliteConnector):
    """Connects to a `KillingBackend`."""

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        assert self.path is not None, "configured"
        return await KillingBackend.open(self.path, read_only=read_only)


def main(url: str, source: str) -> None:
    """Import `source` and die on the way."""
    from tests.models.pipeline.imported_logs import import_into_store  # noqa: PLC0415
    from tierledger.pipeline.session import spark_session  # noqa: PLC0415

    config = {URL_SETTING: url, CONNECTOR_SETTING: f"{__name__}:{KillingConnector.__name__}"}
    import_into_store(spark_session("killed", "local[2]"), Path(source), config)


if __name__ == "__main__":
    # Spark's tasks import the connector by this module's name, which is not `__main__`.
    from tests.models.pipeline.killing_connector import main as run

    run(*sys.argv[1:])
