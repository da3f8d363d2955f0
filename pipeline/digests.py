"""Summaries of tables for commands, computed while the rows are made; for either engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tierledger.pipeline.table_columns import PlainRow

One = TypeVar("One")
OptionalDigest = TypeVar("OptionalDigest", bound="Digest | None")


class Digest(ABC):
    """A summary of a table, which takes its rows partition by partition.

    Each Spark task has its own digest, and these are joined in the order of the tasks; the
    local engine has a single one. The result must be the same, whichever task had which
    partition. Digests are pickled, and all are in memory at once, so each must hold a bounded
    number of rows.
    """

    @abstractmethod
    def take(self, row: PlainRow) -> None:
        """Add a row."""

    @abstractmethod
    def join(self, other: Any) -> None:  # noqa: ANN401 - Of the same class.
        """Add all rows that another digest of the same class has taken."""


class Least(Generic[One]):
    """The `count` least of many items by a key; holds up to twice as many."""

    def __init__(self, count: int, key: Callable[[One], Any]) -> None:
        """Keep the `count` least by `key`, which must be picklable."""
        self._count = count
        self._key = key
        self._held: list[One] = []

    def add(self, *some: One) -> None:
        self._held += some
        if len(self._held) > 2 * self._count:
            self._held = self.ascending()

    def ascending(self) -> list[One]:
        """The least items so far, ascending."""
        return sorted(self._held, key=self._key)[: self._count]
