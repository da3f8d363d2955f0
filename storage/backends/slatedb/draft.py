"""What a commit will leave: the store as it is, and the changes of the steps decided so far.

Pure: what has to be known of the store is named first (`Needs`), then read, then decided on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from typing_extensions import override

from tierledger.storage.backend import (
    FORMER_BYTES,
    AtomicConflict,
    CreateOutcome,
    Former,
    Operation,
    Put,
    Remove,
    conflict_of,
    folder_of,
    older_store,
)

T_co = TypeVar("T_co", covariant=True)


class Tail(NamedTuple):
    """The last key of a folder, and with what its value begins."""

    key: str = ""
    """Empty: the folder has no key."""
    beginning: bytes = b""
    """The first `FORMER_BYTES` bytes of the value."""


class Tails(dict[str, Tail]):
    """By folder: its tail. The writer knows it from its own commits, without a read."""

    def note(self, key: str, value: bytes | None) -> None:
        """Take note that `key` has `value` now; None: it was removed."""
        for folder in _folders(key):
            tail = self.get(folder)
            if tail is None or key < tail.key:
                continue
            if value is not None:
                self[folder] = Tail(key, value[:FORMER_BYTES])
            elif key == tail.key:
                del self[folder]  # Which key is the last one now, only the store knows.


def _folders(key: str) -> Iterator[str]:
    """All folders that `key` is in, the outermost first."""
    at = key.find("/")
    while at >= 0:
        yield key[: at + 1]
        at = key.find("/", at + 1)


class Needs(NamedTuple):
    """What has to be known of the store for a decision."""

    folders: frozenset[str] = frozenset()
    """Folders whose last keys have to be known."""
    keys: frozenset[str] = frozenset()
    """Keys whose values have to be known."""


class CommitDraft:
    """The state on which the next step decides, and what has to be committed."""

    def __init__(self, where: str, tails: Tails) -> None:
        """`where`: the store, for messages. `tails`: what is known; it is not changed."""
        self.where = where
        self.changes: dict[str, bytes | None] = {}
        """The commit: by key its new value; None: it is removed."""
        self._read: dict[str, bytes | None] = {}
        self._known = tails
        self.read_tails: dict[str, Tail] = {}
        """By folder: tails that were not known, or that the changes have moved."""

    def learn(self, values: Mapping[str, bytes | None], tails: Mapping[str, Tail]) -> None:
        """Take what was read from the store, in which `changes` are not yet."""
        self._read.update(values)
        self.read_tails.update(tails)
        self._note(self.changes)

    def value(self, key: str) -> bytes | None:
        return self.changes[key] if key in self.changes else self._read[key]

    def knows(self, key: str) -> bool:
        return key in self.changes or key in self._read

    def tail(self, folder: str) -> Tail | None:
        """The tail of `folder`; None if it is not known yet."""
        return self.read_tails.get(folder) or self._known.get(folder)

    def take(self, changes: Mapping[str, bytes | None]) -> None:
        """Add the changes of a step that succeeds."""
        self.changes.update(changes)
        self._note(changes)

    def _note(self, changes: Mapping[str, bytes | None]) -> None:
        for key, value in changes.items():
            for folder in _folders(key) if value is not None else ():
                tail = self.tail(folder)
                if tail is not None and key >= tail.key:
                    self.read_tails[folder] = Tail(key, (value or b"")[:FORMER_BYTES])


class PendingStep(Protocol[T_co]):
    """One call that changes the store, before it is known what it finds there."""

    size: int
    """Bytes that it may write."""
    ends_commit: bool
    """Whether no later step may be decided in the same commit."""

    def needs(self, draft: CommitDraft) -> Needs:
        """What `decide` needs that is not known yet; asked again until it is nothing."""
        ...

    def decide(self, draft: CommitDraft) -> T_co:
        """The call's answer, with its changes taken by `draft`; an error: none are."""
        ...


