"""`costs`: what the segments of each partition cost, in the tier and in the trash."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from typing_extensions import override

from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.prices import Prices
from tierledger.pipeline.table_columns import (
    BIGINT,
    MONEY,
    STRING,
    Column,
    Row,
    Table,
    TableRows,
)

COSTS = "costs"

TIER, TRASH = "tier", "trash"
"""What a row is about."""


class _Costs(TableRows):
    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        counted = sum(state.count_by_state), max(0, sum(state.bytes_by_state))
        for what, (segments, size) in (
            (TIER, counted),
            (TRASH, (len(state.kept), max(0, state.kept.bytes))),
        ):
            topic = state.topic_id_partition.topic
            cost = self._prices.cost(topic, segments, size, is_read=what == TIER)
            of = self._prices.class_of(topic).name, *self._prices.label_of(topic)
            yield (what, *of, segments, size, self._prices.currency, *cost)


def costs_table(prices: Prices) -> Table:
    """The table at those prices, which `prices.checked` has passed."""
    return Table(COSTS, ABOUT, COLUMNS, partial(_Costs, prices))


ABOUT = "what each partition costs, in the tier and in the trash"

COLUMNS = (
    Column(
        "what",
        STRING,
        f"`{TIER}`: the partition's segments, in any state; `{TRASH}`: what was deleted and "
        "whose data stays",
    ),
    Column("class", STRING, "storage class of the topic"),
    Column("owner", STRING, "owner of the topic; null if no label says", is_nullable=True),
    Column("team", STRING, "team of the topic; null if no label says", is_nullable=True),
    Column("segments", BIGINT, "number of these segments"),
    Column("size_in_bytes", BIGINT, "bytes of these segments' logs"),
    Column("currency", STRING, "currency of the columns that follow"),
    Column("storage_month", MONEY, "price of storing these bytes for a month"),
    Column(
        "reads_month",
        MONEY,
        f"price of the month's GET requests; 0 for what is in the `{TRASH}`",
    ),
    Column("copying", MONEY, "price of the PUT requests that copied these segments, once"),
    Column("deleting", MONEY, "price of the DELETE requests that remove these segments, once"),
)
