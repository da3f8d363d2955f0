"""The writes that a client has begun in a partition and not ended."""

from __future__ import annotations


class OpenWrites:
    """Numbers the writes of one client to one partition, in the order in which they begin."""

    __slots__ = ("_open", "begun")

    def __init__(self) -> None:
        self.begun = 0
        """The number of writes that have begun: the next one's number."""
        self._open: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self) -> int:
        """The number of a write that begins now."""
        number = self.begun
        self.begun += 1
        self._open[number] = None
        return number

    def end(self, number: int) -> None:
        """Note that write `number` has ended, with success or without."""
        del self._open[number]

    def span(self) -> int:
        """The number of writes from the oldest open one to the newest; 0 if none is open."""
        return self.begun - next(iter(self._open)) if self._open else 0
