"""The page of `jobs costs`: each topic, owner, team or class, the dearest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.pages.jobs.strips import ValueBar, bars
from tierledger.cli.table import money_cell
from tierledger.events.vocabulary import Look
from tierledger.pages.texts import size_text
from tierledger.pipeline.tables.costs import TIER, TRASH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from tierledger.pipeline.prices import Cost
    from tierledger.pipeline.table_columns import PlainRow

DRAWN_MAX = 25
"""How many groups are drawn, with two bars each; the table has all."""

UNLABELLED = "no label"


def costs_content(
    currency: str, by: str, rows: Sequence[PlainRow], whole: Mapping[str, Cost]
) -> dict[str, object]:
    """What `costs.html` shows; `whole` has the sums of the tier and the trash."""
    return {
        "by": by,
        "rows": rows,
        "name": lambda row: _name(row, by),
        "whole": whole,
        "bars": bars(_bars(rows, by, currency)),
        "drawn_max": DRAWN_MAX,
        "money": _money,
    }


def _money(value: Decimal) -> str:
    return money_cell(value).shown


def _name(row: PlainRow, by: str) -> str:
    return str(row[by] or row.get("topic_id", UNLABELLED))


def _bars(rows: Sequence[PlainRow], by: str, currency: str) -> list[ValueBar]:
    made = []
    for row in rows[:DRAWN_MAX]:
        for what, size, look in (
            (TIER, row["bytes"], Look.GOOD),
            (TRASH, row["trash_bytes"], Look.KEPT),
        ):
            text = f"{_money(row[what].month)} {currency}, {size_text(size)}"
            label = _name(row, by) if what == TIER else ""
            tip = f"{_name(row, by)}, {what}: {text} a month"
            # In millionths: a bar of less than a cent is seen, too.
            amount = int(row[what].month * 1_000_000)
            made.append(ValueBar(label, "", amount, text, look, tip))
    return made
