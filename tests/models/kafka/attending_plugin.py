"""A broker's plugin as the service sees it: it reports its state, and follows the owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_bytes
from typing import TYPE_CHECKING

from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner, Registered
from tierledger.actors.coordinator.ownership import Ownership, PluginMode
from tierledger.actors.coordinator.requests import RegisterCall

if TYPE_CHECKING:
    from tierledger.actors.connection import CoordinatorHandle

ATTEND_S = 0.1


class AttendingPlugin:
    """A plugin without writes. During a move it reports that it is idle, unless `is_busy`."""

    def __init__(
        self, coordinator: CoordinatorHandle, broker_id: int, mode: PluginMode
    ) -> None:
        self.ownership = Ownership()
        self.followed: list[Ownership] = []
        """Each ownership that this plugin has followed, in order."""
        self.is_busy = False
        self._coordinator = coordinator
        self._broker_id = broker_id
        self._mode = mode

    async def run(self) -> None:
        """Register, then report every `ATTEND_S` until cancelled."""
        request, given = token_bytes(8), Registered(0, is_given=False)
        while not given.is_given:
            given = await self._coordinator.ask(
                RegisterCall(self._broker_id, request, given.incarnation, self._mode)
            )
        while True:
            is_idle = self.ownership.owner == Owner.MOVING and not self.is_busy
            report = Attend(
                self._broker_id, given.incarnation, self._mode, self.ownership.epoch, is_idle
            )
            ownership = (await self._coordinator.ask(report)).ownership
            if ownership.epoch > self.ownership.epoch:
                self.ownership = ownership
                self.followed.append(ownership)
            await asyncio.sleep(ATTEND_S)


@asynccontextmanager
async def attending(
    coordinator: CoordinatorHandle, broker_id: int, mode: PluginMode = PluginMode.HANDOVER
) -> AsyncIterator[AttendingPlugin]:
    """A plugin that reports to the coordinator during the block."""
    plugin = AttendingPlugin(coordinator, broker_id, mode)
    task = asyncio.create_task(plugin.run())
    try:
        yield plugin
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
