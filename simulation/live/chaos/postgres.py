"""Faults of a PostgreSQL server under a service, and of a host within a commit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

import psycopg
from psycopg import sql

from tierledger.simulation.live.postgres_server import PostgresServer

WAIT_S = 1.5
"""How long to wait until a host begins a commit; its statements wait 2 s for a lock."""

LOOK_S = 0.005

TABLE = sql.SQL("LOCK TABLE tierledger_kv IN SHARE ROW EXCLUSIVE MODE")
"""While a session holds this lock, reads go on and writers wait."""

ACTIVE = sql.SQL(
    "SELECT client_port FROM pg_stat_activity "
    "WHERE state = 'active' AND wait_event_type = 'Lock' AND client_port IS NOT NULL"
)


def freeze_in_commit(url: str, victim: int, others: Collection[int] = ()) -> bool:
    """Freeze the process `victim`, and `others` before it, while it runs a statement.

    The table is locked until the server shows that a connection of the victim waits for the
    lock. Then the lock goes, and the statement succeeds while the victim is frozen. Returns
    False, with nothing frozen, if no statement came in time.
    """
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watcher:
        holder.execute(TABLE)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            waiting = {int(row[0]) for row in watcher.execute(ACTIVE)}
            if waiting & ports_of(victim):
                for pid in (*others, victim):
                    os.kill(pid, signal.SIGSTOP)
                holder.rollback()
                return True
            time.sleep(LOOK_S)
        holder.rollback()
    return False


def ports_of(pid: int) -> set[int]:
    """The local ports of a process's TCP connections."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # Closed since.
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def set_read_only(server: PostgresServer, *, on: bool) -> None:
    """Let every new transaction refuse to write, as a server without space does."""
    value = sql.SQL("on" if on else "off")
    with psycopg.connect(
        server.url(), autocommit=True, options="-c default_transaction_read_only=off"
    ) as connection:
        connection.execute(
            sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(value)
        )
        connection.execute("SELECT pg_reload_conf()")
