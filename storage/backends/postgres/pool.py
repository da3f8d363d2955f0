"""A pool of a few connections to one database, which settles unknown outcomes.

Rule 1: after an unknown outcome, nothing is read or written before the server's process of that
statement has ended. The process may be frozen, and could still carry out the statement long
after a read has found the log's next slot empty. Nor before a later commit is confirmed: what
is found may be on this server alone, if its process ended while it waited for a standby.
Rule 2: once a server has taken over that lacks what was confirmed here, nothing is read or
written any more: what this process remembers and what the store holds would be mixed.
Rule 3: bulk work never takes all connections, so a slow checkpoint does not delay commits.
Rule 4: the pool retries no statement. It replaces a broken connection before the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import LiteralString

import psycopg

from tierledger.events.errors import OutcomeUnknown, StorageUnavailable, StoreRefused
from tierledger.storage.backends.postgres.session import (
    Address,
    PostgresSession,
    ServerProcess,
    StatementResult,
)

CONNECTIONS_MAX = 6
"""Connections of one process. PostgreSQL allows 100 by default: enough for 16 processes."""

BULK_CONNECTIONS_MAX = 4
"""Connections that lists, checkpoints and removals may use; the others are for commits and for
reads of single keys."""

SETTLE_PAUSE_S = 0.01
SETTLE_TRIES = 300
"""Number of checks whether a process of the server has ended, over 3 s in all. It ends at once,
unless it or its disk is frozen."""

END_PROCESS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE pid = %b AND extract(epoch FROM backend_start)::text = %b AND (TABLE here)
"""

COMMIT = "SELECT pg_logical_emit_message(true, 'tierledger', '') WHERE (TABLE here)"
"""Changes nothing, and is confirmed as any change is, after all that came before it."""

LOST = (
    "the server that took over lacks changes that were confirmed to this process, as it was "
    "behind: start the service anew to go on without them (with synchronous_standby_names the "
    "primary waits for a standby)"
)


class Pool:
    """The connections of one backend, opened as they are needed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[PostgresSession] = []
        self._every = asyncio.Semaphore(CONNECTIONS_MAX)
        self._bulk = asyncio.Semaphore(BULK_CONNECTIONS_MAX)
        self._unsettled: list[ServerProcess] = []
        self._settling: asyncio.Task[None] | None = None
        self._took_over_at: int | None = None
        self.written_to = 0
        """How far the server's log was written when it confirmed this process's last change."""

    async def run(
        self,
        statement: LiteralString,
        parameters: Sequence[object] | None = (),
        *,
        changes: bool = False,
        bulk: bool = False,
    ) -> StatementResult:
        """Carry out a statement, durably if it `changes` something; see `PostgresSession.run`.

        Raises:
            StorageUnavailable: The server is away or refused; nothing was kept.
            OutcomeUnknown: The connection ended while a change was under way.
            StoreRefused: The server refuses the login, or access to the tables.
            DataError: The server's files are damaged.
        """
        if bulk:
            async with self._bulk:
                return await self.run(statement, parameters, changes=changes)
        async with self._every:
            session = await self._usable_session()
            return await self._run(session, statement, parameters, changes=changes)

    async def close(self) -> None:
        """Close all connections; none may be in use."""
        while self._idle:
            await self._idle.pop().leave()

    async def _run(
        self,
        session: PostgresSession,
        statement: LiteralString,
        parameters: Sequence[object] | None,
        *,
        changes: bool,
    ) -> StatementResult:
        try:
            answer = await session.run(statement, parameters)
        except psycopg.Error as error:
            meaning = session.meaning(self.address.where, error, changes=changes)
            if isinstance(meaning, OutcomeUnknown):
                self._unsettled.append(session.identity)
            await self._put_back(session)
            raise meaning from error
        except BaseException:
            if changes:
                self._unsettled.append(session.identity)
            await session.close()
            raise
        await self._put_back(session)
        return answer

    async def _put_back(self, session: PostgresSession) -> None:
        if session.is_open:
            self._idle.append(session)  # A stack: the last used is used next.
        else:
            await session.close()

    async def _usable_session(self) -> PostgresSession:
        session = await self._session()
        if self._unsettled:
            try:
                await self._settled(session)
            except BaseException:
                await self._put_back(session)
                raise
        return session

    async def _session(self) -> PostgresSession:
        while self._idle:
            session = self._idle.pop()
            if session.is_still_open():
                return session
            await session.close()
        session = await PostgresSession.open(self.address)
        if session.took_over_at in (None, self._took_over_at):
            return session
        # What was written here is there if the log that the other server had goes beyond it.
        if self.written_to >= (session.took_over_at or 0):
            await session.close()
            raise StoreRefused(f"{self.address.where}: {LOST}")
        self._took_over_at = session.took_over_at
        return session

    async def _settled(self, session: PostgresSession) -> None:
        """Return when each statement in doubt has been carried out or never will be.

        One task settles for all callers at a time: they wait, and fail, together.
        """
        if self._settling is None or self._settling.done():
            self._settling = asyncio.create_task(self._settle(session))
        await asyncio.shield(self._settling)

    async def _settle(self, session: PostgresSession) -> None:
        while self._unsettled:
            in_doubt = len(self._unsettled)
            try:
                for identity in self._unsettled[:in_doubt]:
                    await self._end(session, identity)
                await session.run(COMMIT, ())
            except psycopg.Error as error:
                raise session.meaning(self.address.where, error, changes=False) from error
            del self._unsettled[:in_doubt]

    async def _end(self, session: PostgresSession, identity: ServerProcess) -> None:
        for _ in range(SETTLE_TRIES):
            answer = await session.run(END_PROCESS, identity)
            # A process leaves the list only after its transaction has committed or aborted.
            if not answer.rows:
                return
            await asyncio.sleep(SETTLE_PAUSE_S)
        raise StorageUnavailable(
            f"{self.address.where}: the server's process {identity.pid} still holds a write "
            "whose outcome is not known"
        )
