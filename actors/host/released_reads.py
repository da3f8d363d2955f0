"""Reads of partitions that nobody hosts: each load of a log serves all that wait for it.

Who comes while a log is being loaded waits for the next load: what was durable before a read
began is in its answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors import messages as msg
from tierledger.actors.follower import Phase
from tierledger.events.errors import Overloaded, Quarantined

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tierledger.actors.calls import PartitionKey, QueryCall
    from tierledger.actors.host.partition_shell import PartitionShell

READS_MAX = 1024
"""Reads that may wait for a load; the next is answered `Overloaded` at once."""

LOADED_PAUSE_S = 0.001
"""Between two looks at whether a log has been read to its end: machines have no events."""


class _Waiting(NamedTuple):
    call: QueryCall
    reply_to: int


class ReleasedReads:
    """What one host reads for others."""

    def __init__(
        self,
        make_shell: Callable[[PartitionKey], PartitionShell],
        loads: asyncio.Semaphore,
        spawn: Callable[[Coroutine[None, None, None]], None],
        is_expected: Callable[[int], bool],
        reply: Callable[[int, object], None],
    ) -> None:
        """What a host gives.

        Args:
            make_shell: A follower of the log of a partition, which nobody is told of.
            loads: Bounds the loads of the host.
            spawn: Runs something beside the rest.
            is_expected: Whether the caller behind a number waits still.
            reply: Gives that caller its result.
        """
        self._make_shell = make_shell
        self._loads = loads
        self._spawn = spawn
        self._is_expected = is_expected
        self._reply = reply
        self._waiting: dict[PartitionKey, list[_Waiting]] = {}
        self._count = 0

    def add(self, call: QueryCall, reply_to: int) -> None:
        """Answer `call` as soon as a load of its partition has come to the log's end.

        Raises:
            Overloaded: Too many wait; nothing was queued.
        """
        if self._count >= READS_MAX:
            raise Overloaded(f"{READS_MAX} reads of released partitions wait; try again later")
        self._count += 1
        waiting = self._waiting.get(call.key)
        if waiting is not None:
            waiting.append(_Waiting(call, reply_to))
            return
        self._waiting[call.key] = [_Waiting(call, reply_to)]
        self._spawn(self._load(call.key))

    async def _load(self, key: PartitionKey) -> None:
        """Load again as long as somebody has come meanwhile, one load after the other."""
        while self._waiting[key]:
            async with self._loads:
                waiting, self._waiting[key] = self._waiting[key], []
                try:
                    if self._are_expected(waiting):
                        await self._answer(self._make_shell(key), waiting)
                except Exception as error:  # noqa: BLE001 - It is this partition's alone.
                    for one in waiting:
                        self._reply(one.reply_to, Quarantined(f"it cannot be read: {error!r}"))
                finally:
                    self._count -= len(waiting)
        del self._waiting[key]

    async def _answer(self, shell: PartitionShell, waiting: list[_Waiting]) -> None:
        loading = asyncio.ensure_future(shell.load())
        try:
            while not loading.done() or shell.machine.phase is Phase.LOADING:
                if not self._are_expected(waiting):
                    shell.feed(msg.StopArrived(None, 0))  # A store that is away is let go.
                    return
                await asyncio.sleep(LOADED_PAUSE_S)
                if loading.done():
                    loading.result()  # Or what it raised.
        finally:
            loading.cancel()
        for call, reply_to in waiting:
            shell.feed(msg.QueryArrived(reply_to, call.query, call.position_min))

    def _are_expected(self, waiting: list[_Waiting]) -> bool:
        return any(self._is_expected(one.reply_to) for one in waiting)
