"""One connection to PostgreSQL: opening, timeouts, and the meaning of its errors.

Rule 1: no transaction stays open between two messages. Each statement is sent whole and commits
by itself, so a process that freezes holds no lock for longer than its statement.
Rule 2: every wait has a timeout. The server ends a statement that takes too long; if it does
not report that either, the connection is cut from here.
Rule 3: no message has a password. Neither libpq nor the server puts one into theirs.
Rule 4: nothing about the session is assumed. Its settings are made after it is open, where no
pooler and no rule of libpq's sees them; each statement brings its durability along, and fails
in any session but the one that was given these settings (`IN_SESSION`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
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
below the 30 s for which a client waits (`statement_timeout`)."""

LOCK_TIMEOUT_S = 2
"""Seconds for which a statement waits for another's lock on a row: many commits long. Only a
person's transaction takes longer (`lock_timeout`)."""

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

SETTINGS = {
    "statement_timeout": f"{STATEMENT_TIMEOUT_S}s",
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    # A role's own limits would end a session of the pool that rests, or a long statement.
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "default_transaction_isolation": "read committed",
    "client_encoding": "UTF8",
    # Every query goes by the key, though the planner has no statistics of a new table yet.
    "enable_seqscan": "off",
    # A scan that cannot be avoided looks dear now, and would be compiled first, in 200 ms.
    "jit": "off",
}
"""Settings of each session, as far as the server knows them; those of the URL go before."""

MARK = "tierledger.session"
"""A setting whose value no other session has. It goes with all others, if a pooler resets them
or continues in another of the server's processes."""

SET = """
SELECT pg_backend_pid(), count(set_config(name, value, false))
  FROM unnest(%b::text[], %b::text[], %b::boolean[]) AS one(name, value, is_ours)
 WHERE pg_backend_pid() = %b AND (NOT is_ours OR current_setting(name, true) IS NOT NULL)
"""
# A server knows no setting that came with a later version.

FACTS = """
SELECT (SELECT extract(epoch FROM backend_start)::text
          FROM pg_stat_activity WHERE pid = pg_backend_pid()),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'),
       current_setting('server_encoding'),
       current_setting('fsync'),
       pg_is_in_recovery()
 WHERE (TABLE here)
"""

IN_SESSION = """
WITH here AS (SELECT set_config('synchronous_commit',
    CASE WHEN current_setting('tierledger.session', true) IS DISTINCT FROM %b
         THEN 'not in the session of tierledger'
         WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
         ELSE 'on' END, true) <> '')
"""
"""Begins each statement, which refers to it by `(TABLE here)`, a condition that the server
looks at before all else. In another session than ours it refuses the value, and with it the
statement; in ours the value holds until the commit."""

POSITION = ", position AS (SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint)"
"""Follows `IN_SESSION` for a statement that changes something and refers to it by
`(TABLE position)`: how far the server's log is written, with the changes and without their
commit."""

NO_POSITION = ", position AS (SELECT NULL::bigint)"

TOOK_OVER_AT = """
SELECT (pg_last_wal_replay_lsn() - '0/0')::bigint, (TABLE position)
 WHERE (TABLE here)
"""

ELSEWHERE = "not in the session of tierledger"
"""The value by which that refusal is known."""

PREPARED_AFTER = 5
"""How often a statement is sent before the server keeps it prepared; psycopg's default. Behind
a pooler none is: their names may be somebody else's in the same process."""

KEPT_PROBES = 5
"""How often a pooler is asked, before it is trusted, whether it keeps a session."""

UNREADABLE = (
    "expected a store as postgresql://USER@HOST:PORT/DATABASE, with %XX for what is no letter "
    "or digit in a password; the given one cannot be read"
)
# Shows neither the URL nor libpq's message: the part that cannot be parsed may be a password.

POOLED = (
    "a pooler gives this connection another of the server's processes for each transaction: "
    "expected one that keeps its process (pgbouncer: pool_mode = session)"
)

POOL_IS_FULL = (
    "a pooler gives no second connection: expected room for 6 of each process, and for 2 of a "
    "reader (pgbouncer: default_pool_size)"
)

WAIT_FOR_STANDBY = "SyncRepWaitForLSN"
"""The server's function that warns of a wait that was cancelled; its text is translated."""

UNCONFIRMED = "somebody cancelled the wait for a standby: the change is on this server alone"

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

REFUSALS = ("22", "28", "3D", "3F", "42", "55P02")
"""Beginnings of the codes of errors that only an operator can fix: privileges, another
program's tables, settings that cannot be made."""

DAMAGE = {"XX001", "XX002"}
"""Codes by which the server reports damage of its own files."""


