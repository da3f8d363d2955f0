"""One connection to PostgreSQL: opening, timeouts, and the meaning of its errors.

Rule 1: no transaction stays open between two messages. Each statement is sent whole and commits
by itself, so a process that freezes holds no lock for longer than its statement.
Rule 2: every wait has a timeout. The server ends a statement that takes too long; if it does
not report that either, the connection is cut from here.
Rule 3: no message has a password. Neither libpq nor the server puts one into theirs.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tierledger.events.errors import (
    DataError,
    InvalidArgument,
    OutcomeUnknown,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.locate import StoreUrl

CONNECT_TIMEOUT_S = 5
"""Seconds until a server that does not answer a new connection counts as away (libpq's
`connect_timeout`; 2 at least)."""

STATEMENT_TIMEOUT_S = 10
"""Seconds after which the server ends a statement: far more than any of the backend takes, and
below the 30 s for which a client waits (`options=-c statement_timeout=...`)."""

LOCK_TIMEOUT_S = 2
"""Seconds for which a statement waits for another's lock on a row: many commits long. Only a
person's transaction takes longer (`options=-c lock_timeout=...`)."""

ANSWER_MARGIN_S = 3.0
"""Seconds after the statement's own timeout until the server counts as frozen: as long as the
transfer of the longest value may take."""

KEEPALIVE_IDLE_S = 10
"""Seconds of silence after which TCP probes the server's machine (`keepalives_idle`)."""

KEEPALIVE_INTERVAL_S = 3
"""Seconds between two such probes (`keepalives_interval`)."""

KEEPALIVE_COUNT = 3
"""Unanswered probes after which the connection is dead (`keepalives_count`)."""

TCP_USER_TIMEOUT_S = 10
"""Seconds for which sent data may stay unacknowledged (`tcp_user_timeout`)."""

OPEN = """
SELECT pg_backend_pid(),
       (SELECT extract(epoch FROM backend_start)::text
          FROM pg_stat_activity WHERE pid = pg_backend_pid()),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'),
       current_setting('server_encoding'),
       current_setting('fsync'),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                       WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('enable_seqscan', 'off', false)
"""
# `enable_seqscan`: every query goes by the key, though the planner has no statistics of a new
# table yet.

UNREADABLE = (
    "expected a store as postgresql://USER@HOST:PORT/DATABASE, with %XX for what is no letter "
    "or digit in a password; the given one cannot be read"
)
# Shows neither the URL nor libpq's message: the part that cannot be parsed may be a password.

WRONG_CREDENTIALS = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "permission denied",
    "certificate",
    "SSL was required",
)
"""Parts of connection errors after which a retry will not help. They are matched as text:
libpq gives no code for errors of a connection that is not open yet."""

REFUSALS = ("22", "28", "3D", "3F", "42")
"""Classes of errors that only an operator can fix: privileges, or another program's tables."""

DAMAGE = {"XX001", "XX002"}
"""Codes by which the server reports damage of its own files."""


class Identity(NamedTuple):
    """The server's process for a connection; with its start, as process ids are reused."""

    pid: int
    started: str


class Answer(NamedTuple):
    """The result of a statement."""

    rows: list[tuple[Any, ...]]
    changed: int
    """Number of rows that it changed."""


@dataclass(frozen=True)
class Address:
    """Place and login of a database."""

    where: str
    """The URL without secrets, for messages."""

    parameters: dict[str, str]
    """Parameters of libpq's, maybe with a password."""

    read_only: bool

    @classmethod
    def of(cls, url: StoreUrl, *, read_only: bool) -> Address:
        """The address in `url`, with `LIMITS` for parameters that it does not set.

        Raises:
            InvalidArgument: libpq cannot parse it.
        """
        try:
            given = {key: str(value) for key, value in conninfo_to_dict(str(url)).items()}
        except psycopg.Error:
            raise InvalidArgument(UNREADABLE) from None
        if not given.get("port", "0").replace(",", "").isdigit():
            raise InvalidArgument(UNREADABLE)
        environment = {
            option.keyword.decode(): option.val.decode()
            for option in pq.Conninfo.get_defaults()
            if option.val is not None and option.envvar is not None
        }
        options = given.pop("options", environment.get("options", ""))
        # The last of two options wins, so the user's come last.
        given["options"] = f"{_options(read_only=read_only)} {options}".rstrip()
        ours = {key: value for key, value in LIMITS.items() if key not in environment}
        return cls(url.public, {**ours, **given, "client_encoding": "UTF8"}, read_only)


LIMITS = {
    "connect_timeout": str(CONNECT_TIMEOUT_S),
    "keepalives_idle": str(KEEPALIVE_IDLE_S),
    "keepalives_interval": str(KEEPALIVE_INTERVAL_S),
    "keepalives_count": str(KEEPALIVE_COUNT),
    "tcp_user_timeout": str(TCP_USER_TIMEOUT_S * 1000),
    "application_name": "tierledger",
}
"""Parameters of a connection where neither the URL nor libpq's variables set them."""


