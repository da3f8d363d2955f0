"""The store for several hosts: a PostgreSQL database, any number of writers and readers.

Each call is one statement that commits by itself. It takes its keys in ascending order, so that
no two statements deadlock. See `session.py` for timeouts and errors, `pool.py` for connections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import psycopg
from typing_extensions import override

from tierledger.events.errors import (
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.backend import (
    HIGHEST_CHARACTER,
    KEY_BYTES_MAX,
    NO_FORMERS,
    AtomicConflict,
    ConflictReason,
    Create,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
    Remove,
    Update,
    check_items,
    check_key,
    check_page,
    check_prefix,
    conflict_of,
    folder_of,
    key_after,
    older_store,
)
from tierledger.storage.backends.checking import checked_beside
from tierledger.storage.backends.open_store import KEYS_PER_REMOVAL, OpenStore, removed
from tierledger.storage.backends.postgres.pool import Pool
from tierledger.storage.backends.postgres.schema import CONFLICT, OLDER, check
from tierledger.storage.backends.postgres.session import Address, StatementResult
from tierledger.storage.locate import StoreUrl

T = TypeVar("T")

BEYOND_ALL_KEYS = chr(0x10FFFF) * (KEY_BYTES_MAX // 4 + 1)
"""Sorts after every key: the highest character, more often than fits into a key."""

SELECT = "SELECT key, value FROM tierledger_kv WHERE key = ANY(%b::text[]) AND (TABLE here)"
SELECT_LIKE = """
SELECT key, value FROM tierledger_kv
 WHERE key >= %b AND key > %b AND key < %b AND (TABLE here) ORDER BY key LIMIT %b
"""
SELECT_FIRSTS = """
SELECT key, value FROM (
    WITH RECURSIVE firsts(key, value) AS (
        (SELECT key, value FROM tierledger_kv
          WHERE key >= %b AND key > %b AND key < %b ORDER BY key LIMIT 1)
        UNION ALL
        (SELECT next.key, next.value FROM firsts, LATERAL (
            SELECT kv.key, kv.value FROM tierledger_kv AS kv
             WHERE kv.key > coalesce(substring(firsts.key FROM %b) || %b, firsts.key)
               AND kv.key < %b ORDER BY kv.key LIMIT 1) AS next)
    )
    SELECT key, value FROM firsts LIMIT %b) AS found
 WHERE (TABLE here) ORDER BY key
"""
SELECT_LAST = """
SELECT (SELECT key FROM tierledger_kv WHERE key >= one.start AND key < one.stop
         ORDER BY key DESC LIMIT 1)
  FROM unnest(%b::text[], %b::text[]) WITH ORDINALITY AS one(start, stop, place)
 WHERE (TABLE here) ORDER BY place
"""
APPEND = """
SELECT slot, is_passed, (TABLE position)
  FROM tierledger_follow(%b::text[], %b::text[], %b::bytea[], %b::text[], %b::bytea[])
 WHERE (TABLE here)
"""
DELETE_LIKE = """
DELETE FROM tierledger_kv WHERE key IN
    (SELECT key FROM tierledger_kv WHERE key >= %b AND key < %b
      ORDER BY key LIMIT %b FOR UPDATE) AND (TABLE here)
"""
EXECUTE = """
SELECT tierledger_execute(%b::text[], %b::text[], %b::bytea[], %b::boolean[], %b::bytea[], %b),
       (TABLE position)
 WHERE (TABLE here)
