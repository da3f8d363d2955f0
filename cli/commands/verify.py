"""`verify`: whether a store still holds what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tierledger.cli.exit_status import ASKED_WRONGLY, ExitStatus
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.cli.options import (
    ClusterOption,
    JsonOption,
    PartitionIfAnyArgument,
    StoreOption,
)
from tierledger.cli.output import print_json, print_note, print_result, progress
from tierledger.cli.topics import TopicIfAnyArgument
from tierledger.events.errors import DataError, LogClosed

if TYPE_CHECKING:
    from tierledger.storage.catalog import Catalog
    from tierledger.storage.partition.verification import VerificationReport


async def verify_store(
    topic: TopicIfAnyArgument = None,
    partition: PartitionIfAnyArgument = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Verify logs and checkpoints: checksums, chains, order, and that the two agree.

    Without a topic, verify also the coordinator's log, and that all keys are tierledger's own.
    Exit 1 if anything is wrong. One bad partition never hides another. A store whose ledger
    goes on in another one is verified up to where it was closed.
    """
    options = StoreOptions(store, cluster)
    try:
        passed = await _verify(options, topic, partition, json)
    except DataError as error:
        if isinstance(error, ASKED_WRONGLY):
            raise
        _print_damaged_store(error, json)
        passed = False
    if not passed:
        raise typer.Exit(ExitStatus.FOUND)


async def _verify(
    options: StoreOptions, topic: str | None, partition: int | None, json: bool
) -> bool:
    from tierledger.storage.catalog import stray_keys
    from tierledger.storage.partition.verification import verify

    passed, reports = True, 0
    async with opened_catalog(options) as catalog:
        partitions = await chosen_partitions(catalog, topic, partition)
        with progress("partitions verified", len(partitions)) as on_partitions:
            for tip in partitions:
                report = await verify(catalog.reader(tip))
                on_partitions(1)
                is_whole = _is_whole(report.closed)
                passed, reports = passed and report.passed and is_whole, reports + 1
                _print_report(report, json)
        if topic is None:
            passed &= await _verify_coordinator(catalog, json)
            async for key in stray_keys(catalog.backend):
                passed = False
                _print_stray(key, json)
            catalog.strays.clear()
    if not reports:
        print_note("there was no partition to verify")
    return passed


async def _verify_coordinator(catalog: Catalog, json: bool) -> bool:
    from tierledger.actors.coordinator.fold import Fold
    from tierledger.actors.coordinator.log import read_on

    fold = Fold(catalog.cluster_id, catalog.keys, catalog.serde)
    trouble: DataError | None = None
    closed: str | None = None
    try:
        await read_on(fold, catalog.backend, catalog.keys)
    except LogClosed as error:
        closed = str(error)
    except DataError as error:
        trouble = error
    position = fold.state.next_position
    if trouble is None and closed is None and not position:
        return True  # No service ever ran on this store.
    if json:
        finding = {"kind": "coordinator", "position": position, "message": str(trouble)}
        print_json(
            {
                "coordinator_of": catalog.cluster_id,
                "passed": trouble is None and _is_whole(closed),
                "closed": closed,
                "events": position,
                "findings": [] if trouble is None else [finding],
            }
        )
    elif trouble is not None:
        print_result(f"DAMAGED  {trouble}", 9)
    elif closed is not None:
        _print_closed(f"the coordinator's log: {position} events: {closed}", closed)
    else:
        print(f"ok       the coordinator's log: {position} events")
    return trouble is None and _is_whole(closed)


def _is_whole(closed: str | None) -> bool:
    """Whether a log has all that was written to it, if it is closed for that reason."""
    from tierledger.storage.closed_slot import COPIED

    return closed is None or closed.startswith(COPIED)


def _print_closed(text: str, closed: str) -> None:
    print_result(f"{'ok      ' if _is_whole(closed) else 'CLOSED  '} {text}", 9)


def _print_damaged_store(error: DataError, json: bool) -> None:
    """A finding on the store as a whole: nothing more of it can be read."""
    if json:
        finding = {"kind": "store", "position": None, "message": str(error)}
        print_json({"passed": False, "findings": [finding]})
    else:
        print_result(f"DAMAGED  {error}", 9)


def _print_stray(key: str, json: bool) -> None:
    message = f"{key!r} is no key of a partition, nor of the service"
    if json:
        print_json(
            {
                "key": key,
                "passed": False,
                "findings": [{"kind": "stray", "position": None, "message": message}],
            }
        )
    else:
        print_result(f"STRAY    {message}", 9)


def _print_report(report: VerificationReport, json: bool) -> None:
    tip = report.topic_id_partition
    if json:
        print_json(
            {
                "topic": tip.topic,
                "topic_id": str(tip.topic_id),
                "partition": tip.partition,
                "passed": report.passed and _is_whole(report.closed),
                "closed": report.closed,
                "batches": report.batches,
                "events": report.events,
                "checkpoint_position": report.checkpoint_position,
                "findings": [finding._asdict() for finding in report.findings],
            }
        )
        return
    at = report.checkpoint_position
    checkpoint = "no checkpoint compared" if at is None else f"checkpoint at {at} agrees"
    if report.passed and report.closed is not None:
        _print_closed(f"{tip}: {report.events} events, {checkpoint}, closed", report.closed)
    elif report.passed:
        print_result(f"ok       {tip}: {report.events} events, {checkpoint}", 9)
    for finding in report.findings:
        where = f"{finding.kind} at position {finding.position}"
        print_result(f"DAMAGED  {tip}: {where}: {finding.message}", 9)
