"""Partitions on the page of a job, each with a drawing, and with its findings to unfold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.pages.texts import anchors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierledger.pages.drawing import PlotRow
    from tierledger.pipeline.table_columns import PlainRow

GROUPS_SHOWN: Final = 40
"""How many partitions a page shows at once; its script shows the others."""

OPEN_MAX: Final = 12
"""The most rows of a partition that is unfolded at first."""


class PartitionGroup(NamedTuple):
    """A partition on a job's page: its drawing, and its findings to unfold."""

    row: PlotRow
    topic_id: str
    kinds: Sequence[str]
    """The words that are said of anything in it."""
    rows: Sequence[PlainRow]
    """Its findings on the page."""
    found: int
    """How many findings it has."""
    id: str = ""
    """By which links lead to it."""
    is_open: bool = False


def groups_of(some: Iterable[PartitionGroup]) -> list[PartitionGroup]:
    """`some` with their ids, in the same order; the first is open if it is short."""
    made = list(some)
    ids = anchors(one.row.title for one in made)
    return [
        one._replace(id=name, is_open=not at and 0 < len(one.rows) <= OPEN_MAX)
        for at, (one, name) in enumerate(zip(made, ids, strict=True))
    ]
