"""The interface of the key-value store in which everything is kept.

Keys are text in the order of their UTF-8 bytes, values are bytes. Every backend has to pass the
suite in tests/storage/backends/backend_contract.py.

Rule 1: a call that changes the store returns only when the change is durable.
Rule 2: an error tells what the call has changed. `StorageUnavailable` and every
`RejectedError`: nothing. `OutcomeUnknown`: all of the step or nothing, and the next read or
write that succeeds tells which.
Rule 3: a read sees every write that had returned before it was called.
Rule 4: a store that turns out to be older than what this process has seen takes no change any
more (`Former`). Nobody knows what else it lacks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from typing_extensions import override

from tierledger.events.errors import InvalidArgument, RejectedError, StoreRefused

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""Longest value, far above a page or a batch."""

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Most bytes of values in one `create_each` of several items, which delays later calls by less
than 0.2 s. A single item may be as long as a value can be."""

KEY_BYTES_MAX = 1024
"""Longest key in UTF-8. Below what every database can index (PostgreSQL: 2,704 bytes)."""


class WriterReplaced(StoreRefused):
    """Another process has opened the store for writing; this one writes no more.

    Raised by stores with one writer that cannot lock others out, but only themselves.
    """


class KeyExists(RejectedError):
    """The key already has a value, which is unchanged."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    @override
    def __str__(self) -> str:
        return f"expected no value under {self.key!r}, but there is one"


class KeyMissing(RejectedError):
    """The key has no value; nothing changed."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    @override
    def __str__(self) -> str:
        return f"expected a value under {self.key!r}, but there is none"


class ValueMismatch(RejectedError):
    """The key's value is not the expected one; it is unchanged."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    @override
    def __str__(self) -> str:
        return f"the value under {self.key!r} is not the expected one"


class ConflictReason(StrEnum):
    """Why an operation failed."""

    EXISTS = "exists"
    MISSING = "missing"
    MISMATCH = "mismatch"


class AtomicConflict(RejectedError):
    """An operation of the list failed, so none of them was carried out."""

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
"""The error of a single `create` or `update` for each reason."""


class CreateOutcome(StrEnum):
    """The outcome of one item of `create_each`."""

    CREATED = "created"
    EXISTS = "exists"
    PASSED = "passed"
    """The key has no value, but its folder has later keys: its value was removed."""


class Former(NamedTuple):
    """What a writer has seen in its log's last slot, right before the one that it creates.

    In an older store, such as a backup that was put back, it is missing, or another's.
    """

    key: str
    beginning: bytes = b""
    """With what its value begins; empty: with anything."""


FORMER_BYTES = 64
"""Bytes that tell one batch from another: its checksum and first position are among them."""

NO_FORMERS: Mapping[str, Former] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Create:
    """Store a value under a key that must have none."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """Replace a key's value, which must exist, and equal `expected` if that is given."""

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
    """Remove a key's value, which must equal `expected` if given, and else may be absent."""

    key: str
    expected: bytes | None = None


Operation: TypeAlias = Create | Update | Put | Remove


def conflict_of(operation: Operation, present: bytes | None) -> ConflictReason | None:
    """Why `operation` fails if its key's value is `present`; None if it does not fail."""
    if isinstance(operation, Create):
        return None if present is None else ConflictReason.EXISTS
    if isinstance(operation, Put):
        return None
    expected = operation.expected
    if present is None:
        needs = isinstance(operation, Update) or expected is not None
        return ConflictReason.MISSING if needs else None
    return ConflictReason.MISMATCH if expected not in (None, present) else None


