"""Every backend answers every sequence of calls as the store in memory does."""

import asyncio
import tempfile
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from tierledger.events.errors import RejectedError
from tierledger.storage.backend import (
    Create,
    MetadataStorageBackend,
    Operation,
    Put,
    Remove,
    Update,
)
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.backends.slatedb.backend import SlateDbBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.locate import parse_store_url

T = TypeVar("T")
Answer = tuple[str, object]
Call = Callable[[MetadataStorageBackend], Awaitable[object]]

# Few, so that they collide; with what sorts or matches oddly.
KEYS = st.sampled_from(
    ["a", "a/", "a/1", "a/1/0", "a/10", "a0", "a%", "a_", "b", "é", "\U0001f4be"]
)
PREFIXES = st.sampled_from(["", "a", "a/", "a/1", "a%", "a_", "A", "é", "c", "\U0010ffff"])
VALUES = st.sampled_from([b"", b"0", b"1", b"\x00\xff"])
EXPECTED = st.none() | VALUES
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, KEYS, VALUES),
    st.builds(Update, KEYS, VALUES, EXPECTED),
    st.builds(Put, KEYS, VALUES),
    st.builds(Remove, KEYS, EXPECTED),
)


async def answer_of(call: Awaitable[object]) -> Answer:
    try:
        return "returned", await call
    except RejectedError as error:
        return type(error).__name__, error.args


class LikeMemory(RuleBasedStateMachine):
    """A store next to the model; both are asked the same."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.model = MemoryBackend()
        self.store = self.loop.run(self.open())
        self.unchecked = False

    @abstractmethod
    async def open(self) -> MetadataStorageBackend:
        """The store, as it was left."""

    @override
    def teardown(self) -> None:
        self.loop.run(self.store.close())
        self.loop.close()

    def both(self, call: Call) -> None:
        expected = self.loop.run(answer_of(call(self.model)))
        assert self.loop.run(answer_of(call(self.store))) == expected

    def change(self, call: Call) -> None:
        self.both(call)
        self.unchecked = True

    @rule(key=KEYS, value=VALUES)
    def create(self, key: str, value: bytes) -> None:
        self.change(lambda backend: backend.create(key, value))

    @rule(key=KEYS, value=VALUES, expected=EXPECTED)
    def update(self, key: str, value: bytes, expected: bytes | None) -> None:
        self.change(lambda backend: backend.update(key, value, expected=expected))

    @rule(items=st.lists(st.tuples(KEYS, VALUES), max_size=6))
    def create_each(self, items: list[tuple[str, bytes]]) -> None:
        self.change(lambda backend: backend.create_each(items))

    @rule(operations=st.lists(OPERATIONS, max_size=5))
    def execute_atomically(self, operations: list[Operation]) -> None:
        self.change(lambda backend: backend.execute_atomically(operations))

    @rule(prefix=PREFIXES)
    def remove_like(self, prefix: str) -> None:
        self.change(lambda backend: backend.remove_like(prefix))

    @rule(keys=st.lists(KEYS, max_size=5))
    def get_each(self, keys: list[str]) -> None:
        self.both(lambda backend: backend.get_each(keys))

    @rule(prefixes=st.lists(PREFIXES, max_size=3))
    def last_keys(self, prefixes: list[str]) -> None:
        self.both(lambda backend: backend.last_keys(prefixes))

    @rule(prefix=PREFIXES, after=st.none() | KEYS | PREFIXES, limit=st.integers(-1, 4))
    def get_like(self, prefix: str, after: str | None, limit: int) -> None:
        self.both(lambda backend: backend.get_like(prefix, after=after, limit=limit))

    @rule(
        prefix=PREFIXES,
        levels=st.integers(0, 2),
        after=st.none() | KEYS | PREFIXES,
        limit=st.integers(-1, 4),
    )
    def get_firsts(self, prefix: str, levels: int, after: str | None, limit: int) -> None:
        self.both(lambda backend: backend.get_firsts(prefix, levels, after=after, limit=limit))

    @rule()
    def reopen(self) -> None:
        self.loop.run(self.store.close())
        self.store = self.loop.run(self.open())

    @precondition(lambda self: self.unchecked)
    @invariant()
    def both_hold_the_same(self) -> None:
        self.both(lambda backend: backend.get_like(""))
        self.unchecked = False


class SqliteLikeMemory(LikeMemory):
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().__init__()

    @override
    async def open(self) -> MetadataStorageBackend:
        return await SqliteBackend.open(Path(self.folder.name) / "store.sqlite")

    @override
    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class SlateDbLikeMemory(LikeMemory):
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().__init__()

    @override
    async def open(self) -> MetadataStorageBackend:
        url = parse_store_url(f"slatedb:file:{self.folder.name}/store")
        return await SlateDbBackend.open(url)

    @override
    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class PostgresLikeMemory(LikeMemory):
    def __init__(self, url: str) -> None:
        self.url = parse_store_url(url)
        super().__init__()

    @override
    async def open(self) -> MetadataStorageBackend:
        return await PostgresBackend.open(self.url)

    @override
    def teardown(self) -> None:
        # The next example finds an empty store.
        self.loop.run(self.store.remove_like(""))
        super().teardown()


TestSqliteLikeMemory = SqliteLikeMemory.TestCase
TestSqliteLikeMemory.settings = settings(stateful_step_count=30)

FEW = settings.default.max_examples // 3 if settings.default else 10
"""Examples for a store that is slower."""

TestSlateDbLikeMemory = SlateDbLikeMemory.TestCase
TestSlateDbLikeMemory.settings = settings(stateful_step_count=30, max_examples=FEW)


def test_postgresql_like_memory(postgres_url: str) -> None:
    class OnThisServer(PostgresLikeMemory):
        def __init__(self) -> None:
            super().__init__(postgres_url)

    run_state_machine_as_test(
        OnThisServer, settings=settings(stateful_step_count=30, max_examples=FEW)
    )
