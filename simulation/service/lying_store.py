"""The storage backend of the simulated processes: a medium with injected faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from typing_extensions import override

from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.environment.medium import (
    LATE,
    LOSE,
    LOSE_ANSWER,
    REFUSE,
    SLOW,
    TIMEOUT,
    TWICE,
    Medium,
    completed,
)
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.service.plan import StorePlan
from tierledger.simulation.service.virtual_loop import VirtualLoop, VirtualProcess
from tierledger.storage.backend import (
    NO_FORMERS,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
)

T = TypeVar("T")

FATES = (*3 * [REFUSE], LOSE, *2 * [LOSE_ANSWER], *2 * [LATE], *2 * [TWICE])
"""Faults of a write, each drawn as often as it is listed; a read can only be refused."""

LATE_MAX = 3000 * MS
"""Most microseconds that a late write lands after its sender's timeout, and that an atomic
step is delayed."""


class LyingStore:
    """The store that all processes share. It injects faults until `heal` is called."""

    def __init__(
        self,
        loop: VirtualLoop,
        medium: Medium,
        random: Random,
        plan: StorePlan,
        recording: Recording,
    ) -> None:
        self.loop = loop
        self.medium = medium
        self.recording = recording
        self.plan = plan
        self.created_at: dict[str, int] = {}
        """When each key was created (virtual ns)."""
        self._draw = random.random

    def heal(self) -> None:
        self.plan = self.plan.healed()
        self.medium.heal()

    def mistreat(self, process: VirtualProcess, *, writes: bool) -> None:
        """With the plan's chance, arm a fault for the next request of `process`."""
        if self._draw() < self.plan.fault_chance:
            fate = FATES[int(self._draw() * len(FATES))] if writes else REFUSE
            late = TIMEOUT + int(LATE_MAX * self._draw()) if fate == LATE else MS
            self.medium.arm(process.site, fate, late, of_writes=writes)

    def slow_down(self, process: VirtualProcess) -> None:
        """With the plan's chance, delay the next atomic step, such as a checkpoint's."""
        if self._draw() < self.plan.slow_step_chance:
            late = int(LATE_MAX * self._draw())
            self.medium.arm(process.site, SLOW, late, of_writes=True)


class StoreConnection(MetadataStorageBackend):
    """One process's connection to the store."""

    def __init__(self, store: LyingStore, process: VirtualProcess) -> None:
        self._store = store
        self._process = process

    async def _ask(self, ask: Callable[..., None], what: object, *, writes: bool) -> Any:  # noqa: ANN401
        store = self._store
        store.mistreat(self._process, writes=writes)
        answer: asyncio.Future[Any] = store.loop.create_future()
        ask(self._process, what, _settle, answer)
        return await answer

    async def _read(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        ask = self._store.medium.ask_state
        result: T = await self._ask(ask, lambda: completed(work()), writes=False)
        return result

    async def _write(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        ask = self._store.medium.change_state
        result: T = await self._ask(ask, lambda: completed(work()), writes=True)
        return result

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._read(partial(self._store.medium.backend.get_each, keys))

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        get_like = self._store.medium.backend.get_like
        return await self._read(partial(get_like, prefix, after=after, limit=limit))

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._read(partial(self._store.medium.backend.last_keys, prefixes))

    @override
    async def remove_like(self, prefix: str) -> int:
        return await self._write(partial(self._store.medium.backend.remove_like, prefix))

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        self._store.slow_down(self._process)
        await self._ask(self._store.medium.write_state, operations, writes=True)

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        return await self._write(partial(self._create_each, items, formers))

    async def _create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former]
    ) -> list[CreateOutcome]:
        store, medium = self._store, self._store.medium
        outcomes = await medium.backend.create_each(items, formers)
        for (key, _), outcome in zip(items, outcomes, strict=True):
            store.recording.event("create", self._process.name, key, outcome.value)
            if outcome is CreateOutcome.CREATED:
                store.created_at[key] = store.loop.clock.now * 1000
        if medium.on_created is not None and CreateOutcome.CREATED in outcomes:
            medium.on_created(self._process)
        return outcomes

    @override
    async def close(self) -> None:
        """Does nothing: other processes still use the store."""


def _settle(result: object, answer: asyncio.Future[Any]) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