class MetadataStorageBackend(ABC):
    """A durable, ordered map from text keys to bytes.

    A backend belongs to one event loop; calls may be in flight at the same time. Every method
    raises `StorageUnavailable` if the medium refused or the backend is closed, and
    `InvalidArgument` for a key or value beyond the limits above. Methods that change something
    raise `StoreRefused` if the backend was opened for reading only. In these cases the store is
    unchanged.
    """

    async def create(self, key: str, value: bytes) -> None:
        """Store `value` under `key`, which must have none.

        Raises:
            KeyExists: There is a value; it is unchanged.
            OutcomeUnknown: The medium failed during the step; `get` tells the outcome.
        """
        await self._execute_one(Create(key, value))

    async def update(self, key: str, value: bytes, *, expected: bytes | None = None) -> None:
        """Replace the value under `key`; only if it is `expected`, where that is given.

        Raises:
            KeyMissing: There is no value; still none.
            ValueMismatch: There is another value than `expected`; it is unchanged.
            OutcomeUnknown: The medium failed during the step; `get` tells the outcome.
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
        """The values under `keys`, in that order, all as of one moment; None if absent."""

    @abstractmethod
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        """Keys that start with `prefix`, and their values: in order, as of one moment.

        Args:
            prefix: Literal text, without wildcards. Empty: every key.
            after: Only keys after this one, which need not exist. For the next page, pass the
                last key of the page before.
            limit: At most so many, at least one. Fewer come only where the keys end.
        """

    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        """The first key of each folder `levels` below `prefix`, and its value, in order.

        A folder is a key's text up to the "/" of that number behind `prefix`; a key with fewer
        is a folder of its own. Each row is as of a moment of its own.

        Args:
            prefix: As for `get_like`.
            levels: How many "/" there are behind `prefix` in the name of a folder.
            after: Only keys after this one, as for `get_like`. For the next page, pass a text
                behind all keys of the last folder.
            limit: At most so many, at least one. Fewer come only where the keys end.
        """
        check_page(prefix, after, limit)
        found: list[tuple[str, bytes]] = []
        while len(found) < limit:
            page = await self.get_like(prefix, after=after, limit=1)
            if not page:
                break
            found += page
            after = behind_folder(prefix, page[0][0], levels)
        return found

    @abstractmethod
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        """For each of `prefixes` the last key that starts with it; None without any."""

    async def last_keys_seen(self, prefixes: Sequence[str]) -> list[str | None]:
        """The same as `last_keys`, for looks that are repeated.

        It may lack what another process has written that has just opened the store for writing
        in place of this one. Where that is dear to find out, this call does not; by default it
        is `last_keys`.
        """
        return await self.last_keys(prefixes)

    @abstractmethod
    async def remove_like(self, prefix: str) -> int:
        """Remove every key that starts with `prefix`; returns their number.

        Works in steps, in the order of the keys, with other writes in between: removing a
        million keys at once would block all writers for seconds. Keys that are created
        meanwhile may stay.

        Raises:
            OutcomeUnknown: Some keys are removed, some not; call it again.
        """

    @abstractmethod
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        """Carry out `operations` one after another, all of them or none.

        Each sees the effects of those before it in the list.

        Raises:
            AtomicConflict: One of them failed; nothing changed.
            OutcomeUnknown: The medium failed during the step: all were carried out, or none.
        """

    @abstractmethod
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        """Create those of `items` that can be, in one durable step; outcomes in their order.

        This is group commit: a key that is taken does not make the others fail. If a key is in
        `items` twice, the first wins.

        Rule: a key with a folder (its text up to the last "/") is created only at the folder's
        end. This fences a writer that slept while its slot was taken and then removed: whatever
        removes slots leaves a later one, so the slot cannot be created again. Items of one
        folder are created in the order of their keys.

        `formers`: by the keys of some items, what has to be there for them to be created. It is
        looked for in the same step.

        Raises:
            StoreRefused: A former is not there, or begins otherwise, though its item could be
                created: the store is older than what the caller has seen. Nothing is created,
                and every later change is refused, too, until the store is opened again.
            InvalidArgument: Several items with more than `BATCH_BYTES_MAX` in all.
            OutcomeUnknown: The medium failed during the step: every item that can be created
                was created, or none.
        """

    async def is_replaced(self) -> bool:
        """Wait until another process has opened the store for writing in place of this one.

        True once one has; False at once where none can: the store locks others out, or lets
        many write. This is the default.
        """
        return False

    @abstractmethod
    async def close(self) -> None:
        """Let calls in flight finish, then close the medium. May be called again.

        A `remove_like` in flight ends after its current step.
        """


def check_key(key: str) -> None:
    """Refuse a key that some backend cannot store.

    Raises:
        InvalidArgument: The key is empty, longer than `KEY_BYTES_MAX`, has a NUL (which
            PostgreSQL does not allow in text) or is not Unicode.
    """
    if not key:
        raise InvalidArgument("expected a key, got an empty one")
    check_prefix(key)


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that no key can have, as `check_key` does; it may be empty."""
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
    """Refuse a value that is too long.

    Raises:
        InvalidArgument: The value is longer than `VALUE_BYTES_MAX`.
    """
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidArgument(
            f"expected a value of at most {VALUE_BYTES_MAX} bytes for {key!r}, got {len(value)}"
        )


def check_operations(operations: Sequence[Operation]) -> None:
    """Refuse operations with a key or a value beyond the limits."""
    for operation in operations:
        check_key(operation.key)
        if not isinstance(operation, Remove):
            check_value(operation.key, operation.value)


def older_store(where: object, former: str) -> StoreRefused:
    """The error for a store in which `former` is not as it was seen."""
    return StoreRefused(
        f"{where} is older than what this service has seen: {former!r} is not there as it was; "
        "expected that nobody puts back a backup while a service runs. Nothing is written any "
        "more: end the service, put back the newest store, and start the service again"
    )


async def require_all(backend: MetadataStorageBackend, seen: Sequence[Former]) -> None:
    """Check that the store holds what was `seen` at the ends of logs.

    Raises:
        StoreRefused: It does not, so it is an older one.
    """
    values = await backend.get_each([former.key for former in seen])
    folders = [folder_of(former.key) or former.key for former in seen]
    lasts = await backend.last_keys(folders)
    for former, value, last in zip(seen, values, lasts, strict=True):
        # A log that was forgotten goes on behind what was removed.
        if value is None and (last or "") > former.key:
            continue
        if value is None or not value.startswith(former.beginning):
            raise older_store("the store", former.key)


def check_items(items: Sequence[tuple[str, bytes]]) -> None:
    """Refuse items beyond the limits of one `create_each`."""
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
    """The prefix of all keys in the folder of `key`; None if it has no folder."""
    name = key.rpartition("/")[2]
    return key.removesuffix(name) or None


def check_page(prefix: str, after: str | None, limit: int) -> None:
    """Refuse arguments that `get_like` does not take.

    Raises:
        InvalidArgument: No key can begin with `prefix` or `after`, or `limit` is below one.
    """
    check_prefix(prefix)
    if after is not None:
        check_prefix(after)
    if limit < 1:
        raise InvalidArgument(f"expected a limit of at least 1, got {limit}")


HIGHEST_CHARACTER = chr(0x10FFFF)


def behind_folder(prefix: str, key: str, levels: int) -> str:
    """A text behind all keys of the folder `levels` below `prefix` that `key` is in."""
    names = key[len(prefix) :].split("/", levels)
    if len(names) <= levels:
        return key
    return prefix + "".join(f"{name}/" for name in names[:levels]) + HIGHEST_CHARACTER


def key_after(prefix: str) -> str | None:
    """The first text after all that starts with `prefix`; None if there is no such text."""
    kept = prefix.rstrip(HIGHEST_CHARACTER)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are not characters and cannot be stored.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
