"""`jobs costs`: what lies in the tier and in the trash, in money."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.cli.commands.jobs.job import Job, answered, as_of_fact, end, write_page
from tierledger.cli.commands.jobs.money import (
    TOPIC,
    ByOption,
    LabelsOption,
    PricesOption,
    check_group,
    stated_prices,
    texts_of_money,
)
from tierledger.cli.table import money_cell, size_cell
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from decimal import Decimal

    from tierledger.pipeline.prices import Cost
    from tierledger.pipeline.table_columns import PlainRow

SPARE = ("trash bytes", "segments")


def costs(
    job: Job, prices: PricesOption = None, labels: LabelsOption = None, by: ByOption = TOPIC
) -> None:
    """Tell what the tier and the trash cost in a month, by topic, owner, team or class.

    Prices are yours (--prices). What costs money is no failure: exit code 0, or 3 if some logs
    are damaged; they are named and left out.
    """
    from tierledger.cli.pages.jobs.costs import costs_content
    from tierledger.pipeline.jobs.costs import CostDigest, summed
    from tierledger.pipeline.prices import checked
    from tierledger.pipeline.tables.costs import TIER, TRASH, costs_table

    check_group(by, prices, labels)
    stated = stated_prices(prices, labels)
    if stated is None:
        raise InvalidArgument("expected --prices FILE, got none")
    job.check()
    asyncio.run(checked(stated, job.job_store()))
    plan = job.planned(costs_table(stated))
    made = answered(job, plan, CostDigest())
    rows = made.digest.rows(stated, by)
    currency = stated.currency
    whole = {what: summed(row[what] for row in rows) for what in (TIER, TRASH)}
    head = {"cluster": plan.store.cluster or "", **as_of_fact(job), "currency": currency}
    write_page(
        job,
        "costs.html",
        {**head, "engine": made.engine},
        made.damaged,
        lambda: costs_content(currency, by, rows, whole),
    )
    end(
        job,
        {
            **head,
            "partitions": len(plan.logs),
            **{
                name.replace("_", " "): sum(row[name] for row in rows)
                for name in ("segments", "bytes", "trash_segments", "trash_bytes")
            },
            **texts_of_money(_facts(whole[TIER], whole[TRASH]), is_exact=job.json),
        },
        spare=SPARE,
        worst=[_plain(row) for row in rows] if job.json else rows,
        cells=lambda row: {
            by: row[by],
            "segments": row["segments"],
            "bytes": size_cell(row["bytes"]),
            f"{currency} a month": money_cell(row[TIER].month),
            "trash bytes": size_cell(row["trash_bytes"]),
            f"trash {currency} a month": money_cell(row[TRASH].month),
        },
        damaged=made.damaged,
    )


def _facts(tier: Cost, trash: Cost) -> dict[str, Decimal]:
    return {
        "month": tier.month,
        "trash month": trash.month,
        "copying": tier.copying,
        "deleting": tier.deleting,
        "trash deleting": trash.deleting,
    }


def _plain(row: PlainRow) -> PlainRow:
    """As JSON has it: a sum is text, so that no reader makes it inexact."""
    from tierledger.pipeline.prices import Cost

    return {
        name: texts_of_money({"month": one.month, **one._asdict()}, is_exact=True)
        if isinstance(one, Cost)
        else one
        for name, one in row.items()
    }
