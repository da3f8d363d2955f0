"""Writes whole logs into a store that has nothing of their cluster.

Rule: until the last step the coordinator's log begins with a slot that closes it. So no service
starts on the half of a store, and the step that opens it makes all of it visible. Each step
expects that slot as it was left; so of two writers the former stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from secrets import token_bytes
from typing import Self

from tierledger.events.errors import CorruptRemoteData, RejectedError
from tierledger.storage.backend import (
    AtomicConflict,
    Create,
    MetadataStorageBackend,
    Operation,
    Remove,
    Update,
)
from tierledger.storage.closed_slot import closed_slot, why_closed
from tierledger.storage.transfer.logs import COORDINATOR, BatchPiece, ClusterLogs, LogEnd, LogId

STEP_BYTES = 4 << 20
"""About how many bytes one durable step writes."""

KEYS_PER_STEP = 5000
"""Most batches of one step: PostgreSQL writes them one by one, within a statement's time."""

KEYS_PER_READ = 1000


class StoreTarget:
    """A store that is being filled."""

    def __init__(self, backend: MetadataStorageBackend, logs: ClusterLogs, mark: bytes) -> None:
        """Not called directly: see `begun`."""
        self.ends: dict[LogId, LogEnd] = {}
        """How far the logs are written, or on their way."""
        self._backend = backend
        self._logs = logs
        self._mark = mark
        self._firsts: dict[LogId, int] = {}
        self._opening: bytes | None = None
        """The first batch of the coordinator's log, which comes last."""
        self._step: list[Operation] = []
        self._size = 0
        self._in_flight: asyncio.Task[None] | None = None

    @classmethod
    async def begun(cls, backend: MetadataStorageBackend, logs: ClusterLogs, why: str) -> Self:
        """A store without anything of the cluster, closed because of `why`.

        What an interrupted attempt has left is removed.

        Raises:
            RejectedError: The store has something of the cluster.
        """
        mark = closed_slot(logs.serde, why, token_bytes(16))
        target = cls(backend, logs, mark)
        found = await backend.get(target._slot)
        if found is not None and why_closed(logs.serde, found) is not None:
            await target._change([Update(target._slot, mark, expected=found)])
            await target._clear()
            return target
        keys = logs.keys
        places = [keys.logs(), keys.states(), keys.coordinator_log(), keys.service()]
        there = [key for key in await backend.last_keys(places) if key is not None]
        if there:
            raise RejectedError(
                f"the store has cluster {logs.cluster_id!r} already ({there[0]!r}): expected a "
                "store without it"
            )
        await target._change([Create(target._slot, mark)])
        return target

    async def append(self, piece: BatchPiece) -> None:
        """Write `piece`, which continues its log; durable when `finish` returns.

        Raises:
            CorruptLog: It does not continue the log.
            RejectedError: Somebody else writes to the store.
        """
        log = piece.log
        end = self.ends.get(log) or self._logs.start(log)
        found = self._logs.followed(end, piece)
        if found.error is not None:
            raise found.error
        if piece.first != end.next_batch:
            await self._forget(log, end)
        self.ends[log] = found.end
        self._firsts.setdefault(log, piece.first)
        key = self._logs.batch_keys(log)
        for number, value in enumerate(piece.values, piece.first):
            if log == COORDINATOR and number == 0:
                self._opening = value
                continue
            self._step.append(Create(key(number), value))
            self._size += len(value)
            if self._size >= STEP_BYTES or len(self._step) >= KEYS_PER_STEP:
                await self._send()

    async def finish(self, ends: Mapping[LogId, LogEnd]) -> None:
        """Open the store, if its logs end at `ends`; durable on return.

        Raises:
            CorruptRemoteData: They do not, by what was written, or by what is read again of
                each one's end. The store stays closed.
        """
        await self._send()
        await self._settle()
        await self._look_at_ends()
        for log in self.ends.keys() | ends.keys():
            if self.ends.get(log) != ends.get(log):
                raise CorruptRemoteData(
                    f"{log} ends at {self.ends.get(log)}, expected {ends.get(log)}"
                )
        opened = (
            Remove(self._slot, expected=self._mark)
            if self._opening is None
            else Update(self._slot, self._opening, expected=self._mark)
        )
        await self._change([opened])

    async def close(self) -> None:
        """Wait for the step in flight, after an error."""
        with suppress(Exception):
            await self._settle()

    async def _look_at_ends(self) -> None:
        logs = [log for log in self.ends if log != COORDINATOR or self.ends[log].next_batch > 1]
        for at in range(0, len(logs), KEYS_PER_READ):
            some = logs[at : at + KEYS_PER_READ]
            keys = [self._logs.batch_keys(log)(self.ends[log].next_batch - 1) for log in some]
            for log, value in zip(some, await self._backend.get_each(keys), strict=True):
                if not self._logs.ends_with(self.ends[log], log, value):
                    raise CorruptRemoteData(f"{log} does not end with what was written")

    @property
    def _slot(self) -> str:
        return self._logs.keys.coordinator_batch(0)

    async def _forget(self, log: LogId, end: LogEnd) -> None:
        """Remove what is written of a log that was forgotten afterwards."""
        first, key = self._firsts.pop(log, end.next_batch), self._logs.batch_keys(log)
        await self._send()
        await self._settle()
        for at in range(first, end.next_batch, KEYS_PER_READ):
            numbers = range(at, min(at + KEYS_PER_READ, end.next_batch))
            await self._run([Remove(key(number)) for number in numbers])

    async def _clear(self) -> None:
        keys = self._logs.keys
        for prefix in (keys.logs(), keys.states(), keys.coordinator_log()):
            async for page in self._pages(prefix):
                await self._run([Remove(key) for key in page if key != self._slot])

    async def _pages(self, prefix: str) -> AsyncIterator[list[str]]:
        after: str | None = None
        while rows := await self._backend.get_like(prefix, after=after, limit=KEYS_PER_READ):
            after = rows[-1][0]
            yield [key for key, _ in rows]

    async def _send(self) -> None:
        """Begin a step with all that waits, once the step before it is durable."""
        await self._settle()
        step, self._step, self._size = self._step, [], 0
        if step:
            self._in_flight = asyncio.create_task(self._run(step))

    async def _settle(self) -> None:
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None:
            await in_flight

    async def _run(self, operations: Sequence[Operation]) -> None:
        guard = Update(self._slot, self._mark, expected=self._mark)
        await self._change([guard, *operations])

    async def _change(self, operations: Sequence[Operation]) -> None:
        try:
            await self._backend.execute_atomically(operations)
        except AtomicConflict as conflict:
            raise RejectedError(
                f"somebody else writes to the store, at {conflict.key!r}: expected that only "
                "this command does"
            ) from None
