"""A real PostgreSQL server for tests and drills: started, frozen, killed, started again.

It writes durably as a user's would (`fsync` is on), listens on loopback only, trusts all who
connect, and leaves neither a process nor a file behind.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from typing_extensions import override

from tierledger.simulation.live.processes import (
    children,
    end_all,
    signal_all,
    wait_until_gone,
)
from tierledger.simulation.live.server import STOP_TIMEOUT_S, LiveServer

USER = "tierledger"
"""The role in every URL; it may do everything."""

UNPRIVILEGED = ("postgres", "nobody")
"""Accounts that run the server if root starts it: PostgreSQL refuses to run as root."""

INSTALLED_UNDER = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu keep each version's programs, which are not on the PATH."""


class PostgresServer(LiveServer):
    """A server on a data folder of its own; a context manager that starts and removes it."""

    name = "postgres"

    def __init__(self, **settings: str) -> None:
        """Prepare a server; `settings` are those of postgresql.conf, beyond the usual ones."""
        super().__init__()
        self._settings = settings
        self._names = 0

    def url(self, database: str = "postgres") -> str:
        """The URL of `database`, as `--store` and psycopg take it."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = self._new_name()
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def place(self) -> str:
        """The URL of a new, empty place for a store: a schema that its connections work in.

        Takes 2 ms and next to no room; a database takes 50 ms or more, and 8 MB.
        """
        name = self._new_name()
        self.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        return f"{self.url()}?options=-csearch_path%3D{name}"

    def _new_name(self) -> str:
        self._names += 1
        return f"store_{self._names}"

    def execute(
        self, query: sql.SQL | sql.Composed, database: str = "postgres"
    ) -> list[tuple[object, ...]]:
        """Run one statement as `psql` would; returns its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description is not None else []

    @override
    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "on",
            "synchronous_commit": "on",
            **self._settings,
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [program("postgres"), "-D", str(self._data), *options]

    @override
    def _account(self) -> dict[str, Any]:
        who = owner()
        return {"user": who.user, "group": who.group}

    @override
    def _is_up(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=2).close()
            return True
        return False

    @override
    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server in good order: connections are cut, all data is written."""
        super().stop(how)  # PostgreSQL's fast shutdown.

    @override
    def kill(self) -> None:
        """Kill all of the server's processes at once, like a power cut; `start` restarts it."""
        process, self._process = self._process, None
        if process is None:
            return
        # Stopped first, so that no child starts or ends meanwhile.
        os.kill(process.pid, signal.SIGSTOP)
        family = [process.pid, *children(process.pid)]
        end_all(family)
        process.wait(STOP_TIMEOUT_S)
        wait_until_gone(family, STOP_TIMEOUT_S)

    @override
    def freeze(self) -> None:
        """Stop all of the server's processes: connections stay open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)
        signal_all(children(self.pid), signal.SIGSTOP)

    @override
    def thaw(self) -> None:
        """Let the processes continue."""
        signal_all([*children(self.pid), self.pid], signal.SIGCONT)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @override
    def _prepare(self) -> None:
        who = owner()
        os.chown(self.folder, who.uid, who.gid)
        made = subprocess.run(
            [
                program("initdb"),
                f"--username={USER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",  # An empty cluster can be made again.
                f"--pgdata={self._data}",
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            **self._account(),
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")


class ServerAccount:
    """The account that a server runs under."""

    def __init__(self, uid: int, gid: int, *, is_other: bool) -> None:
        self.uid = uid
        self.gid = gid
        # The account that `subprocess` has to switch to; none if it is our own.
        self.user = uid if is_other else None
        self.group = gid if is_other else None


def owner() -> ServerAccount:
    """This process's account, or an unprivileged one if this process runs as root."""
    if os.geteuid() != 0:
        return ServerAccount(os.geteuid(), os.getegid(), is_other=False)
    for name in UNPRIVILEGED:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return ServerAccount(entry.pw_uid, entry.pw_gid, is_other=True)
    raise RuntimeError(f"PostgreSQL does not run as root, and there is none of {UNPRIVILEGED}")


def program(name: str) -> str:
    """The path of the server's program `name`, of the newest version installed.

    Raises:
        RuntimeError: PostgreSQL is not installed; the message tells how to install it.
    """
    found = shutil.which(name)
    if found is not None:
        return found
    versions = [path for path in INSTALLED_UNDER.glob("*/bin") if (path / name).exists()]
    if not versions:
        raise RuntimeError(
            f"PostgreSQL's {name!r} is neither on the PATH nor under {INSTALLED_UNDER}: "
            "run scripts/setup.sh --with-postgresql, which installs it or says how to"
        )
    return str(max(versions, key=lambda path: float(path.parent.name)) / name)
