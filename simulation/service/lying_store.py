"""The storage backend of the simulated processes, over a medium that has faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from tierledger.events.errors import OutcomeUnknown
from tierledger.simulation.machines.environment.medium import Medium, StoreStep
from tierledger.simulation.machines.environment.recording import Message, Recording
from tierledger.simulation.service.virtual_loop import VirtualLoop, VirtualProcess
from tierledger.storage.backend import (
    NO_FORMERS,
    Create,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
    WriterReplaced,
)
from tierledger.storage.backends.memory import MemoryBackend

T = TypeVar("T")

APPEND, READ, LOADED, CHECKPOINTED, COORDINATED = (
    "append",
    "read",
    "loaded",
    "checkpointed",
    "coordinated",
)
"""Points at which a process may meet a fault; a world knows one more, "durable"."""


FENCED = "former writer lives on"

REPLACED = "another process has opened the store for writing"

NOTICED_S = 2.5
"""How long after it was replaced a writer that does nothing learns of it."""


class StorePlace(NamedTuple):
    """What the keys with one prefix hold, for the picture."""

    text: str
    partition: int | None
    of_batches: bool
    """Whether the rest of each key is a batch's number."""


class LyingStore:
    """The store that all processes share; its medium lies as the scenario says."""

    def __init__(
        self,
        loop: VirtualLoop,
        medium: Medium,
        recording: Recording,
        passes: Callable[[str, VirtualProcess], None],
    ) -> None:
        """`passes` is told which process has come to which point."""
        self.loop = loop
        self.medium = medium
        self.recording = recording
        self.passes = passes
        self.logs: dict[str, int] = {}
        """By the prefix of a log its partition; see `Slot`."""
        self.places: dict[str, StorePlace] = {}
        """By their prefix, what keys hold."""
        self.created_at: dict[str, int] = {}
        """When each key was created (virtual ns)."""
        self.unled: set[str] = set()
        """Batches of logs that nobody led; their writers knew all that was stored before."""
        self._intact: dict[str, bytes | None] = {}
        """By a key that was damaged, the value that was written there; None: none was."""

    def step(self, work: partial[Coroutine[Any, Any, Any]], keys: Sequence[str]) -> StoreStep:
        """A request about `keys`, or about what begins with them; see `StorePlace`."""
        named = [self._text(key) for key in keys] if self.recording.keeps else []
        partitions = {partition for _, partition in named}
        what = work.func.__name__.strip("_").replace("_", " ")
        about = ", ".join(dict.fromkeys(text for text, _ in named))
        partition = partitions.pop() if len(partitions) == 1 else None
        return StoreStep(work, Message(what, [about], partition))

    def is_batch(self, key: str) -> bool:
        """Whether a batch of a log, now that a step is done, is at that key."""
        return f"{key.rpartition('/')[0]}/" in self.logs and key in self.medium.state

    def _text(self, key: str) -> tuple[str, int | None]:
        for prefix, place in self.places.items():
            if key.startswith(prefix):
                text, batch = place.text, key[len(prefix) :]
                if place.of_batches:
                    text += f" batch {int(batch)}" if batch else " log"
                return text, place.partition
        return key, None

    def damage(self, key: str, value: bytes) -> None:
        """Let readers get `value` at `key`, whatever was written there."""
        self._intact.setdefault(key, self.medium.state.get(key))
        self.medium.state[key] = value

    def written(self, prefix: str) -> dict[str, bytes]:
        """The values that were written at keys with `prefix`, also if damaged since."""
        state = self.medium.state
        keys = state.irange(prefix, prefix + "\uffff")
        found = ((key, self._intact.get(key, state[key])) for key in keys)
        return {key: value for key, value in found if value is not None}