"""
CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint WHERE (TABLE here)"


async def server_time_ms(url: StoreUrl) -> int:
    """What the server's clock says, in ms since 1970.

    Raises:
        StoreRefused: The server refuses the login.
        StorageUnavailable: The server is away.
    """
    pool = Pool(Address.of(url, read_only=True))
    try:
        ((now_ms,),) = (await pool.run(CLOCK)).rows
    finally:
        await pool.close()
    return int(now_ms)


class PostgresBackend(MetadataStorageBackend):
    """A store in the tables `tierledger_kv` and `tierledger_format` of one database."""

    def __init__(self, pool: Pool) -> None:
        """Not called directly: see `open`."""
        self._where = pool.address.where
        self._opened = OpenStore(f"the connection to {self._where}", self._where)
        self._pool = pool
        self._older: StoreRefused | None = None

    @classmethod
    async def open(cls, url: StoreUrl, *, read_only: bool = False) -> PostgresBackend:
        """The store at `url`; a writer creates its tables if they are missing.

        Raises:
            NoSuchStore: The server has no store, and it was opened for reading.
            StoreRefused: The server refuses the login, has other tables under the store's
                names, or has `fsync` off.
            FormatTooNew: A newer program created the store.
            StorageUnavailable: The server is away, full, or takes no writes.
            InvalidArgument: libpq cannot parse the URL.
        """
        pool = Pool(Address.of(url, read_only=read_only))
        try:
            await check(pool)
        except BaseException:
            await pool.close()
            raise
        return cls(pool)

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        for key in keys:
            check_key(key)
        if not keys:
            self._opened.check()
            return []
        answer = await self._opened.finished(self._pool.run(SELECT, (list(keys),)))
        found = dict(answer.rows)
        return [found.get(key) for key in keys]

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        check_page(prefix, after, limit)
        bounds = (prefix, after or "", _end_of(prefix), limit)
        answer = await self._opened.finished(self._pool.run(SELECT_LIKE, bounds, bulk=True))
        return [(key, value) for key, value in answer.rows]

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        check_page(prefix, after, limit)
        folder = f"^(?:[^/]*/){{{prefix.count('/') + levels}}}"
        end = _end_of(prefix)
        bounds = (prefix, after or "", end, folder, HIGHEST_CHARACTER, end, limit)
        answer = await self._opened.finished(self._pool.run(SELECT_FIRSTS, bounds, bulk=True))
        return [(key, value) for key, value in answer.rows]

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        for prefix in prefixes:
            check_prefix(prefix)
        bounds = (list(prefixes), [_end_of(prefix) for prefix in prefixes])
        answer = await self._opened.finished(self._pool.run(SELECT_LAST, bounds))
        return [key for (key,) in answer.rows]

    @override
    async def remove_like(self, prefix: str) -> int:
        check_prefix(prefix)
        self._refuse_reader()
        bounds = (prefix, _end_of(prefix), KEYS_PER_REMOVAL)

        async def step() -> int:
            work = self._pool.run(DELETE_LIKE, bounds, changes=True, bulk=True)
            return (await self._opened.finished(work)).changed

        return await removed(step)

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await checked_beside(operations)
        self._refuse_reader()
        if not operations:
            self._opened.check()
            return
        await self._opened.finished(self._execute(_plan(operations)))

    async def _execute(self, plan: Plan) -> None:
        changes = [plan.changes[key] for key in sorted(plan.changes)]
        parameters = (
            [change.key for change in changes],
            [change.guard for change in changes],
            [change.expected for change in changes],
            [change.stays for change in changes],
            [change.value for change in changes],
            plan.conflict is not None,
        )
        try:
            answer = await self._pool.run(EXECUTE, parameters, changes=True, bulk=True)
        except StorageUnavailable as error:
            detail = _detail(error, CONFLICT)
            if detail is None:
                raise
            raise _first_conflict(plan, changes, detail) from None
        self._note(answer)

    def _note(self, answer: StatementResult) -> None:
        """Note how far the server's log was written when a change was confirmed."""
        for *_, position in answer.rows[-1:]:
            self._pool.written_to = max(self._pool.written_to, position or 0)

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        check_items(items)
        self._refuse_reader()
        if not items:
            self._opened.check()
            return []
        firsts: dict[str, bytes] = {}
        for key, value in items:
            firsts.setdefault(key, value)
        keys = sorted(firsts)
        parameters = (
            keys,
            [_folder_end(key) for key in keys],
            [firsts[key] for key in keys],
            [formers[key].key if key in formers else "" for key in keys],
            [formers[key].beginning if key in formers else b"" for key in keys],
        )
        answer = await self._opened.finished(self._append(parameters, formers))
        self._note(answer)
        passed = {key for key, is_passed, _ in answer.rows if is_passed}
        created = {key for key, _, _ in answer.rows} - passed
        return [_outcome(key, created, passed) for key, _ in items]

    async def _append(
        self, parameters: Sequence[object], formers: Mapping[str, Former]
    ) -> StatementResult:
        try:
            return await self._pool.run(APPEND, parameters, changes=True)
        except StorageUnavailable as error:
            key = _detail(error, OLDER)
            if key is None:
                raise
            self._older = older_store(self._where, formers[key].key)
            raise self._older from None

    @override
    async def close(self) -> None:
        # A forked process would end the other's sessions.
        await self._opened.close(self._pool.close)

    def _refuse_reader(self) -> None:
        if self._pool.address.read_only:
            raise StoreRefused(f"{self._where} was opened for reading only")
        if self._older is not None:
            raise StoreRefused(*self._older.args)


