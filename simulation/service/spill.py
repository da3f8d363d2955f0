"""A spill store of a simulated process."""

from __future__ import annotations

from typing_extensions import override

from tierledger.events.tables.spilled_map import Spill, SpillStore


class DictSpillStore(SpillStore):
    """Packed pages in a dictionary."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self._last = 0

    @override
    def put(self, packed: bytes) -> int | None:
        self._last += 1
        self.pages[self._last] = packed
        return self._last

    @override
    def get(self, number: int) -> bytes:
        return self.pages[number]

    @override
    def drop(self, number: int) -> None:
        del self.pages[number]


def small_spill() -> Spill:
    """A spill with a single open page, so that small worlds spill, too."""
    return Spill(DictSpillStore(), open_max=1)
