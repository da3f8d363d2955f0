"""`tierledger doctor`: whether everything around a service is as it should be."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tierledger.cli.commands.doctor.check import END_S, lines_of
from tierledger.cli.commands.doctor.given import Given
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import (
    UNITS_MS,
    ClusterOption,
    JsonOption,
    KafkaConfigOption,
    KafkaIfAnyOption,
    ServiceOption,
    duration_ms,
    given_brokers,
)
from tierledger.cli.output import escaped, fitted, print_json
from tierledger.cli.settings import service_config
from tierledger.events.errors import InvalidArgument
from tierledger.events.vocabulary import findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierledger.cli.commands.doctor.check import CheckLine

DEADLINE = "10s"
DEADLINES_MS = range(100, UNITS_MS["h"] + 1)

LOOKS = 20
"""How often it is looked whether all threads have ended, within `END_S`."""

INDENT = 15
"""Columns of a line's state, below which its further lines begin."""


def doctor(
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of the remote tier, whose rights are tried: dir:DIR, s3://BUCKET/PREFIX, "
            "manifest:URL, or local-tiered:DIR. An object is created there and deleted.",
        ),
    ] = None,
    kafka: KafkaIfAnyOption = None,
    kafka_config: KafkaConfigOption = None,
    backups: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where `backup make` writes, whose newest backup is looked at.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where `columns write --follow` writes, dir:DIR or s3://BUCKET/PREFIX: its "
            "files must not be far behind the logs.",
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long each check may take, like 30s.")
    ] = DEADLINE,
    json: JsonOption = False,
) -> None:
    """Look at all that a service needs: this machine, store, service, tier, brokers, backups.

    One line for each thing that was looked at: how it stands with it, the check's name, what
    was seen, and what to do. What no option names is not looked at. Nothing is changed: what
    is written to try it is undone. docs/doctor.md lists the checks. Exit status 1: something
    failed, or is a warning.
    """
    log_to_stderr()
    timeout_ms = duration_ms(timeout, "--timeout")
    if timeout_ms not in DEADLINES_MS:
        raise InvalidArgument(f"--timeout: expected 100ms to 1h, got {timeout}")
    brokers = given_brokers(kafka, kafka_config)
    service_config(store)  # A URL of something else is refused at once, as is a tier's.
    if tier is not None:
        _refuse_other(tier)
    given = Given(StoreOptions(store, cluster), tier, brokers, backups, columns)
    states = asyncio.run(_doctor(given, timeout_ms / 1000, json=json))
    if findings(states):
        raise typer.Exit(ExitStatus.FOUND)


def _refuse_other(tier: str) -> None:
    from tierledger.tiering.layouts.tier_url import parse

    parse(tier)


async def _doctor(given: Given, deadline_s: float, *, json: bool) -> list[str]:
    states: list[str] = []

    def tell(line: CheckLine) -> None:
        states.append(str(line.seen.state))
        _print(line, json=json)

    if not await look(given, deadline_s, tell):
        end_at_once()
    return states


def end_at_once() -> NoReturn:
    """End the process, whatever the system keeps of it; a check has failed then."""
    sys.stdout.flush()
    os._exit(ExitStatus.FOUND)


async def look(given: Given, deadline_s: float, tell: Callable[[CheckLine], None]) -> bool:
    """Run all checks, and hand each line to `tell`, in their order; whether all has ended.

    If not, a thread hangs in the system, as it does on a disk that is gone. No thread can be
    ended from outside, and Python waits for all of them at its own end: only `end_at_once`
    ends the process then.
    """
    from tierledger.cli.commands.doctor.checks import CHECKS

    before, threads = set(threading.enumerate()), ThreadPoolExecutor()
    asyncio.get_running_loop().set_default_executor(threads)
    others = asyncio.all_tasks()
    async for line in lines_of(CHECKS, given, deadline_s):
        tell(line)
    left = asyncio.all_tasks() - others
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=END_S)
    threads.shutdown(wait=False, cancel_futures=True)
    for _ in range(LOOKS):
        kept = [one for one in threading.enumerate() if one not in before and not one.daemon]
        if not kept:
            return True
        await asyncio.sleep(END_S / LOOKS)
    return False


def _print(line: CheckLine, *, json: bool) -> None:
    if json:
        print_json(line.plain())
    else:
        print(fitted(escaped(line.text), sys.stdout, INDENT))
