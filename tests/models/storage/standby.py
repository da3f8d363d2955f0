"""A standby of a PostgreSQL server, which may take over."""

import os
import subprocess

from psycopg import sql
from typing_extensions import override

from tierledger.simulation.live.postgres_server import PostgresServer, owner, program


class StandbyServer(PostgresServer):
    """A copy of `primary` that follows it until it is promoted; its name is `standby`."""

    name = "standby"

    def __init__(self, primary: PostgresServer) -> None:
        # Once it is the primary it waits for nobody.
        super().__init__(synchronous_standby_names="", cluster_name="standby")
        self._primary = primary

    @override
    def _prepare(self) -> None:
        os.chown(self.folder, owner().uid, owner().gid)
        subprocess.run(
            [
                program("pg_basebackup"),
                f"--dbname={self._primary.url()}",
                f"--pgdata={self._data}",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ],
            cwd=self.folder,
            check=True,
            **self._account(),
        )

    def promote(self) -> None:
        """Let it take over; returns once it is the primary."""
        self.execute(sql.SQL("SELECT pg_promote()"))
