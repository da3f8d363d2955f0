"""What commands show of tables, taken from rows as these are made; for either engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tierledger.pipeline.table_columns import PlainRow

One = TypeVar("One")
OptionalDigest = TypeVar("OptionalDigest", bound="Digest | None")


class Digest(ABC):
    """What is shown of a table: taken row by row, one partition after another.

    Each task of Spark has a digest of its own, and these are joined in the order of the tasks;
    the local engine has one. Both must come to the same, whichever task had which partition.
    A digest is pickled, and all of them are in memory at once: it holds a bounded number of
    rows.
    """

    @abstractmethod
    def take(self, row: PlainRow) -> None:
        """Hear of a row."""

    @abstractmethod
    def join(self, other: Any) -> None:  # noqa: ANN401 - Of the same class.
        """Hear of all that another digest of the same class has heard of."""


class Least(Generic[One]):
    """The least of many, by a key; holds twice as many as are asked for."""

    def __init__(self, count: int, key: Callable[[One], Any]) -> None:
        """Keep `count`; `key` can be pickled, and orders them."""
        self._count = count
        self._key = key
        self._held: list[One] = []

    def add(self, *some: One) -> None:
        self._held += some
        if len(self._held) > 2 * self._count:
            self._held = self.ascending()

    def ascending(self) -> list[One]:
        """Those that are least so far."""
        return sorted(self._held, key=self._key)[: self._count]
