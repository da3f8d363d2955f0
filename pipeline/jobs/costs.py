"""Sums of `costs` and of a what-if in money, by topic, owner, team or storage class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import reduce

from typing_extensions import override

from tierledger.pipeline.digests import Digest
from tierledger.pipeline.prices import EXACT, Cost, Prices
from tierledger.pipeline.table_columns import PlainRow
from tierledger.pipeline.tables.costs import TIER, TRASH

_SUMS = ("segments", "bytes", "trash_segments", "trash_bytes")


class CostDigest(Digest):
    """Sums by topic, for the tier and the trash."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], tuple[int, int, Cost]] = {}
        """By the topic's name and id, and what: segments, bytes and cost."""

    @override
    def take(self, row: PlainRow) -> None:
        cost = Cost(*(row[name] for name in Cost._fields))
        key = row["topic"], row["topic_id"], row["what"]
        self._add(key, (row["segments"], row["size_in_bytes"], cost))

    @override
    def join(self, other: CostDigest) -> None:
        for key, more in other._sums.items():
            self._add(key, more)

    def _add(self, key: tuple[str, str, str], more: tuple[int, int, Cost]) -> None:
        segments, size, cost = self._sums.get(key, (0, 0, Cost()))
        self._sums[key] = segments + more[0], size + more[1], cost.plus(more[2])

    def rows(self, prices: Prices, by: str) -> list[PlainRow]:
        """A row for each topic, owner, team or class; the dearest first.

        With `by` topic, two topics of one name have two rows.
        """
        found: dict[tuple[str | None, str], PlainRow] = {}
        for (topic, topic_id, what), (segments, size, cost) in self._sums.items():
            key = _key(prices, by, topic, topic_id)
            empty = {**_named(by, key), **dict.fromkeys(_SUMS, 0), TIER: Cost(), TRASH: Cost()}
            row = found.setdefault(key, empty)
            row["segments"] += segments * (what == TIER)
            row["bytes"] += size * (what == TIER)
            row["trash_segments"] += segments * (what == TRASH)
            row["trash_bytes"] += size * (what == TRASH)
            row[what] = row[what].plus(cost)
        return sorted(
            found.values(),
            key=lambda row: (-row[TIER].plus(row[TRASH]).month, _order(row, by)),
        )


def summed(costs: Iterable[Cost]) -> Cost:
    """The sum of all costs."""
    return reduce(Cost.plus, costs, Cost())


SAVED = ("month_before", "month_after", "less_a_month", "deleting")
"""What `what_if_rows` add: the money of a month, and what deleting costs once."""

_COUNTS = ("partitions", "segments_before", "bytes_before", "segments_after", "bytes_after")


def what_if_rows(prices: Prices, by: str, topics: Sequence[PlainRow]) -> list[PlainRow]:
    """The rows of `RetentionDigest.topics` by group, with `SAVED`; most saved first."""
    found: dict[tuple[str | None, str], PlainRow] = {}
    for one in topics:
        key = _key(prices, by, one["topic"], one["topic_id"])
        sums = dict.fromkeys(_COUNTS, 0) | dict.fromkeys(SAVED, Decimal(0))
        row = found.setdefault(key, {**_named(by, key), **sums})
        gone = one["segments_before"] - one["segments_after"]
        before, after = (
            prices.cost(
                one["topic"], one[f"segments_{when}"], max(0, one[f"bytes_{when}"])
            ).month
            for when in ("before", "after")
        )
        less = EXACT.subtract(before, after)
        deleting = prices.cost(one["topic"], gone, 0).deleting
        for name in _COUNTS:
            row[name] += one[name]
        for name, money in zip(SAVED, (before, after, less, deleting), strict=True):
            row[name] = EXACT.add(row[name], money)
    return sorted(found.values(), key=lambda row: (-row["less_a_month"], _order(row, by)))


def _key(prices: Prices, by: str, topic: str, topic_id: str) -> tuple[str | None, str]:
    """What a row is about. None: no label. Topics of one name are told apart by their ids."""
    if by == "topic":
        return topic, topic_id
    label = prices.label_of(topic)
    return {
        "class": prices.class_of(topic).name,
        "owner": label.owner,
        "team": label.team,
    }[by], ""


def _named(by: str, key: tuple[str | None, str]) -> PlainRow:
    return {by: key[0], "topic_id": key[1]} if by == "topic" else {by: key[0]}


def _order(row: PlainRow, by: str) -> tuple[str, str]:
    return row[by] or "", row.get("topic_id", "")