class ServerProcess(NamedTuple):
    """The server's process for a connection; with its start, as process ids are reused."""

    pid: int
    started: str


class StatementResult(NamedTuple):
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

    settings: dict[str, str]
    """Settings of the server's that the user's `options` ask for."""

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
        others, settings = options_of(given.get("options", environment.get("options", "")))
        # Empty, so that libpq does not look into the environment again.
        given |= {"options": others, "client_encoding": "UTF8"}
        ours = {key: value for key, value in LIMITS.items() if key not in environment}
        return cls(url.public, {**ours, **given}, settings, read_only)

    def marked(self, mark: str) -> tuple[list[str], list[str], list[bool]]:
        """Names and values of a session's settings, and whether they are ours."""
        ours = {
            **SETTINGS,
            **({"default_transaction_read_only": "on"} if self.read_only else {}),
        }
        ours = {name: value for name, value in ours.items() if name not in self.settings}
        # The session is known by the last of them: without it, none counts.
        given = {**self.settings, MARK: mark}
        are_ours = [True] * len(ours) + [False] * len(given)
        return [*ours, *given], [*ours.values(), *given.values()], are_ours


WORD = re.compile(r"(?:\\.|[^\\\s])+", re.DOTALL)
"""One of the words into which the server splits `options`."""


def options_of(text: str) -> tuple[str, dict[str, str]]:
    """What `text` has beside settings, and its settings (`-c NAME=VALUE`, `--NAME=VALUE`)."""
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in WORD.findall(text)]
    others: list[str] = []
    settings: dict[str, str] = {}
    while words:
        word = words.pop(0)
        takes_next = word == "-c" and bool(words)
        taken = [word, words.pop(0)] if takes_next else [word]
        setting = taken[-1] if takes_next else re.sub("^(-c|--)", "", word)
        name, is_set, value = setting.partition("=")
        if is_set and (takes_next or setting != word):
            settings[name.replace("-", "_").lower()] = value
        else:
            others += [re.sub(r"([\\\s])", r"\\\1", each) for each in taken]
    return " ".join(others), settings


LIMITS = {
    "connect_timeout": str(CONNECT_TIMEOUT_S),
    "keepalives_idle": str(KEEPALIVE_IDLE_S),
    "keepalives_interval": str(KEEPALIVE_INTERVAL_S),
    "keepalives_count": str(KEEPALIVE_COUNT),
    "tcp_user_timeout": str(TCP_USER_TIMEOUT_S * 1000),
    "application_name": "tierledger",
}
"""Parameters of a connection where neither the URL nor libpq's variables set them."""


