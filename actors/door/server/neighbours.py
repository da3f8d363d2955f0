"""A host knocks at the doors of some other hosts, and reports which of them open.

So the coordinator, which knocks too, can tell a host that nobody reaches from its own network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle, islice

from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.doors import KNOCK_INTERVAL_S, KNOCKS_MISSED
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.actors.host.host import Host
from tierledger.storage.process_log import ProcessLog

NEIGHBOURS_MAX = 3
"""Hosts at whose doors a host knocks; as many knock at its own."""

_log = ProcessLog("tierledger.host")


class Neighbours:
    """One host's knocks at the doors of others."""

    def __init__(
        self,
        host: Host,
        address: str,
        coordinator: CoordinatorHandle,
        opens: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`coordinator` knows all doors; `opens` knocks at one (HOST:PORT)."""
        self._host = host
        self._address = address
        self._coordinator = coordinator
        self._opens = opens
        self._doors: Mapping[str, str] = {}
        self._missed: dict[str, int] = {}
        """By address: knocks in a row that nobody answered."""

    async def run(self) -> None:
        """Knock until cancelled."""
        while True:
            await asyncio.sleep(KNOCK_INTERVAL_S)
            try:
                self._doors = await self._coordinator.ask(DoorsCall())
            except Exception as error:  # noqa: BLE001 - Whatever keeps it from answering.
                _log.debug("the doors of other hosts are not known", error=repr(error))
            near = neighbours(self._address, self._doors)
            opened = await asyncio.gather(*(self._opens(self._doors[one]) for one in near))
            self._missed = {
                one: 0 if opens else self._missed.get(one, 0) + 1
                for one, opens in zip(near, opened, strict=True)
            }
            self._host.report.doors = tuple(
                (one, not missed)
                for one, missed in self._missed.items()
                if not missed or missed >= KNOCKS_MISSED
            )


def neighbours(address: str, doors: Mapping[str, str]) -> list[str]:
    """The addresses that follow `address` in a ring of all; never its own."""
    ring = sorted({*doors, address})
    at = ring.index(address)
    return list(islice(cycle(ring), at + 1, at + 1 + min(NEIGHBOURS_MAX, len(ring) - 1)))
