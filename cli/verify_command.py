"""`verify`: whether a store still holds what was written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.opened_store import (
    StoreOptions,
    found_partition,
    found_topic,
    opened_catalog,
)
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import escaped, print_json, print_note, progress
from tierledger.storage.verification import VerificationReport, verify

if TYPE_CHECKING:
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.storage.catalog import Catalog


def register(app: typer.Typer) -> None:
    app.command("verify")(verify_store)


def verify_store(
    topic: Annotated[str | None, typer.Argument(help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Argument(help="Only this partition.")] = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Verify logs and checkpoints: checksums, chains, order, and that the two agree.

    Exit 1 if anything is wrong. One bad partition never hides another.
    """
    options = StoreOptions(store, cluster)
    if not asyncio.run(_verify(options, topic, partition, json)):
        raise typer.Exit(1)


async def _verify(
    options: StoreOptions, topic: str | None, partition: int | None, json: bool
) -> bool:
    passed, reports = True, 0
    async with opened_catalog(options) as catalog:
        partitions = await _partitions(catalog, topic, partition)
        with progress("events verified") as on_events:
            for tip in partitions:
                report = await verify(catalog.reader(tip), on_events)
                passed, reports = passed and report.passed, reports + 1
                _print_report(report, json)
    if not reports:
        print_note("there was nothing to verify")
    return passed


async def _partitions(
    catalog: Catalog, topic: str | None, partition: int | None
) -> list[TopicIdPartition]:
    if topic is None:
        return [entry.topic_id_partition async for entry in catalog.partitions()]
    if partition is not None:
        return [await found_partition(catalog, topic, partition)]
    found = await found_topic(catalog, topic)
    entries = catalog.partitions(found.topic_id)
    return [entry.topic_id_partition async for entry in entries]


def _print_report(report: VerificationReport, json: bool) -> None:
    tip = report.topic_id_partition
    if json:
        print_json(
            {
                "topic": tip.topic,
                "topic_id": str(tip.topic_id),
                "partition": tip.partition,
                "passed": report.passed,
                "batches": report.batches,
                "events": report.events,
                "checkpoint_position": report.checkpoint_position,
                "findings": [finding._asdict() for finding in report.findings],
            }
        )
        return
    at = report.checkpoint_position
    checkpoint = "no checkpoint compared" if at is None else f"checkpoint at {at} agrees"
    if report.passed:
        print(escaped(f"ok       {tip}: {report.events} events, {checkpoint}"))
    for finding in report.findings:
        where = f"{finding.kind} at position {finding.position}"
        print(escaped(f"DAMAGED  {tip}: {where}: {finding.message}"))