class PostgresSession:
    """A connection that one call uses at a time."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        """Not called directly: see `open`."""
        self._connection = connection
        self._news = select.poll()
        self._news.register(connection.fileno(), select.POLLIN)
        self._timed_out = False
        self._is_unconfirmed = False
        connection.add_notice_handler(self._notice)
        self._answer_timeout_s: float | None = STATEMENT_TIMEOUT_S + ANSWER_MARGIN_S
        self._mark = secrets.token_hex(8)
        self._position = POSITION
        self._is_kept = False
        self.took_over_at: int | None = None
        """Where the log of the server before this one was cut off, if this one was a standby
        that took over and has not been restarted since; where its own log ended, if it has
        restarted after a crash."""
        self.identity = ServerProcess(connection.info.backend_pid, "")

    @classmethod
    async def open(cls, address: Address) -> PostgresSession:
        """A new session with our settings, of a server whose encoding and durability are right.

        Raises:
            StorageUnavailable: The server is away, full, or does not answer.
            StoreRefused: The server refuses the login or a setting, has another encoding or
                `fsync` off, or a pooler in between does not keep the session.
        """
        session = await cls._connected(address)
        try:
            await session._begin(address)
        except psycopg.Error as error:
            await session.close()
            raise session.meaning(address.where, error, changes=False) from error
        except BaseException:
            await session.close()
            raise
        return session

    @classmethod
    async def _connected(cls, address: Address) -> PostgresSession:
        try:
            return cls(
                await psycopg.AsyncConnection.connect(
                    make_conninfo(**address.parameters), autocommit=True, prepare_threshold=None
                )
            )
        except psycopg.Error as error:
            raise _connect_error(address.where, error) from None

    async def _begin(self, address: Address) -> None:
        if await self._set(address):
            self._connection.prepare_threshold = PREPARED_AFTER
        else:
            # The process is not the one that greeted: a pooler is in between.
            await self._refuse_shared(address)
            # What others did in it may be there still: settings, prepared statements.
            await self._ask("DISCARD ALL")
            await self._set(address)
            self._is_kept = True
        started, timeout_ms, encoding, fsync, is_standby = (await self.run(FACTS, ())).rows[0]
        self.identity = self.identity._replace(started=started)
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
        if is_standby and not address.read_only:
            raise StorageUnavailable(
                f"{address.where} led to a standby, which takes no writes, not the primary: "
                "target_session_attrs=read-write finds it among several hosts"
            )
        if not address.read_only:
            await self._look_back()

    async def _look_back(self) -> None:
        try:
            ((self.took_over_at, _),) = (await self.run(TOOK_OVER_AT, ())).rows
        except psycopg.Error as error:
            if error.diag.severity_nonlocalized != "ERROR":
                raise
            self._position = NO_POSITION  # Some servers have no log of PostgreSQL's own.

    async def _set(self, address: Address) -> bool:
        """Make the settings, if the server's process is the one that is expected."""
        parameters = (*address.marked(self._mark), self.identity.pid)
        ((pid, _),) = (await self._ask(SET, parameters)).rows
        is_expected: bool = pid == self.identity.pid
        return is_expected

    async def _refuse_shared(self, address: Address) -> None:
        """Refuse a pooler that gives the process to others between two statements.

        Nothing but questions is asked before: a setting would stay for those others.
        """
        own = await self._pid()
        other = await PostgresSession._connected(address)
        connect_timeout_s = int(address.parameters.get("connect_timeout", 0))
        other._answer_timeout_s = connect_timeout_s or CONNECT_TIMEOUT_S
        try:
            await other._ask("BEGIN")
            # Its own process, or the one that this session had.
            is_kept = await other._pid() != own
            for _ in range(KEPT_PROBES if is_kept else 0):
                is_kept = is_kept and await self._pid() == own
        except psycopg.Error as error:
            if "pooling mode" in _text(error):
                raise StoreRefused(f"{address.where}: {POOLED}") from error
            if other._timed_out:
                raise StorageUnavailable(f"{address.where}: {POOL_IS_FULL}") from error
            raise other.meaning(address.where, error, changes=False) from error
        finally:
            await other.close()
        if not is_kept:
            raise StoreRefused(f"{address.where}: {POOLED}")
        self.identity = ServerProcess(own, "")

    async def _pid(self) -> int:
        ((pid,),) = (await self._ask("SELECT pg_backend_pid()")).rows
        assert isinstance(pid, int)
        return pid

    async def run(
        self, statement: LiteralString, parameters: Sequence[object] | None
    ) -> StatementResult:
        """Carry out one statement, which refers to `IN_SESSION`; raises what psycopg raises.

        With None for `parameters` there may be several statements, in one transaction.
        """
        try:
            if parameters is None:
                here = IN_SESSION.replace("%b", f"'{self._mark}'")
                return await self._ask(f"{here} TABLE here; {statement}")
            assert "(TABLE here)" in statement, "it would run in any session"
            here = IN_SESSION
            if "(TABLE position)" in statement:
                here += self._position
            return await self._ask(here + statement, (self._mark, *parameters))
        except (psycopg.DataError, psycopg.ProgrammingError):
            # Elsewhere the tables may be missing, too, which is noticed first.
            try:
                await self._ask(IN_SESSION + "TABLE here", (self._mark,))
            except psycopg.Error:
                await self.close()
                raise
            raise

    async def _ask(self, statement: str, parameters: Sequence[object] = ()) -> StatementResult:
        loop = asyncio.get_running_loop()
        timer = None
        if self._answer_timeout_s is not None:
            timer = loop.call_later(self._answer_timeout_s, self._hang_up)
        try:
            cursor = await self._connection.execute(
                statement, parameters or None, binary=bool(parameters)
            )
            rows = [] if cursor.description is None else await cursor.fetchall()
        finally:
            if timer is not None:
                timer.cancel()
        if self._is_unconfirmed:
            await self.close()
            raise psycopg.OperationalError(UNCONFIRMED)
        return StatementResult(rows, cursor.rowcount)

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        # The server reports a commit that no standby has as a success, with a warning.
        if notice.source_function == WAIT_FOR_STANDBY:
            self._is_unconfirmed = True

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

    async def leave(self) -> None:
        """Close the connection, which nobody uses; a pooler gets its session as it gave it."""
        if self._is_kept and self.is_still_open():
            with suppress(psycopg.Error):
                await self._ask("DISCARD ALL")
        await self.close()

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
        message = f"{where}: {POOLED if ELSEWHERE in _text(error) else _text(error)}"
        if state in DAMAGE:
            return DataError(message)
        return (
            StoreRefused(message) if state.startswith(REFUSALS) else StorageUnavailable(message)
        )


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