def _options(*, read_only: bool) -> str:
    settings = {
        "statement_timeout": f"{STATEMENT_TIMEOUT_S}s",
        "lock_timeout": f"{LOCK_TIMEOUT_S}s",
        "default_transaction_read_only": "on" if read_only else None,
    }
    return " ".join(f"-c {key}={value}" for key, value in settings.items() if value)


class Session:
    """A connection that one call uses at a time."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        """Not called directly: see `open`."""
        self._connection = connection
        self._news = select.poll()
        self._news.register(connection.fileno(), select.POLLIN)
        self._timed_out = False
        self._answer_timeout_s: float | None = STATEMENT_TIMEOUT_S + ANSWER_MARGIN_S
        self.identity = Identity(0, "")

    @classmethod
    async def open(cls, address: Address) -> Session:
        """A new connection, after a check of the server's encoding and durability.

        Raises:
            StorageUnavailable: The server is away, full, or does not answer.
            StoreRefused: The server refuses the login, or has another encoding or `fsync` off.
        """
        try:
            session = cls(
                await psycopg.AsyncConnection.connect(
                    make_conninfo(**address.parameters), autocommit=True
                )
            )
        except psycopg.Error as error:
            raise _connect_error(address.where, error) from None
        try:
            await session._check(address)
        except BaseException:
            await session.close()
            raise
        return session

    async def _check(self, address: Address) -> None:
        try:
            answer = await self.run(OPEN, ())
        except psycopg.Error as error:
            raise self.meaning(address.where, error, changes=False) from error
        pid, started, timeout_ms, encoding, fsync, *_ = answer.rows[0]
        self.identity = Identity(pid, started)
        # With the server's timeout switched off by the user there is none here either.
        self._answer_timeout_s = timeout_ms / 1000 + ANSWER_MARGIN_S if timeout_ms else None
        if encoding != "UTF8":
            raise StoreRefused(
                f"{address.where} keeps text as {encoding}: expected a database in UTF8"
            )
        if fsync != "on" and not address.read_only:
            raise StoreRefused(
                f"{address.where} has fsync off, so it confirms what it may lose: "
                "expected a server with fsync on"
            )

    async def run(self, statement: LiteralString, parameters: Sequence[object]) -> Answer:
        """Carry out one statement; raises what psycopg raises."""
        loop = asyncio.get_running_loop()
        timer = None
        if self._answer_timeout_s is not None:
            timer = loop.call_later(self._answer_timeout_s, self._hang_up)
        try:
            # Without parameters there may be several statements, in one transaction.
            cursor = await self._connection.execute(
                statement, parameters or None, binary=bool(parameters)
            )
            rows = [] if cursor.description is None else await cursor.fetchall()
        finally:
            if timer is not None:
                timer.cancel()
        return Answer(rows, cursor.rowcount)

    def _hang_up(self) -> None:
        """Cut the connection: callers that wait for an answer get an error at once."""
        self._timed_out = True
        # Closing by psycopg would first send the server a cancellation, and wait for it.
        with suppress(OSError), socket.socket(fileno=_copy(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    @property
    def is_open(self) -> bool:
        """Whether the connection was open when it was last used."""
        return not self._connection.closed

    def is_still_open(self) -> bool:
        """Whether the connection is open now, as far as is known without a request."""
        # Between two statements the server sends only notices, or that it closes.
        for _ in range(3):
            if not self._news.poll(0):
                return self.is_open
            try:
                self._connection.pgconn.consume_input()
            except psycopg.Error:
                return False
        return False

    async def close(self) -> None:
        with suppress(psycopg.Error):
            await self._connection.close()

    def meaning(self, where: str, error: psycopg.Error, *, changes: bool) -> Exception:
        """The exception to raise for `error` of a statement; `changes`: it was a write.

        An ERROR rolls the statement back, so nothing was stored. Everything else ends the
        connection, and the statement's change may have been stored.
        """
        if error.diag.severity_nonlocalized != "ERROR":
            waited = f"no answer within {self._answer_timeout_s} s" if self._timed_out else ""
            message = f"{where}: {waited or _text(error)}"
            return OutcomeUnknown(message) if changes else StorageUnavailable(message)
        state = error.sqlstate or ""
        message = f"{where}: {_text(error)}"
        if state in DAMAGE:
            return DataError(message)
        return StoreRefused(message) if state[:2] in REFUSALS else StorageUnavailable(message)


def _copy(descriptor: int) -> int:
    return socket.dup(descriptor)


def _connect_error(where: str, error: psycopg.Error) -> StoreRefused | StorageUnavailable:
    text = _text(error)
    refused = any(sign in text for sign in WRONG_CREDENTIALS)
    return (StoreRefused if refused else StorageUnavailable)(f"{where}: {text}")


def _text(error: psycopg.Error) -> str:
    """The message of the server or of libpq, on one line."""
    text = error.diag.message_primary or str(error)
    return " ".join(text.split()) or type(error).__name__
