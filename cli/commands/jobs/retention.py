"""`jobs retention`: what brokers would delete with other retention settings."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.commands.jobs.job import Job, answered, end, write_page
from tierledger.cli.commands.jobs.money import (
    TOPIC,
    ByOption,
    LabelsOption,
    PricesOption,
    check_group,
    stated_prices,
    texts_of_money,
)
from tierledger.cli.commands.jobs.times import NowOption, clock_ms, stated_time_ms
from tierledger.cli.given_file import readable
from tierledger.cli.options import (
    UNITS_BYTES,
    UNITS_MS,
    KafkaConfigOption,
    given_brokers,
    number_with_unit,
    whole_number,
)
from tierledger.cli.output import shortened
from tierledger.cli.table import money_cell, size_cell
from tierledger.events.errors import InvalidArgument, RejectedError
from tierledger.events.typed_fields import time_text
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.pipeline.jobs.retention.job import RetentionDigest
    from tierledger.pipeline.prices import Prices
    from tierledger.pipeline.table_columns import PlainRow
    from tierledger.storage.kafka_brokers import KafkaBrokers

SETTINGS = {"retention.ms": UNITS_MS, "retention.bytes": UNITS_BYTES}
"""Settings of a what-if, and their units; one that is not given keeps everything."""

SPARE = ("partitions", "segments", "segments after", "bytes")


WhatIfOption = Annotated[
    list[str],
    typer.Option(
        metavar="retention.ms=N|retention.bytes=N",
        help="Retention to assume; both settings may be given, and -1 keeps everything. N "
        "may have a unit: 7d, 10GiB.",
    ),
]
LocalOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="CSV file with facts that only brokers know: topic, partition, and any of "
        "log_start_offset, local_bytes, log_end_offset, leader_epochs; - is standard input.",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Look ahead to this time, as if nothing more were written; +7d is in seven days.",
    ),
]

KafkaVersionOption = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="Version of the brokers: from 4.3 on, a segment that is exactly as old as "
        "retention.ms stays. By default what --kafka tells, or else the newest known version.",
    ),
]
KafkaOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help="Brokers to ask for their version; if they differ, the oldest one counts.",
    ),
]


def retention(
    job: Job,
    what_if: WhatIfOption,
    local: LocalOption = None,
    now: NowOption = None,
    until: UntilOption = None,
    kafka_version: KafkaVersionOption = None,
    kafka: KafkaOption = None,
    kafka_config: KafkaConfigOption = None,
    prices: PricesOption = None,
    labels: LabelsOption = None,
    by: ByOption = TOPIC,
) -> None:
    """Tell which segments brokers would delete, in which order, why and when.

    With --prices it tells also how much less the tier would cost in a month.

    The command deletes nothing, and finding something is no failure: exit code 0, or 3 if some
    logs are damaged; they are named and left out.
    """
    values = parse_what_if(what_if)
    stated = stated_version(kafka_version)
    brokers = given_brokers(kafka, kafka_config)
    check_group(by, prices, labels)
    stated_money = stated_prices(prices, labels)
    then_ms = stated_time_ms(now, "--now")
    now_ms = clock_ms() if then_ms is None else then_ms
    until_ms = stated_time_ms(until, "--until")
    if until_ms is not None and until_ms < now_ms:
        raise InvalidArgument(
            f"--until: expected {time_text(now_ms)} or later, got {time_text(until_ms)}"
        )
    job.check()
    times = now_ms, now_ms if until_ms is None else until_ms
    if stated is not None:
        rules = Rules(stated, "--kafka-version")
    elif brokers is not None:
        rules = asked_version(brokers)
    else:
        rules = Rules(NEWEST, "newest known")
    _run(job, values, times, rules, local, stated_money, by)


class Rules(NamedTuple):
    """The version of Kafka whose rules are used, and what tells that it is this one."""

    broker: BrokerVersion
    told_by: str


def stated_version(text: str | None) -> BrokerVersion | None:
    """The value of --kafka-version."""
    try:
        return None if text is None else BrokerVersion.parse(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"--kafka-version: {error}") from None


def asked_version(brokers: KafkaBrokers) -> Rules:
    """The oldest version of the brokers.

    Raises:
        RejectedError: A broker does not tell its version.
        StorageUnavailable: No broker answers.
    """
    from tierledger.moving.broker_versions import versions_of

    try:
        found = asyncio.run(versions_of(brokers))
    except RejectedError as error:
        raise RejectedError(f"{error}; expected --kafka-version") from None
    told = ", ".join(f"broker {number}: {found[number]}" for number in sorted(found))
    return Rules(min(found.values()), told)


def parse_what_if(given: Sequence[str]) -> dict[str, int]:
    """The value of each setting; -1 for a setting that is not given."""
    found: dict[str, int] = {}
    for one in (part for text in given for part in text.split(",")):
        name, _, value = one.strip().partition("=")
        if name not in SETTINGS:
            raise InvalidArgument(
                "--what-if: expected retention.ms=N or retention.bytes=N, N like 7d, 10GiB, "
                f"or a number from -1; got {shortened(one)}"
            )
        if name in found:
            raise InvalidArgument(f"--what-if: expected {name} once, got it twice")
        number = number_with_unit(value, SETTINGS[name])
        if number is None:
            number = whole_number(value, f"--what-if {name}", -1)
        found[name] = number
    return {name: found.get(name, -1) for name in SETTINGS}


def _run(
    job: Job,
    values: dict[str, int],
    times: tuple[int, int],
    rules: Rules,
    local: Path | None,
    prices: Prices | None,
    by: str,
) -> None:
    from tierledger.cli.pages.jobs.retention import retention_content
    from tierledger.pipeline.jobs.retention.deletions import RetentionQuestion
    from tierledger.pipeline.jobs.retention.job import (
        RetentionDigest,
        read_local,
        retention_table,
        with_topic_ids,
    )

    question = RetentionQuestion(
        values["retention.ms"], values["retention.bytes"], *times, rules.broker
    )
    facts = None
    if local is not None:
        facts = asyncio.run(with_topic_ids(job.job_store(), read_local(readable(local, "csv"))))
    if prices is not None:
        from tierledger.pipeline.prices import checked

        asyncio.run(checked(prices, job.job_store()))
    plan = job.planned(retention_table(question, facts))
    made = answered(job, plan, RetentionDigest(question))
    digest = made.digest
    money, rows = {}, digest.topics()
    cells = _cells
    if prices is not None:
        from tierledger.pipeline.jobs.costs import SAVED, what_if_rows

        rows = what_if_rows(prices, by, rows)
        sums = {name: sum((row[name] for row in rows), Decimal(0)) for name in SAVED}
        money = {"currency": prices.currency, **texts_of_money(sums, is_exact=job.json)}

        def cells(row: PlainRow) -> dict[str, object]:
            less = {f"{prices.currency} less a month": money_cell(row["less_a_month"])}
            return {by: row[by], **_counted(row), **less}

    asked = {name: value for name, value in values.items() if value >= 0}
    head = {"cluster": plan.store.cluster or "", "now": time_text(question.now_ms)}
    head["kafka version"], head["kafka version told by"] = map(str, rules)
    if question.until_ms > question.now_ms:
        head["until"] = time_text(question.until_ms)
    shown = {**head, **asked, **money, "engine": made.engine}
    write_page(
        job,
        "retention.html",
        shown,
        made.damaged,
        lambda: retention_content(question, digest),
    )
    end(
        job,
        {**head, **asked, "partitions": len(plan.logs), **_totals(digest), **money},
        spare=SPARE,
        worst=[texts_of_money(row, is_exact=True) for row in rows] if job.json else rows,
        cells=cells,
        damaged=made.damaged,
    )


def _cells(row: PlainRow) -> dict[str, object]:
    return {"topic": row["topic"], **_counted(row)}


def _counted(row: PlainRow) -> dict[str, object]:
    return {
        "partitions": row["partitions"],
        "segments": row["segments_before"],
        "bytes": size_cell(row["bytes_before"]),
        "segments after": row["segments_after"],
        "bytes after": size_cell(row["bytes_after"]),
    }


def _totals(digest: RetentionDigest) -> dict[str, object]:
    from tierledger.pipeline.jobs.retention.job import SUMS

    topics = digest.topics()
    sums = {name: sum(row[name] for row in topics) for name in SUMS}
    return {
        **{name.replace("_", " "): value for name, value in sums.items()},
        "segments deleted": sums["segments_before"] - sums["segments_after"],
        "bytes deleted": sums["bytes_before"] - sums["bytes_after"],
        **{f"deleted for {row['reason']}": row["segments"] for row in digest.reasons()},
    }
