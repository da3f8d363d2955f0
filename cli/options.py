"""Options that commands share, and how their texts are parsed."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tierledger.cli.output import MS_MAX, shortened
from tierledger.events.errors import InvalidArgument


def file_option(about: str) -> Any:  # noqa: ANN401 - As `typer.Option` says.
    """An option that names a file to read, also if the working folder changes later."""
    return typer.Option(metavar="FILE", resolve_path=True, help=about)


StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the data is: sqlite:FILE or postgresql://USER@HOST/DATABASE. "
        "Else $TIERLEDGER_STORE, else your own store.",
    ),
]
ServiceOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The store: sqlite:FILE or postgresql://USER@HOST/DATABASE; or, where a running "
        "service is asked, its doors: tierledger://HOST:PORT,… (tierledgers:// with TLS). "
        "Else $TIERLEDGER_STORE, else your own store.",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="The Kafka cluster, if the store holds several. Else $TIERLEDGER_CLUSTER.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object to a line.")]
KafkaConfigOption = Annotated[
    Path | None,
    file_option(
        "Client settings for Kafka's brokers, as Kafka's own tools take them: "
        "security.protocol, sasl.mechanism, sasl.jaas.config, ssl.truststore.location, …"
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        metavar="POSITION|TIME",
        help="As it was after a position of the log (N or position:N), or at a time (ISO 8601; "
        "UTC unless given).",
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
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace what is there already.")
]
TierOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Where the segments are: dir:DIR, s3://BUCKET/PREFIX, manifest:URL, or "
        "local-tiered:DIR.",
    ),
]
TopicArgument = Annotated[str, typer.Argument(help="A topic's name or id.")]
PARTITION_MAX = 2**31 - 1
EPOCH_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
"""Kafka's largest offset; positions go as far. The limits below are Kafka's, too."""

PartitionArgument = Annotated[
    int, typer.Argument(min=0, max=PARTITION_MAX, help="A partition's number.")
]
PartitionIfAnyArgument = Annotated[
    int | None, typer.Argument(min=0, max=PARTITION_MAX, help="Only this partition.")
]

FROM_STORE = "store"
FROM_SERVICE = ("leader", "follower")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

A_TIME = "a time like 2026-01-31T12:00:00Z"

DIGITS_MAX = len(str(OFFSET_MAX))
"""The most digits of a number in an option."""


class AsOf(NamedTuple):
    """A point in a log, of which one field is given."""

    position: int | None = None
    time_ms: int | None = None


def whole_number(text: str, what: str, low: int = 0, high: int = OFFSET_MAX) -> int:
    """The number in `text`; an error calls it `what`."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit()
    # Python refuses longer ones itself, with a message of its own.
    if not is_number or len(digits) > DIGITS_MAX or not low <= int(text) <= high:
        raise InvalidArgument(
            f"{what}: expected a whole number from {low} to {high}, got {shortened(text)}"
        )
    return int(text)


def parse_time_ms(text: str, what: str, expected: str = A_TIME) -> int:
    """The time in `text`, which is ISO 8601, in ms since 1970; UTC unless it has an offset.

    Raises:
        InvalidArgument: It is no time from 1970 to 9999; the message has what was `expected`.
    """
    refused = InvalidArgument(f"{what}: expected {expected}, got {shortened(text)}")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise refused from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    time_ms = (at - EPOCH) // timedelta(milliseconds=1)
    if not 0 <= time_ms <= MS_MAX:
        raise refused
    return time_ms


def number_or_time(text: str, what: str, unit: str) -> tuple[int | None, int | None]:
    """The number, or time in ms since 1970, in `text`: `N`, `UNIT:N` or ISO 8601."""
    if text.startswith(f"{unit}:"):
        return whole_number(text.removeprefix(f"{unit}:"), what), None
    if not (text.isascii() and text.isdigit()):
        expected = f"a number (N or {unit}:N) or {A_TIME}"
        return None, parse_time_ms(text, what, expected)
    if len(text) == len("YYYYMMDD"):
        day = None
        with suppress(ValueError):
            day = date.fromisoformat(text)
        if day is not None:
            raise InvalidArgument(
                f"{what}: {text} may be a number or a date; expected {unit}:{text} or {day}"
            )
    return whole_number(text, what), None


def parse_as_of(text: str | None) -> AsOf | None:
    """The point that `text` means; none for none."""
    return None if text is None else AsOf(*number_or_time(text, "--as-of", "position"))


def live_role(source: str, as_of: AsOf | None) -> str | None:
    """The role in a running service that is to answer; none to read the store itself."""
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
