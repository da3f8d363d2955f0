"""The storage backend as a medium that can lie in every way a real one was seen to.

A request travels, is applied at one instant, and its answer travels back. On the way it can be
refused, lost, applied with the answer lost, applied long after its sender was told that nobody
knows, or sent twice by a driver whose second attempt finds the first one's value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from sortedcontainers import SortedDict
from typing_extensions import override

from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StorageUnavailable
from tierledger.simulation.machines.medium import completed
from tierledger.simulation.service.network import NOBODY
from tierledger.simulation.service.plan import StorePlan
from tierledger.simulation.service.trace import Trace
from tierledger.simulation.service.virtual_loop import Process, VirtualLoop
from tierledger.storage.backend import CreateOutcome, MetadataStorageBackend, Operation
from tierledger.storage.backends.memory import MemoryBackend

T = TypeVar("T")


class LyingStore:
    """What all processes share. `heal` makes it an honest one."""

    def __init__(
        self, loop: VirtualLoop, random: Random, plan: StorePlan, trace: Trace
    ) -> None:
        self.loop = loop
        self.trace = trace
        self.plan = plan
        self.values: SortedDict[str, bytes] = SortedDict()
        self.medium = MemoryBackend(self.values)
        self.created_at: dict[str, int] = {}
        """When each key was first there (ns)."""
        self.away_until = 0.0
        self.on_create: Callable[[Process], None] | None = None
        """Told that a process's creation is durable, before the process hears of it."""
        self._draw = random.random

    def heal(self) -> None:
        self.plan = self.plan.healed()
        self.away_until = 0.0

    def draw(self) -> float:
        return self._draw()

    def delay(self) -> float:
        drawn = self._draw()
        if drawn < self.plan.straggler_chance:
            return self.plan.straggler_s * self._draw()
        return self.plan.delay_s * (0.2 + drawn)

    def backend(self, process: Process) -> StoreConnection:
        """The store as `process` sees it."""
        return StoreConnection(self, process)


class StoreConnection(MetadataStorageBackend):
    """One process's way to the store."""

    def __init__(self, store: LyingStore, process: Process) -> None:
        self._store = store
        self._process = process

    async def _ask(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        writes: bool,
        slowly: float = 0.0,
    ) -> T:
        store = self._store
        loop, plan = store.loop, store.plan
        answer: asyncio.Future[T] = loop.create_future()
        fate = store.draw() / plan.fault_chance if plan.fault_chance else 1.0
        if loop.time() < store.away_until:
            fate = 0.0

        def apply(tell: Callable[[T | None, RemoteStorageError | None], None] | None) -> None:
            result, error = None, None
            try:
                result = completed(work())
            except RemoteStorageError as raised:
                error = raised
            if tell is not None:
                loop.call_later(store.delay(), tell, result, error, context=NOBODY)

        def tell(result: T | None, error: RemoteStorageError | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def lose(error: RemoteStorageError) -> None:
            loop.call_later(plan.timeout_s, tell, None, error, context=NOBODY)

        if fate >= 1.0:
            loop.call_later(slowly + store.delay(), apply, tell, context=NOBODY)
        elif fate < 0.3 or not writes:
            store.trace.mark("store refused")
            refused = StorageUnavailable("the store is away")
            loop.call_later(store.delay(), tell, None, refused, context=NOBODY)
        else:
            self._mistreat(fate, apply, tell, lose)
        return await answer

    def _mistreat(
        self,
        fate: float,
        apply: Callable[[Any], None],
        tell: Callable[[Any, Any], None],
        lose: Callable[[RemoteStorageError], None],
    ) -> None:
        """What else can become of a write."""
        store = self._store
        loop, plan = store.loop, store.plan
        unknown = OutcomeUnknown("the store did not answer")
        if fate < 0.4:
            store.trace.mark("write lost")
            lose(unknown)
        elif fate < 0.6:
            store.trace.mark("answer of a write lost")
            loop.call_later(store.delay(), apply, None, context=NOBODY)
            lose(unknown)
        elif fate < 0.8:
            store.trace.mark("write lands late")
            late = plan.timeout_s + plan.late_s * store.draw()
            loop.call_later(late, apply, None, context=NOBODY)
            lose(unknown)
        else:
            store.trace.mark("write sent twice")
            first = store.delay()
            loop.call_later(first, apply, None, context=NOBODY)
            loop.call_later(first + store.delay(), apply, tell, context=NOBODY)

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._ask(lambda: self._store.medium.get_each(keys), writes=False)

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        return await self._ask(
            lambda: self._store.medium.get_like(prefix, after=after, limit=limit), writes=False
        )

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._ask(lambda: self._store.medium.last_keys(prefixes), writes=False)

    @override
    async def remove_like(self, prefix: str) -> int:
        return await self._ask(lambda: self._store.medium.remove_like(prefix), writes=True)

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        def apply() -> Coroutine[Any, Any, None]:
            self._store.trace.event("atomic step", self._process.name, operations[0].key)
            return self._store.medium.execute_atomically(operations)

        plan, slowly = self._store.plan, 0.0
        if plan.slow_step_chance and self._store.draw() < plan.slow_step_chance:
            slowly = plan.late_s * self._store.draw()
        await self._ask(apply, writes=True, slowly=slowly)

    @override
    async def create_each(self, items: Sequence[tuple[str, bytes]]) -> list[CreateOutcome]:
        return await self._ask(lambda: self._create_each(items), writes=True)

    async def _create_each(self, items: Sequence[tuple[str, bytes]]) -> list[CreateOutcome]:
        store = self._store
        outcomes = await store.medium.create_each(items)
        now = round(store.loop.time() * 1e9)
        for (key, _), outcome in zip(items, outcomes, strict=True):
            store.trace.event("create", self._process.name, key, outcome.value)
            if outcome is CreateOutcome.CREATED:
                store.created_at[key] = now
        if store.on_create is not None and CreateOutcome.CREATED in outcomes:
            store.on_create(self._process)
        return outcomes

    @override
    async def close(self) -> None:
        """The store is everybody's."""
