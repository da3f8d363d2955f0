"""Options for prices and labels, which several commands have."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.cli.given_file import readable
from tierledger.cli.table import money_cell, money_text
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierledger.pipeline.prices import Prices

PricesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with prices of storage classes and requests; deploy/prices.toml is an "
        "example, - is standard input.",
    ),
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file that says whose topics are, by pattern; deploy/labels.toml is an "
        "example, - is standard input.",
    ),
]
TOPIC, OWNER, TEAM, CLASS = GROUP_NAMES = ("topic", "owner", "team", "class")
ByOption = Annotated[
    str,
    typer.Option(metavar="|".join(GROUP_NAMES), help="What the money is summed by."),
]


def stated_prices(prices: Path | None, labels: Path | None) -> Prices | None:
    """The prices that the options name; none without `--prices`."""
    if prices is None and labels is not None:
        raise InvalidArgument(f"--labels {labels}: expected --prices, too")
    if prices is None:
        return None
    from tierledger.pipeline.prices import read_prices

    named = None if labels is None else readable(labels, "toml")
    return read_prices(readable(prices, "toml"), named)


def check_group(by: str, prices: Path | None, labels: Path | None) -> None:
    """Refuse a group that there is not, or that nothing says anything about."""
    if by not in GROUP_NAMES:
        raise InvalidArgument(f"--by: expected one of {', '.join(GROUP_NAMES)}; got {by!r}")
    if by != TOPIC and prices is None:
        raise InvalidArgument(f"--by {by}: expected --prices, too")
    if by in {OWNER, TEAM} and labels is None:
        raise InvalidArgument(f"--by {by}: expected --labels, too")


def texts_of_money(row: Mapping[str, Any], *, is_exact: bool) -> dict[str, Any]:
    """`row` with its sums as text: exact for programs, else to the hundredth."""
    return {
        name: (money_text(one) if is_exact else money_cell(one).shown)
        if isinstance(one, Decimal)
        else one
        for name, one in row.items()
    }
