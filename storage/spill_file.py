"""A spill store in a temporary file, which ends with the process, also if that is killed.

The file is a private database of SQLite's, without a name in the file system, in the folder
that `SQLITE_TMPDIR` or `TMPDIR` names, else in the system's for temporary files.
"""

from __future__ import annotations

import sqlite3
from collections import deque

from typing_extensions import override

from tierledger.events.tables.spilled_map import SpillStore
from tierledger.storage.process_log import ProcessLog

CACHE_KIB = 2048
"""Memory that SQLite takes for the file's pages."""

_log = ProcessLog("tierledger.spill")


class SpillFile(SpillStore):
    """Packed pages in a temporary file. Of one thread, but for `drop`.

    If the file cannot take a page, the page stays in memory, and a warning says why.
    """

    def __init__(self) -> None:
        self._database: sqlite3.Connection | None = None
        self._dropped: deque[int] = deque()
        self._is_full = False

    @override
    def put(self, packed: bytes) -> int | None:
        try:
            database = self._database = self._database or _opened()
            while self._dropped:
                database.execute("DELETE FROM page WHERE number = ?", [self._dropped.popleft()])
            number = database.execute("INSERT INTO page (packed) VALUES (?)", [packed])
        except sqlite3.Error as error:
            if not self._is_full:
                _log.warning("what is seldom read stays in memory", error=repr(error))
            self._is_full = True
            return None
        self._is_full = False
        return number.lastrowid

    @override
    def get(self, number: int) -> bytes:
        assert self._database is not None, "something was put there"
        found = self._database.execute("SELECT packed FROM page WHERE number = ?", [number])
        packed: bytes = found.fetchone()[0]
        return packed

    @override
    def drop(self, number: int) -> None:
        self._dropped.append(number)


def _opened() -> sqlite3.Connection:
    database = sqlite3.connect("", isolation_level=None)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    # Without a journal a page for which there is no room would damage the others.
    database.execute("PRAGMA journal_mode = MEMORY")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE page (number INTEGER PRIMARY KEY, packed BLOB NOT NULL)")
    return database
