"""Options that commands share, and how their texts are parsed."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.output import print_note, shortened
from tierledger.cli.settings import names_doors, refused_doors
from tierledger.events.as_of import AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid
from tierledger.events.typed_fields import MS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierledger.storage.kafka_brokers import KafkaBrokers


def file_option(about: str) -> Any:  # noqa: ANN401 - As `typer.Option` says.
    """An option that names a file to read, also if the working folder changes later."""
    return typer.Option(metavar="FILE", resolve_path=True, help=about)


StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL of the store: sqlite:FILE, postgresql://USER@HOST/DATABASE or "
        "slatedb:s3://BUCKET/PREFIX. By default $TIERLEDGER_STORE, or else your own store.",
    ),
]
ServiceOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL of the store: sqlite:FILE, postgresql://USER@HOST/DATABASE or "
        "slatedb:s3://BUCKET/PREFIX; or, to ask a running service, of its doors: "
        "tierledger://HOST:PORT,… (tierledgers:// "
        "with TLS). By default $TIERLEDGER_STORE, or else your own store.",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Id of the Kafka cluster, needed if the store holds several. By default "
        "$TIERLEDGER_CLUSTER.",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the store's column files are: dir:DIR or s3://BUCKET/PREFIX. By default "
        "$TIERLEDGER_COLUMNS, or a folder beside a SQLite file.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
KafkaIfAnyOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,...", help="Brokers of the Kafka cluster.")
]
KafkaConfigOption = Annotated[
    Path | None,
    file_option(
        "Client properties for connections to Kafka's brokers, as for Kafka's own "
        "tools: security.protocol, sasl.mechanism, sasl.jaas.config, "
        "ssl.truststore.location, …"
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        metavar="POSITION|TIME",
        help="Show the state after a position of the log (N or position:N), or at a time: "
        "ISO 8601, UTC by default, or how long ago, like 90m or 7d, or ms:N since 1970.",
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="store|leader|follower",
        help="What answers: the store itself (no service is needed), or a leader or "
        "follower of the running service. By default the store, or the leader if --store "
        "names a service.",
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]
TierOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="URL of the remote tier with the segments: dir:DIR, s3://BUCKET/PREFIX, "
        "manifest:URL, or local-tiered:DIR.",
    ),
]
PARTITION_MAX = 2**31 - 1
EPOCH_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
"""Kafka's largest offset; positions go as far. The limits below are Kafka's, too."""

PartitionArgument = Annotated[
    int, typer.Argument(min=0, max=PARTITION_MAX, help="A partition's number.")
]
PartitionOption = Annotated[
    int | None,
    typer.Option(min=0, max=PARTITION_MAX, help="Include only partitions of this number."),
]
PartitionIfAnyArgument = Annotated[
    int | None,
    typer.Argument(min=0, max=PARTITION_MAX, help="Number of the only partition to include."),
]

FROM_STORE = "store"
LEADER = "leader"
FROM_SERVICE = (LEADER, "follower")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

A_TIME = "a time like 2026-01-31T12:00:00Z, or how long ago, like 90m or 7d"
A_TIME_MS = 10**11
"""A number from here on is a time in ms since 1970, not a position: of March 1973 or later."""
MS = "ms:"
"""Before a time in ms since 1970, in each option that takes a time."""

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""The units of a duration."""

UNITS_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
"""The units of a size."""

DIGITS_MAX = len(str(OFFSET_MAX))
"""The most digits of a number in an option."""


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


DeletedOption = Annotated[
    bool,
    typer.Option(
        "--deleted", help="With what was deleted and stays in the tier, as if it had not been."
    ),
]


def number_with_unit(text: str, units: Mapping[str, int]) -> int | None:
    """`7d` or `10GiB` in the units' base; None if `text` is no number with one of them."""
    found = re.fullmatch(r"([0-9]{1,9})([A-Za-z]+)", text)
    if found is None or found[2] not in units:
        return None
    return int(found[1]) * units[found[2]]


