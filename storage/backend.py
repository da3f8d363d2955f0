"""The binary key-value store that everything is kept in, as an interface.

Keys are text in the order of their UTF-8 bytes, values are bytes. Every backend passes the
contract suite in tests/contract; a new backend has to pass that suite.

Rule 1: what changes the store is durable when it returns.
Rule 2: an error says what was left behind. `StorageUnavailable` and every `RejectedError`:
nothing. `OutcomeUnknown`: all of the step or nothing, and the next read or write that succeeds
tells which.
Rule 3: a read sees every write that had returned before it was called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from typing_extensions import override

from tierledger.events.errors import InvalidArgument, RejectedError

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""Longest value. Far above a page or a batch; a larger one is a mistake of the caller."""

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Most bytes of values in one `create_each` of several items: below 0.2 s of writing, which is
what everything behind it waits. A single item may be as long as a value can be."""

KEY_BYTES_MAX = 1024
"""Longest key in UTF-8. Below what every database can index (PostgreSQL: 2,704 bytes)."""


class KeyExists(RejectedError):
    """There is a value under the key already; it is unchanged."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    @override
    def __str__(self) -> str:
        return f"expected no value under {self.key!r}, but there is one"


class KeyMissing(RejectedError):
    """There is no value under the key, and still none."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    @override
    def __str__(self) -> str:
        return f"expected a value under {self.key!r}, but there is none"


class ValueMismatch(RejectedError):
    """The value under the key is not the expected one; it is unchanged."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    @override
    def __str__(self) -> str:
        return f"the value under {self.key!r} is not the expected one"


class ConflictReason(StrEnum):
    """What an operation met that it did not expect."""

    EXISTS = "exists"
    MISSING = "missing"
    MISMATCH = "mismatch"


class AtomicConflict(RejectedError):
    """An operation of the list met what it did not expect; none of them was carried out."""

    def __init__(self, key: str, why: ConflictReason) -> None:
        super().__init__(key, why)
        self.key = key
        self.why = why

    @override
    def __str__(self) -> str:
        return f"nothing changed: {CONFLICT_ERRORS[self.why](self.key)}"


CONFLICT_ERRORS = {
    ConflictReason.EXISTS: KeyExists,
    ConflictReason.MISSING: KeyMissing,
    ConflictReason.MISMATCH: ValueMismatch,
}
"""What a single `create` or `update` raises for each reason."""


class CreateOutcome(StrEnum):
    """What became of one item of `create_each`."""

    CREATED = "created"
    EXISTS = "exists"
    PASSED = "passed"
    """Nothing is under the key, and its folder goes on behind it: what was there is removed."""


@dataclass(frozen=True, slots=True)
class Create:
    """Store a value under a key that has none."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the value under a key that has one: the `expected` one, if that is given."""

    key: str
    value: bytes
    expected: bytes | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Store a value under a key, whether or not it has one."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove what is under a key: the `expected` value, or else whatever there is, if any."""

    key: str
    expected: bytes | None = None


Operation: TypeAlias = Create | Update | Put | Remove


