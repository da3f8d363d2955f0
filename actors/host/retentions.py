"""What Kafka says of partitions in which a deletion is to begin, asked once for all that wait.

An answer is used for `FRESH_S`, as a broker deletes a round's segments one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from tierledger.actors.conditions import NOT_JUDGED, Conditions
from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.actors.ports import RetentionSource
from tierledger.events.commands import Command, UpdateSegment
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.storage.process_log import ProcessLog

FRESH_S = 0.25
"""For so long an answer is used again: in one round of retention, and not in the next one, for
which the log start may have risen."""

PASSED_S = 120.0
"""After so long without a question nothing waits for Kafka any more."""

PARTITIONS_MAX = 500
"""Partitions of one question."""

_log = ProcessLog("tierledger.host")


class _Fresh(NamedTuple):
    retention: ToldRetention | NotKnown
    at_s: float


class Retentions:
    """Answers of Kafka, for the leaders of one host."""

    def __init__(
        self,
        source: RetentionSource,
        conditions: Conditions,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._source = source
        self._conditions = conditions
        self._spawn = spawn
        self._told: dict[TopicIdPartition, _Fresh] = {}
        self._waiting: dict[TopicIdPartition, asyncio.Future[ToldRetention | NotKnown]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def of(self, tip: TopicIdPartition) -> ToldRetention | NotKnown:
        """What its leading broker says, or said up to `FRESH_S` ago; never raises."""
        loop = asyncio.get_running_loop()
        told = self._told.get(tip)
        if told is not None and loop.time() - told.at_s < FRESH_S:
            return told.retention
        if tip not in self._waiting:
            self._waiting[tip] = loop.create_future()
        waiting = self._waiting[tip]
        if self._asking is None:
            self._asking = self._spawn(self._ask_all())
        return await asyncio.shield(waiting)

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                tips = list(self._waiting)[:PARTITIONS_MAX]
                asked = [(tip, self._waiting.pop(tip)) for tip in tips]
                at_s = asyncio.get_running_loop().time()
                self._told = {
                    tip: told for tip, told in self._told.items() if at_s - told.at_s < FRESH_S
                }
                found = await self._ask(tips)
                self._note(tips, found)
                for (tip, waiting), retention in zip(asked, found, strict=True):
                    if isinstance(retention, ToldRetention):
                        self._told[tip] = _Fresh(retention, at_s)
                    if not waiting.done():
                        waiting.set_result(retention)
        finally:
            self._asking = None

    def _note(
        self, tips: list[TopicIdPartition], found: Sequence[ToldRetention | NotKnown]
    ) -> None:
        """Hold the condition as long as deletions wait; a broker comes back with each round."""
        loop = asyncio.get_running_loop()
        if self._ending is not None:
            self._ending.cancel()
        for tip, one in zip(tips, found, strict=True):
            if isinstance(one, NotKnown):
                self._conditions.hold(NOT_JUDGED, f"{tip}: {one.why}")
                self._ending = loop.call_later(PASSED_S, self._conditions.clear, NOT_JUDGED)
                return
        self._conditions.clear(NOT_JUDGED)

    async def _ask(self, tips: list[TopicIdPartition]) -> list[ToldRetention | NotKnown]:
        try:
            async with asyncio.timeout(ORACLE_DEADLINE_S):
                return await self._source.retentions_of(tips)
        except Exception as error:  # noqa: BLE001 - Whatever it is, it is no answer.
            _log.warning("Kafka does not say what may be deleted", error=repr(error))
            why = f"Kafka does not say what may be deleted: {error!r}"
            return [NotKnown(why)] * len(tips)


def is_judged(command: Command) -> bool:
    """Whether `command` may begin a deletion that Kafka's rules have to explain.

    A broker without a guard deletes what it wants: nothing could be kept. The deletion of a
    topic, and the end of its tiering, are somebody's will.
    """
    return (
        isinstance(command, UpdateSegment)
        and command.guarded_for not in {None, DeletionCause.TOPIC}
        and command.update.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED
    )
