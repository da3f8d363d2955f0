"""Which keys a full cache evicts: S3-FIFO, over bytes.

A new key waits in a small queue and moves to the main queue only if it is asked for again. So
one pass over a long partition does not evict what other readers keep using. A key that was
evicted recently goes to the main queue at once. Without clock and chance, the same calls always
have the same victims.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

SMALL_PART: Final = 10
"""The small queue holds one in this many bytes of the whole."""
ASKED_MAX: Final = 3
"""Hits that count per key: a key that was popular once must not stay for ever."""
ASKED_TO_STAY: Final = 2
"""Hits that move a new key to the main queue. One is not enough: reading a segment once asks
for its indexes twice, for the position and for the aborted transactions."""


class _Item:
    __slots__ = ("asked", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.asked = 0


class EvictionQueue:
    """Keys with weights, up to a total weight."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._small: OrderedDict[bytes, _Item] = OrderedDict()
        self._main: OrderedDict[bytes, _Item] = OrderedDict()
        self._ghosts: OrderedDict[bytes, None] = OrderedDict()
        """Keys evicted from the small queue recently, about as many as there are keys."""
        self._small_weight = 0
        self.weight = 0

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def takes(self, weight: int) -> bool:
        return weight <= self._weight_max

    def asked(self, key: bytes) -> None:
        """Count a hit."""
        item = self._main.get(key) or self._small.get(key)
        if item is not None and item.asked < ASKED_MAX:
            item.asked += 1

    def add(self, key: bytes, weight: int) -> list[bytes] | None:
        """Add `key`; the keys evicted for it. None if it is too heavy and was not added."""
        self.remove(key)
        if not self.takes(weight):
            return None
        victims = self._shrink_to(self._weight_max - weight)
        if key in self._ghosts:
            del self._ghosts[key]
            self._main[key] = _Item(weight)
        else:
            self._small[key] = _Item(weight)
            self._small_weight += weight
        self.weight += weight
        return victims

    def add_known(self, key: bytes, weight: int) -> None:
        """Add a key from before a restart; the caller ends with `shrink` to meet the limit."""
        self.remove(key)
        self._main[key] = _Item(weight)
        self.weight += weight

    def remove(self, key: bytes) -> bool:
        """Remove `key`; whether it was there."""
        if (item := self._small.pop(key, None)) is not None:
            self._small_weight -= item.weight
        else:
            item = self._main.pop(key, None)
        if item is None:
            return False
        self.weight -= item.weight
        return True

    def resize(self, weight_max: int) -> list[bytes]:
        """Set the limit; the keys evicted for it."""
        self._weight_max = weight_max
        return self.shrink()

    def shrink(self) -> list[bytes]:
        """Evict down to the limit; the evicted keys."""
        return self._shrink_to(self._weight_max)

    def _shrink_to(self, weight: int) -> list[bytes]:
        victims = []
        while self.weight > weight:
            is_small_full = self._small_weight * SMALL_PART >= self._weight_max
            from_small = self._small and (is_small_full or not self._main)
            victim = self._from_small() if from_small else self._from_main()
            if victim is not None:
                victims.append(victim)
        return victims

    def _from_small(self) -> bytes | None:
        key, item = self._small.popitem(last=False)
        self._small_weight -= item.weight
        if item.asked >= ASKED_TO_STAY:
            item.asked = 0
            self._main[key] = item
            return None
        self.weight -= item.weight
        self._ghosts[key] = None
        while len(self._ghosts) > len(self) + 1:
            self._ghosts.popitem(last=False)
        return key

    def _from_main(self) -> bytes | None:
        key, item = self._main.popitem(last=False)
        if item.asked:
            item.asked -= 1
            self._main[key] = item
            return None
        self.weight -= item.weight
        return key
