"""A real pgbouncer in front of a server, in one of its modes."""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import psycopg
from typing_extensions import override

from tierledger.simulation.live.postgres_server import USER, PostgresServer, owner
from tierledger.simulation.live.server import LiveServer

SYSTEM_PROGRAMS = "/usr/sbin"
"""Where Debian and Ubuntu install it, which is not on everybody's PATH."""


class PgBouncer(LiveServer):
    """A pooler with its defaults, but for `pool_mode` and `settings` of pgbouncer.ini."""

    name = "pgbouncer"

    def __init__(
        self, server: PostgresServer, mode: str, users: Collection[str] = (), **settings: str
    ) -> None:
        super().__init__()
        self._server = server
        self._users = [USER, *users]
        self._settings = {"pool_mode": mode, **settings}

    def url(self, database: str = "postgres") -> str:
        """The URL of `database` through the pooler."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def through(self, url: str) -> str:
        """The same place as `url` of the server, through the pooler."""
        return url.replace(f":{self._server.port}/", f":{self.port}/")

    @override
    def _prepare(self) -> None:
        os.chown(self.folder, owner().uid, owner().gid)
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(self.folder / "users"),
            "admin_users": USER,
            **self._settings,
        }
        lines = [f"* = host=127.0.0.1 port={self._server.port}", "[pgbouncer]"]
        lines += [f"{key} = {value}" for key, value in settings.items()]
        (self.folder / "pgbouncer.ini").write_text("\n".join(["[databases]", *lines, ""]))
        (self.folder / "users").write_text("".join(f'"{user}" ""\n' for user in self._users))

    @override
    def _command(self) -> list[str]:
        return [program(), str(self.folder / "pgbouncer.ini")]

    @override
    def _account(self) -> dict[str, Any]:
        return {"user": owner().user, "group": owner().group}

    @override
    def _is_up(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url("pgbouncer"), connect_timeout=2).close()
            return True
        return False


def program() -> str:
    """The path of pgbouncer.

    Raises:
        RuntimeError: It is not installed; the message tells how to install it.
    """
    path = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:{SYSTEM_PROGRAMS}")
    if path is None:
        raise RuntimeError(
            f"pgbouncer is neither on the PATH nor in {SYSTEM_PROGRAMS}: run "
            "scripts/setup.sh --with-postgresql, which installs it or says how to"
        )
    return path