def duration_ms(text: str, what: str) -> int:
    """The milliseconds that `text` means: `90m`, `7d`, `500ms`; an error calls it `what`."""
    found = number_with_unit(text, UNITS_MS)
    if found is None:
        raise InvalidArgument(
            f"{what}: expected a number with {', '.join(UNITS_MS)}, like 90m; "
            f"got {shortened(text)}"
        )
    return found


def parse_time_ms(text: str, what: str, expected: str = A_TIME) -> int:
    """The time in `text` in ms since 1970: ISO 8601, UTC unless it has an offset, or relative.

    `90m` and `-90m` are 90 minutes ago by this machine's clock, and `+7d` is in seven days.
    `ms:N` is N ms since 1970.

    Raises:
        InvalidArgument: It is no time from 1970 to 9999; the message has what was `expected`.
    """
    refused = InvalidArgument(f"{what}: expected {expected}, got {shortened(text)}")
    if text.startswith(MS):
        return whole_number(text.removeprefix(MS), what, 0, MS_MAX)
    if text.isascii() and text.isdigit():
        refused.add_note(f"{MS}{shortened(text)[1:-1]} is a time in ms since 1970")
    span_ms = number_with_unit(text[text.startswith(("+", "-")) :], UNITS_MS)
    if span_ms is not None:
        time_ms = WallClock().now_ms() + (span_ms if text.startswith("+") else -span_ms)
        if not 0 <= time_ms <= MS_MAX:
            raise refused
        return time_ms
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


def given_brokers(kafka: str | None, config: Path | None) -> KafkaBrokers | None:
    """The brokers that `--kafka` and `--kafka-config` name; none without `--kafka`."""
    if kafka is None and config is not None:
        raise InvalidArgument("--kafka-config: expected --kafka, too")
    return None if kafka is None else brokers_at(kafka, config)


def brokers_at(kafka: str, config: Path | None) -> KafkaBrokers:
    """The brokers at those addresses, with the settings in that file."""
    from tierledger.storage.kafka_brokers import KafkaBrokers

    return KafkaBrokers(kafka, None if config is None else str(config))


def parse_id(text: str, what: str) -> Uuid:
    """The id in `text`; an error calls it `what`."""
    try:
        return Uuid.parse(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error}") from None


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
    if text is None:
        return None
    at = parse_point(text, "--as-of")
    if at.time_ms is not None and at.time_ms > WallClock().now_ms():
        print_note(f"--as-of: {text} is still to come; what is shown is the newest state")
    return at


def parse_point(text: str, option: str) -> AsOf:
    """The position or time that `text`, which was given for `option`, means."""
    position, time_ms = number_or_time(text, option, "position")
    if position is not None and position >= A_TIME_MS:
        raise InvalidArgument(
            f"{option}: expected a position, or a time in ms as {MS}{position}; got {text}"
        )
    return AsOf(position, time_ms)


def live_role(
    source: str | None, store: str | None, as_of: AsOf | None, *, deleted: bool = False
) -> str | None:
    """The role in a running service that is to answer; none to read the store itself."""
    if source is None:
        if not names_doors(store):
            return None
        if as_of is not None:
            raise refused_doors(store, "--as-of reads the store itself")
        if deleted:
            raise refused_doors(store, "--deleted reads the store itself")
        return LEADER
    if source == FROM_STORE:
        return None
    if source not in FROM_SERVICE:
        expected = ", ".join((FROM_STORE, *FROM_SERVICE))
        raise InvalidArgument(f"--from: expected one of {expected}, got {source!r}")
    if as_of is not None:
        raise InvalidArgument(
            f"--as-of: the past is read from the store, expected no --from {source}"
        )
    if deleted:
        raise InvalidArgument(
            f"--deleted: what is kept is read from the store, expected no --from {source}"
        )
    return source
