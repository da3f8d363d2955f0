"""Tells a store's file from an older copy of it, and from a copy that lacks its log.

SQLite appends commits to `FILE-wal`, and copies them into FILE from time to time (SQLite's
checkpoint). The mark is one row: how often that was done, and whether FILE needs its log. It
says so while it is copied into FILE; the next commit, which stands in the log alone, takes that
back. So a reader finds it in FILE without the log, and not in a copy that SQLite made.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

SCHEMA = "CREATE TABLE IF NOT EXISTS mark (copied INTEGER, needs_log INTEGER) STRICT"


class StoreMark(NamedTuple):
    """The mark of a store, or of its file alone."""

    copied: int = 0
    """How often the log was copied into the file."""
    needs_log: bool = False


def mark_of(connection: sqlite3.Connection) -> StoreMark:
    """The store's mark as `connection` sees it; the first one if the store has none yet."""
    (known,) = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'mark'"
    ).fetchone()
    rows = connection.execute("SELECT copied, needs_log FROM mark").fetchall() if known else []
    return StoreMark(rows[0][0], bool(rows[0][1])) if rows else StoreMark()


def put_mark(connection: sqlite3.Connection, mark: StoreMark) -> None:
    """Make `mark` the store's, in a commit of its own."""
    connection.execute("UPDATE mark SET copied = ?, needs_log = ?", mark)


def make_mark(connection: sqlite3.Connection) -> None:
    """Give the store its first mark if it has none, unless it is damaged: a read tells that."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO mark SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM mark)")
    except sqlite3.Error as error:
        connection.execute("ROLLBACK")
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
    else:
        connection.execute("COMMIT")
