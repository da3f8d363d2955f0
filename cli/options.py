"""Options that commands share, and what their texts mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import typer

from tierledger.events.errors import InvalidArgument

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the data is: sqlite:FILE or postgresql://USER@HOST/DATABASE. "
        "Else $TIERLEDGER_STORE, else your own store.",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ID",
        help="The Kafka cluster, if the store holds several. Else $TIERLEDGER_CLUSTER.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object to a line.")]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="POSITION|TIME",
        help="As it was after a position of the log, or at a time (ISO 8601; UTC unless said).",
    ),
]
FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="store|leader|follower",
        help="Who answers: the store itself (nothing needs to run), or the service on it.",
    ),
]
TopicArgument = Annotated[str, typer.Argument(help="A topic's name or id.")]
PartitionArgument = Annotated[int, typer.Argument(help="A partition's number.")]

FROM_STORE = "store"
FROM_SERVICE = ("leader", "follower")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AsOf(NamedTuple):
    """A point in a log: one of the two is given."""

    position: int | None = None
    time_ms: int | None = None


def parse_as_of(text: str | None) -> AsOf | None:
    """The point that `text` names; none for none.

    Raises:
        InvalidArgument: It is neither digits nor a time.
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return AsOf(position=int(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"expected a position (digits) or a time like 2026-01-31T12:00:00Z, got {text!r}"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return AsOf(time_ms=(at - EPOCH) // timedelta(milliseconds=1))


def live_role(source: str, as_of: AsOf | None) -> str | None:
    """Who of a running service is to answer; none if the store itself is read.

    Raises:
        InvalidArgument: There is no such source, or it cannot answer as of then.
    """
    if source == FROM_STORE:
        return None
    if source not in FROM_SERVICE:
        expected = ", ".join((FROM_STORE, *FROM_SERVICE))
        raise InvalidArgument(f"--from: expected one of {expected}, got {source!r}")
    if as_of is not None:
        raise InvalidArgument(
            f"--as-of: the past is read from the store, expected no --from {source}"
        )
    return source