class StoreConnection(MetadataStorageBackend):
    """One process's connection to the store."""

    def __init__(self, store: LyingStore, process: VirtualProcess) -> None:
        self._store = store
        self._process = process
        self._backend = MemoryBackend(store.medium.state)
        """Its own one: if the store looks older than it was, this process refuses it."""
        self._fenced = asyncio.Event()
        self._seen: MemoryBackend | None = None
        """What this process goes on seeing, once another one has opened the store to write."""
        self._knows = False
        """Whether it knows that."""

    def fence(self) -> None:
        """Another process opens the store for writing: from now on this one changes nothing."""
        if not self._process.is_dead and not self._fenced.is_set():
            self._store.recording.mark(FENCED)
        self._seen = MemoryBackend(self._store.medium.state.copy())
        self._fenced.set()

    async def _unless_fenced(self, work: partial[Coroutine[Any, Any, T]], *, writes: bool) -> T:
        if not self._fenced.is_set():
            return await work()
        if writes:  # It was sent, so its writer cannot know.
            self._knows = True
            raise OutcomeUnknown("another process has opened the store, while committing")
        raise WriterReplaced(REPLACED)

    @property
    def _is_host(self) -> bool:
        return self._process.site != "coordinator"

    async def _ask(
        self,
        work: partial[Coroutine[Any, Any, Any]],
        keys: Sequence[str],
        *,
        writes: bool,
        conflict: object = None,
    ) -> Any:  # noqa: ANN401
        if writes and self._knows:
            raise WriterReplaced(REPLACED)
        answer: asyncio.Future[Any] = self._store.loop.create_future()
        if not self._process.is_dead:
            step, medium = self._store.step(work, keys), self._store.medium
            step = step._replace(work=partial(self._unless_fenced, work, writes=writes))
            medium.ask(self._process, step, _settle, answer, writes=writes, conflict=conflict)
        return await answer

    async def _passes(self, point: str) -> None:
        """Let a fault strike at `point`; what it kills goes no further."""
        self._store.passes(point, self._process)
        if self._process.is_dead:
            await self._store.loop.create_future()

    async def _read(self, work: partial[Coroutine[Any, Any, T]], keys: Sequence[str]) -> T:
        result: T = await self._ask(work, keys, writes=False)
        return result

    async def _write(
        self,
        work: partial[Coroutine[Any, Any, T]],
        keys: Sequence[str],
        conflict: object = None,
    ) -> T:
        result: T = await self._ask(work, keys, writes=True, conflict=conflict)
        return result

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._read(partial(self._backend.get_each, keys), keys)

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        get_like = self._backend.get_like
        page = await self._read(
            partial(get_like, prefix, after=after, limit=limit),
            [prefix, after] if after else [prefix],
        )
        if self._is_host and page:
            await self._passes(READ)
            if len(page) < limit:
                await self._passes(LOADED)
        return page

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        firsts = partial(self._backend.get_firsts, prefix, levels, after=after, limit=limit)
        return await self._read(firsts, [prefix, after] if after else [prefix])

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._read(partial(self._backend.last_keys, prefixes), prefixes)

    @override
    async def last_keys_seen(self, prefixes: Sequence[str]) -> list[str | None]:
        if self._seen is not None:
            return await self._seen.last_keys(prefixes)
        return await self.last_keys(prefixes)

    @override
    async def is_replaced(self) -> bool:
        await self._fenced.wait()
        await asyncio.sleep(NOTICED_S)
        self._knows = True
        return True

    @override
    async def remove_like(self, prefix: str) -> int:
        return await self._write(partial(self._backend.remove_like, prefix), [prefix])

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        write = partial(self._execute, operations)
        await self._write(write, [one.key for one in operations])
        if self._is_host:
            await self._passes(CHECKPOINTED)

    async def _execute(self, operations: Sequence[Operation]) -> None:
        store = self._store
        await store.medium.write_checkpoint(operations)
        for one in operations:
            if isinstance(one, Create) and store.is_batch(one.key):
                store.created_at[one.key] = store.loop.clock.now * 1000
                store.unled.add(one.key)
                store.recording.mark("purge of a partition that nobody leads")
                store.recording.event("create", self._process.name, one.key, "atomically")

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        if self._is_host:
            await self._passes(APPEND)
        exist = [CreateOutcome.EXISTS] * len(items)
        if len({key.rpartition("/")[0] for key, _ in items}) > 1:
            self._store.recording.mark("several partitions in one commit")
        try:
            create = partial(self._create_each, items, formers)
            outcomes = await self._write(create, [key for key, _ in items], exist)
        except OutcomeUnknown:
            if not self._is_host:
                self._store.recording.mark("coordinator's append in doubt")
            raise
        if not self._is_host and CreateOutcome.EXISTS in outcomes:
            self._store.recording.mark("coordinator lost a race for its log")
        if not self._is_host and CreateOutcome.CREATED in outcomes:
            await self._passes(COORDINATED)
        return outcomes

    async def _create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former]
    ) -> list[CreateOutcome]:
        store, medium = self._store, self._store.medium
        outcomes = await self._backend.create_each(items, formers)
        for (key, value), outcome in zip(items, outcomes, strict=True):
            store.recording.event("create", self._process.name, key, outcome.value)
            if outcome is CreateOutcome.CREATED:
                store.created_at[key] = store.loop.clock.now * 1000
            self._note(key, value, is_free=outcome is CreateOutcome.CREATED)
        if medium.on_created is not None and CreateOutcome.CREATED in outcomes:
            medium.on_created(self._process)
        return outcomes

    def _note(self, key: str, value: bytes, *, is_free: bool) -> None:
        """Note a batch that was appended, or that found its slot taken, for the picture."""
        prefix, _, batch = key.rpartition("/")
        partition = self._store.logs.get(f"{prefix}/")
        medium, recording = self._store.medium, self._store.recording
        if partition is None or not recording.keeps:
            return
        slot, named = (partition, int(batch)), None if partition < 0 else partition
        if is_free:
            medium.truth[slot], medium.heads[partition] = value, slot[1] + 1
            medium.durable_at[slot] = self._store.loop.clock.now
        what = "append" if is_free else "append refused"
        recording.moment(self._process.name, what, f"batch {slot[1]}", None, named)

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
