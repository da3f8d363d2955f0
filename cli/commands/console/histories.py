"""Logs that pages have asked for, held decoded; what is new is read behind what is held."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from tierledger.actors.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.log_events import Event
    from tierledger.storage.catalog import Catalog

HELD_EVENTS_MAX = 1_000_000
"""Events of all held logs together, about 0.5 KiB each; the log of the page that is asked for
is held in any case."""


class Histories:
    """The whole logs of the partitions that were asked for last."""

    def __init__(self) -> None:
        self._held: OrderedDict[TopicIdPartition, list[Event]] = OrderedDict()
        self._reading: dict[TopicIdPartition, asyncio.Lock] = {}

    def behind(self, tip: TopicIdPartition, events: int) -> int:
        """How many of a log's `events` are not held."""
        return events - len(self._held.get(tip, ()))

    async def events(self, catalog: Catalog, tip: TopicIdPartition) -> Sequence[Event]:
        """All events of a partition's log up to now; a log may grow, and never changes.

        Raises:
            RemoteResourceNotFound: The store has no such partition.
            CorruptLog: The log does not verify.
        """
        async with self._reading.setdefault(tip, asyncio.Lock()):
            held = self._held.setdefault(tip, [])
            behind = held[-1].position + 1 if held else 0
            slices = Slices()
            async for event in catalog.reader(tip).events(behind):
                held.append(event)
                await slices.yield_if_due()
            self._held.move_to_end(tip)
            while len(self._held) > 1 and self._events > HELD_EVENTS_MAX:
                self._held.popitem(last=False)
            return list(held)

    @property
    def _events(self) -> int:
        return sum(map(len, self._held.values()))