class MetadataStorageBackend(ABC):
    """A durable, ordered map from text keys to bytes.

    One event loop uses it; calls may be in flight at the same time. Every method raises
    `StorageUnavailable` if the medium refused or the backend is closed, `InvalidArgument` for a
    key or value beyond the limits above, and those that change something `StoreRefused` if it
    was opened for reading only; the store is unchanged then.
    """

    async def create(self, key: str, value: bytes) -> None:
        """Store `value` under `key`, which must have none.

        Raises:
            KeyExists: There is a value; it is unchanged.
            OutcomeUnknown: The medium failed in the middle: `get` tells.
        """
        await self._execute_one(Create(key, value))

    async def update(self, key: str, value: bytes, *, expected: bytes | None = None) -> None:
        """Replace the value under `key`; only if it is `expected`, where that is given.

        Raises:
            KeyMissing: There is no value; still none.
            ValueMismatch: There is another value than `expected`; it is unchanged.
            OutcomeUnknown: The medium failed in the middle: `get` tells.
        """
        await self._execute_one(Update(key, value, expected))

    async def _execute_one(self, operation: Operation) -> None:
        try:
            await self.execute_atomically([operation])
        except AtomicConflict as conflict:
            raise CONFLICT_ERRORS[conflict.why](conflict.key) from None

    async def get(self, key: str) -> bytes | None:
        (value,) = await self.get_each([key])
        return value

    @abstractmethod
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values under `keys` in the order of `keys`, all as of one moment."""

    @abstractmethod
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        """Keys that start with `prefix`, and their values: in order, as of one moment.

        Args:
            prefix: Taken literally; no character acts as a wildcard. Empty: every key.
            after: Only keys beyond this one; it need not exist. To page on, the last key seen.
            limit: At most so many, at least one. Fewer come only where the keys end.
        """

    @abstractmethod
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        """The last key that starts with each of `prefixes`; none where there is no key."""

    @abstractmethod
    async def remove_like(self, prefix: str) -> int:
        """Remove every key that starts with `prefix`; how many those were.

        Goes in steps, in the order of the keys, and lets other writes pass between them: a
        million keys would hold everybody up for seconds. Keys that are created meanwhile may
        stay.

        Raises:
            OutcomeUnknown: Some are removed, some not; repeat it.
        """

    @abstractmethod
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        """Carry out `operations` one after another, all of them or none.

        Each sees what those before it in the list did.

        Raises:
            AtomicConflict: One found what it did not expect; nothing changed.
            OutcomeUnknown: The medium failed in the middle: all of them happened, or none.
        """

    @abstractmethod
    async def create_each(self, items: Sequence[tuple[str, bytes]]) -> list[CreateOutcome]:
        """Append each of `items` that can be, in one durable step; their outcomes, in order.

        This is group commit: a key that is taken fails no other. If a key is in `items` twice,
        the first wins.

        Rule: a key with a folder (its text up to the last "/") is created only at the folder's
        end. So a writer that slept cannot win a slot again that was removed behind its back:
        whatever removes slots leaves a later one. Items of one folder are created in the
        order of their keys.

        Raises:
            InvalidArgument: Several items with more than `BATCH_BYTES_MAX` in all.
            OutcomeUnknown: The medium failed in the middle: all that could be created were, or
                none.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let calls in flight finish, then let go of the medium. May be called again.

        Of `remove_like`, the step in flight.
        """


def check_key(key: str) -> None:
    """Refuse a key that some backend could not keep.

    Raises:
        InvalidArgument: It is empty, longer than `KEY_BYTES_MAX`, holds a NUL (PostgreSQL has
            no such text) or is not Unicode.
    """
    if not key:
        raise InvalidArgument("expected a key, got an empty one")
    check_prefix(key)


def check_prefix(prefix: str) -> None:
    """Refuse what no key can start with; see `check_key`. Every key starts with nothing."""
    try:
        length = len(prefix) if prefix.isascii() else len(prefix.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"expected a key of Unicode characters, got {prefix!r}"
        ) from error
    if length > KEY_BYTES_MAX:
        raise InvalidArgument(
            f"expected a key of at most {KEY_BYTES_MAX} bytes, got {length}: {prefix[:64]!r}…"
        )
    if "\0" in prefix:
        raise InvalidArgument(f"expected a key without NUL, got {prefix!r}")


def check_value(key: str, value: bytes) -> None:
    """Refuse a value that is too long to keep.

    Raises:
        InvalidArgument: It is longer than `VALUE_BYTES_MAX`.
    """
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidArgument(
            f"expected a value of at most {VALUE_BYTES_MAX} bytes for {key!r}, got {len(value)}"
        )


def check_operations(operations: Sequence[Operation]) -> None:
    """Refuse a list in which an operation could not be carried out anywhere."""
    for operation in operations:
        check_key(operation.key)
        if not isinstance(operation, Remove):
            check_value(operation.key, operation.value)


def check_items(items: Sequence[tuple[str, bytes]]) -> None:
    """Refuse items that `create_each` may not take in one step."""
    total = 0
    for key, value in items:
        check_key(key)
        check_value(key, value)
        total += len(value)
    if total > BATCH_BYTES_MAX and len(items) > 1:
        raise InvalidArgument(
            f"expected at most {BATCH_BYTES_MAX} bytes in one step, got {total} "
            f"in {len(items)} items"
        )


def folder_of(key: str) -> str | None:
    """What all keys of the folder of `key` start with; none if it is in no folder."""
    name = key.rpartition("/")[2]
    return key.removesuffix(name) or None


def check_page(prefix: str, after: str | None, limit: int) -> None:
    """Refuse what `get_like` cannot answer.

    Raises:
        InvalidArgument: `prefix` or `after` can be no part of a key, or `limit` is below one.
    """
    check_prefix(prefix)
    if after is not None:
        check_prefix(after)
    if limit < 1:
        raise InvalidArgument(f"expected a limit of at least 1, got {limit}")


HIGHEST_CHARACTER = chr(0x10FFFF)


def key_after(prefix: str) -> str | None:
    """The first text beyond all that starts with `prefix`; none if there is no such text."""
    kept = prefix.rstrip(HIGHEST_CHARACTER)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters of their own and cannot be stored.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
