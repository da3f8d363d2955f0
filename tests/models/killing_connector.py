"""A SQLite store whose process is killed at a chosen step of an import, and the import itself.

Run as a program: URL, source, the step, and whether it dies before or after it is stored.
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

BEFORE, AFTER = "before", "after"


class KillingBackend(SqliteBackend):
    """Kills its own process at one of its atomic steps."""

    step, when = 0, ""
    steps = 0

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        KillingBackend.steps += 1
        dies = KillingBackend.steps == self.step
        if dies and self.when == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        await super().execute_atomically(operations)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingConnector(SqliteConnector):
    """Leads to such a store."""

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        assert self.path is not None, "configured"
        return await KillingBackend.open(self.path, read_only=read_only)


def main(url: str, source: str, step: str, when: str) -> None:
    """Import `source` and die on the way."""
    from tests.models.imported_logs import import_into_store  # noqa: PLC0415
    from tierledger.pipeline.session import spark_session  # noqa: PLC0415

    KillingBackend.step, KillingBackend.when = int(step), when
    config = {URL_SETTING: url, CONNECTOR_SETTING: f"{__name__}:{KillingConnector.__name__}"}
    import_into_store(spark_session("killed", "local[2]"), Path(source), config)


if __name__ == "__main__":
    # Under its own name: tasks import it, and this class's counter must be the same.
    from tests.models.killing_connector import main as run

    run(*sys.argv[1:])