class AtomicStep(PendingStep[None]):
    """`execute_atomically`."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self.size = sum(len(one.value) for one in operations if not isinstance(one, Remove))
        # The tail of a folder is not known once its last key was removed.
        self.ends_commit = any(isinstance(one, Remove) for one in operations)

    @override
    def needs(self, draft: CommitDraft) -> Needs:
        keys = {one.key for one in self._operations if _depends(one)}
        return Needs(keys=frozenset(key for key in keys if not draft.knows(key)))

    @override
    def decide(self, draft: CommitDraft) -> None:
        changes: dict[str, bytes | None] = {}
        for one in self._operations:
            if one.key in changes:
                present = changes[one.key]
            else:
                present = draft.value(one.key) if _depends(one) else None
            why = conflict_of(one, present)
            if why is not None:
                raise AtomicConflict(one.key, why)
            changes[one.key] = None if isinstance(one, Remove) else one.value
        draft.take(changes)


def _depends(operation: Operation) -> bool:
    """Whether the outcome of `operation` depends on what is under its key."""
    return not isinstance(operation, Put) and operation != Remove(operation.key)


class EachStep(PendingStep[list[CreateOutcome]]):
    """`create_each`."""

    ends_commit = False

    def __init__(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former]
    ) -> None:
        self._items = items
        self._formers = formers
        self.size = sum(len(value) for _, value in items)

    @override
    def needs(self, draft: CommitDraft) -> Needs:
        folders = {folder_of(key) for key, _ in self._items} - {None}
        unknown = frozenset(one for one in folders if one and draft.tail(one) is None)
        if unknown:
            return Needs(folders=unknown)  # The keys depend on them.
        keys = {*self._keys_in_doubt(draft), *self._formers_in_doubt(draft)}
        return Needs(keys=frozenset(key for key in keys if not draft.knows(key)))

    def _keys_in_doubt(self, draft: CommitDraft) -> Iterable[str]:
        """Keys whose presence does not follow from the tail of their folder."""
        for key, _ in self._items:
            folder = folder_of(key)
            if folder is None or key < _known(draft, folder).key:
                yield key

    def _formers_in_doubt(self, draft: CommitDraft) -> Iterable[str]:
        """Keys of formers that are neither tails nor among the step's own items."""
        own = {key for key, _ in self._items}
        for former in self._formers.values():
            folder = folder_of(former.key)
            tail = None if folder is None else draft.tail(folder)
            is_tail = tail is not None and tail.key == former.key
            if not (_is_short(former) and (is_tail or former.key in own)):
                yield former.key

    @override
    def decide(self, draft: CommitDraft) -> list[CreateOutcome]:
        created: dict[str, bytes | None] = {}
        outcomes: dict[int, CreateOutcome] = {}
        # Sorting is stable: of two items with one key, the first is created.
        for at in sorted(range(len(self._items)), key=lambda at: self._items[at][0]):
            key, value = self._items[at]
            outcomes[at] = self._outcome(draft, key, created)
            if outcomes[at] is CreateOutcome.CREATED:
                created[key] = value
        for key in created:
            if key in self._formers:
                _require(draft, self._formers[key], created)
        draft.take(created)
        return [outcomes[at] for at in range(len(self._items))]

    @staticmethod
    def _outcome(
        draft: CommitDraft, key: str, created: Mapping[str, bytes | None]
    ) -> CreateOutcome:
        folder = folder_of(key)
        last = "" if folder is None else _known(draft, folder).key
        if key in created or key == last:
            return CreateOutcome.EXISTS
        if folder is not None and key > last:
            return CreateOutcome.CREATED
        if draft.value(key) is not None:
            return CreateOutcome.EXISTS
        return CreateOutcome.CREATED if folder is None else CreateOutcome.PASSED


def _known(draft: CommitDraft, folder: str) -> Tail:
    tail = draft.tail(folder)
    assert tail is not None, "it was read, as `needs` said"
    return tail


def _is_short(former: Former) -> bool:
    return len(former.beginning) <= FORMER_BYTES


def _require(draft: CommitDraft, former: Former, created: Mapping[str, bytes | None]) -> None:
    """Check that `former` is there.

    Raises:
        StoreRefused: It is not.
    """
    folder = folder_of(former.key)
    tail = None if folder is None else draft.tail(folder)
    if former.key in created:
        value = created[former.key]
    elif tail is not None and tail.key == former.key and _is_short(former):
        value = tail.beginning
    else:
        value = draft.value(former.key)
    if value is None or not value.startswith(former.beginning):
        raise older_store(draft.where, former.key)
