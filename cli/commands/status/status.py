"""`tierledger status`: whether a service runs on a store, and how it stands."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tierledger.cli.commands.status.look import (
    COUNT_MAX,
    LIMIT,
    StatusOptions,
    print_look,
    take_look,
)
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import (
    PARTITION_MAX,
    ClusterOption,
    JsonOption,
    ServiceOption,
    whole_number,
)
from tierledger.cli.output import shortened
from tierledger.cli.table import WideOption
from tierledger.events.errors import InvalidArgument

INTERVAL_S = 2.0
DAY_S = 86_400.0


def status_command(
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    partition: Annotated[
        str | None,
        typer.Option(metavar="TOPIC-N", help="Show only this partition, for example orders-3."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Show only this host and its partitions.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            min=0, max=COUNT_MAX, help="Maximum number of partitions to show, worst first."
        ),
    ] = LIMIT,
    everything: Annotated[bool, typer.Option("--all", help="Show all partitions.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat at every --interval until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, max=DAY_S, help="Seconds between two repeats of --watch.")
    ] = INTERVAL_S,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the service on a store: its hosts, what they lead and follow, and what is not well.

    JSON has all partitions, whatever the limit. Exit status 1: no service runs on the store, or
    it has a trouble that is critical or a warning; with --watch the status is 0 when you end
    it.
    """
    log_to_stderr()
    if partition is not None:
        topic, dash, number = partition.rpartition("-")
        try:
            partition = f"{topic}{dash}{whole_number(number, 'NUMBER', high=PARTITION_MAX)}"
        except InvalidArgument:
            dash = ""
        if not dash:
            raise InvalidArgument(
                f"--partition: expected TOPIC-NUMBER, got {shortened(partition)}"
            )
    shown = None if everything else limit
    options = StatusOptions(StoreOptions(store, cluster), partition, host, shown, json, wide)
    if watch:
        from tierledger.cli.commands.status.watch import watch_status

        watch_status(options._replace(is_repeated=True), interval)
    elif not asyncio.run(_status(options)):
        raise typer.Exit(ExitStatus.FOUND)


async def _status(options: StatusOptions) -> bool:
    from tierledger.health.troubles import are_well

    look = await take_look(options)
    print_look(options, look)
    return are_well(look.troubles)