class KeyChange(NamedTuple):
    """The effect of all operations on one key: what they need to find, and what they leave."""

    key: str
    place: int
    """Index in the list of the operation with the guard."""

    guard: str
    """`absent`, `present`, `equals` (the expected value) or `any`."""

    expected: bytes
    stays: bool
    """Whether the key has a value afterwards."""

    value: bytes


class Plan(NamedTuple):
    """The effect of a list of operations."""

    changes: dict[str, KeyChange]
    conflict: tuple[int, AtomicConflict] | None
    """Index and error of an operation that must fail because of those before it."""


def _plan(operations: Sequence[Operation]) -> Plan:
    """The effect of `operations`, with one change for each key.

    Only the first operation on a key depends on the store's value; what later ones find is
    known from those before them.
    """
    changes: dict[str, KeyChange] = {}
    for place, operation in enumerate(operations):
        key = operation.key
        stays = not isinstance(operation, Remove)
        value = b"" if isinstance(operation, Remove) else operation.value
        before = changes.get(key)
        if before is None:
            guard, expected = _guard(operation)
            changes[key] = KeyChange(key, place, guard, expected, stays, value)
            continue
        why = conflict_of(operation, before.value if before.stays else None)
        if why is not None:
            return Plan(changes, (place, AtomicConflict(key, why)))
        changes[key] = before._replace(stays=stays, value=value)
    return Plan(changes, None)


def _guard(operation: Operation) -> tuple[str, bytes]:
    match operation:
        case Create():
            return "absent", b""
        case Update(expected=None):
            return "present", b""
        case Update(expected=bytes(expected)) | Remove(expected=bytes(expected)):
            return "equals", expected
        case _:
            return "any", b""


def _detail(error: StorageUnavailable, code: str) -> str | None:
    """The detail of a function's error with `code`; None if `error` has another cause."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error) or cause.sqlstate != code:
        return None
    return cause.diag.message_detail or ""


def _first_conflict(plan: Plan, changes: Sequence[KeyChange], detail: str) -> AtomicConflict:
    """The first conflict, in the order of the list."""
    conflicts = [plan.conflict] if plan.conflict is not None else []
    for met in detail.split():
        index, _, why = met.partition(":")
        change = changes[int(index) - 1]
        conflict = AtomicConflict(change.key, ConflictReason(why))
        conflicts.append((change.place, conflict))
    return min(conflicts, key=lambda one: one[0])[1]


def _outcome(key: str, created: set[str], passed: set[str]) -> CreateOutcome:
    """The outcome of the next item with `key`; only the first of them created it."""
    if key in passed:
        return CreateOutcome.PASSED
    if key not in created:
        return CreateOutcome.EXISTS
    created.remove(key)
    return CreateOutcome.CREATED


def _folder_end(key: str) -> str | None:
    folder = folder_of(key)
    return None if folder is None else _end_of(folder)


def _end_of(prefix: str) -> str:
    """The first text after all keys that start with `prefix`."""
    return key_after(prefix) or BEYOND_ALL_KEYS
