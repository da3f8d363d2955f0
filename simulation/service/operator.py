"""An operator of the service: holds, what is kept, and processes that are to be replaced.

As the commands do: each request over a connection of its own, and repeated until it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.purge_requests import ReleaseKept
from tierledger.actors.coordinator.replacing import (
    Replacement,
    ReplacementStep,
    ReplaceProcess,
)
from tierledger.actors.coordinator.requests import StatusCall
from tierledger.actors.holds import Hold
from tierledger.events.errors import RejectedError, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.service.brokers import Connecting
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.virtual_loop import VirtualProcess

AGAIN_S = 0.3
"""Pause (s) before a request is repeated that failed, or named partitions that are late."""

WHO = "operator"


@dataclass
class HoldNote:
    """A hold that was asked for, and what became of it."""

    hold: Hold
    told: dict[PartitionKey, int] = field(default_factory=dict)
    """Since when (ns) the operator knows that it is in force, by partition."""
    released: int | None = None
    """When (ns) the operator first asked for its release."""


@dataclass
class ReplacementNote:
    """A host whose process was to be replaced, and when (ns)."""

    host: str
    since: int
    until: int | None = None


class Operator:
    """One who gives the service's commands."""

    def __init__(
        self, world: Stage, connect: Connecting, replacing: Callable[[str], None]
    ) -> None:
        """`replacing` is told the process that is to be replaced, though it is well."""
        self.life = VirtualProcess(WHO, len(world.lives))
        self.holds: dict[str, HoldNote] = {}
        """By name; none is given twice."""
        self.replacements: list[ReplacementNote] = []
        self.asked: dict[bytes, int] = {}
        """When (ns) it first asked for the release of a kept segment."""
        self._world, self._connect, self._replacing = world, connect, replacing
        world.begins(self.life)

    def place(self, hold: Hold) -> None:
        """Place a hold, until every leader goes by it."""
        if hold.name not in self.holds:
            note = self.holds[hold.name] = HoldNote(hold)
            self._world.loop.spawn(self.life, self._place(note))

    def release(self, name: str) -> None:
        """Release a hold, if it was asked for."""
        note = self.holds.get(name)
        if note is not None and note.released is None:
            note.released = self._world.now_ns()
            wish = ReleaseHold(name, WHO, "it is over")
            self._world.loop.spawn(self.life, self._until_done(lambda: wish))
            self._world.recording.mark("hold released")

    def release_kept(self, tip: TopicIdPartition, found: Callable[[], Iterable[bytes]]) -> None:
        """Let go of the segments that `found` finds kept until somebody says so."""

        def wish() -> ReleaseKept | None:
            ids = tuple(found())
            for one in ids:
                self.asked.setdefault(one, self._world.now_ns())
            return ReleaseKept(tip, ids, WHO, "nobody needs it") if ids else None

        self._world.loop.spawn(self.life, self._until_done(wish))

    def replace(self, host: str) -> None:
        """Have the process of a host replaced, as `restart` does."""
        self._world.loop.spawn(self.life, self._replace(host))

    async def _replace(self, host: str) -> None:
        status = await self._answer(StatusCall())
        if not isinstance(status, dict) or host not in status["hosts"]:
            return
        process = status["hosts"][host]
        self._replacing(process)
        note = ReplacementNote(host, self._world.now_ns())
        self.replacements.append(note)
        while (told := await self._answer(ReplaceProcess(host, process))) is not None:
            step = told.step if isinstance(told, Replacement) else None
            if step is ReplacementStep.MOVING:
                self._world.recording.mark("host relieved")
            if step is ReplacementStep.DONE:
                self._world.recording.mark("host's process replaced")
                break
            await asyncio.sleep(AGAIN_S)
        note.until = self._world.now_ns()

    def may_be_relieved(self, host: str, time: int) -> bool:
        """Whether the process of a host was to be replaced at a time (ns)."""
        return any(
            one.host == host and one.since <= time and (one.until is None or time <= one.until)
            for one in self.replacements
        )

    async def _place(self, note: HoldNote) -> None:
        while note.released is None:
            late = await self._answer(PlaceHold(note.hold))
            if isinstance(late, list):
                self._world.recording.mark("hold placed")
                for key in {*self._world.keys_of} - {*late}:
                    note.told.setdefault(key, self._world.now_ns())
                if not late:
                    return
                self._world.recording.mark("hold that some hosts do not know yet")
            await asyncio.sleep(AGAIN_S)

    async def _until_done(self, wish: Callable[[], Any]) -> None:
        while (request := wish()) is not None:
            if not isinstance(await self._answer(request), RemoteStorageError):
                return
            await asyncio.sleep(AGAIN_S)

    async def _answer(self, request: Any) -> Any:  # noqa: ANN401 - Any request and its answer.
        """The answer; an error if it may have to be repeated, None if that is of no use."""
        connection = None
        try:
            connection = await self._connect(self._world.settings)
            return await connection.coordinator.ask(request)
        except RejectedError:
            return None
        except RemoteStorageError as error:
            return error
        finally:
            if connection is not None:
                with suppress(RemoteStorageError):
                    await connection.close()
