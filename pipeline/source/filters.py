"""Filters that Spark hands down, as what they spare us reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from tierledger.pipeline.plan import Notice
from tierledger.storage.keys import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.pipeline.plan import Piece

_IDENTITY: dict[str, Callable[[TopicIdPartition], Any]] = {
    "topic": lambda tip: tip.topic,
    "topic_id": lambda tip: str(tip.topic_id),
    "partition": lambda tip: tip.partition,
}
_TESTS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda found, value: found == value,
    EqualNullSafe: lambda found, value: found == value,
    In: lambda found, value: found in value,
    GreaterThan: lambda found, value: found > value,
    GreaterThanOrEqual: lambda found, value: found >= value,
    LessThan: lambda found, value: found < value,
    LessThanOrEqual: lambda found, value: found <= value,
    StringStartsWith: lambda found, value: found.startswith(value),
    StringEndsWith: lambda found, value: found.endswith(value),
    StringContains: lambda found, value: value in found,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lowest and highest value of a column that only grows along a log."""

    lowest: int = -INT64_MAX - 1
    highest: int = INT64_MAX

    def within(self, one: Filter) -> Bounds:
        """These, narrowed by `one`; the same if it is of no such kind."""
        value = getattr(one, "value", None)
        match one:
            case EqualTo() | EqualNullSafe() if isinstance(value, int):
                return self._narrowed(value, value)
            case GreaterThan() if isinstance(value, int):
                return self._narrowed(value + 1, self.highest)
            case GreaterThanOrEqual() if isinstance(value, int):
                return self._narrowed(value, self.highest)
            case LessThan() if isinstance(value, int):
                return self._narrowed(self.lowest, value - 1)
            case LessThanOrEqual() if isinstance(value, int):
                return self._narrowed(self.lowest, value)
            case In() if value and all(isinstance(each, int) for each in value):
                return self._narrowed(min(value), max(value))
            case _:
                return self

    def _narrowed(self, lowest: int, highest: int) -> Bounds:
        return Bounds(max(self.lowest, lowest), min(self.highest, highest))


class SourceFilters:
    """What must hold of a row, as far as it spares reading."""

    def __init__(self) -> None:
        self._identity: list[tuple[str, Filter]] = []
        self.positions = Bounds()
        self.times = Bounds()

    def push(self, filters: Iterable[Filter]) -> Iterable[Filter]:
        """Take note of `filters`; those that Spark has to apply to the rows, too."""
        for one in filters:
            column = ".".join(one.attribute) if hasattr(one, "attribute") else ""
            if column in _IDENTITY and type(one) in _TESTS:
                self._identity.append((column, one))
                continue
            if column == "position":
                self.positions = self.positions.within(one)
            elif column == "log_time_ms":
                self.times = self.times.within(one)
            yield one

    def wants(self, tip: TopicIdPartition) -> bool:
        """Whether rows of that partition pass."""
        return all(
            _TESTS[type(one)](_IDENTITY[column](tip), getattr(one, "value", None))
            for column, one in self._identity
        )

    def wants_some_of(self, piece: Piece) -> bool:
        """Whether rows of `piece`, whose partition is wanted, may pass."""
        if isinstance(piece, Notice):
            return True  # Rare, and the row is looked at again.
        start, end = piece.start, piece.end
        if (
            start.next_position > self.positions.highest
            or start.log_time_ms > self.times.highest
        ):
            return False
        if end is None:
            return True
        return (
            end.next_position > self.positions.lowest and end.log_time_ms >= self.times.lowest
        )
