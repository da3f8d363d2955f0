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
    UNITS_MS,
    ClusterOption,
    JsonOption,
    PartitionOption,
    ServiceOption,
    duration_ms,
)
from tierledger.cli.table import WideOption
from tierledger.cli.topics import TopicOption
from tierledger.events.errors import InvalidArgument

INTERVAL = "2s"
INTERVALS_MS = range(100, UNITS_MS["d"] + 1)


def status_command(
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
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
        str,
        typer.Option(metavar="TIME", help="Time between two repeats of --watch, like 500ms."),
    ] = INTERVAL,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the service on a store: its hosts, what they lead and follow, and what is not well.

    JSON has all partitions, whatever the limit. Exit status 1: no service runs on the store, or
    it has a trouble that is critical or a warning; with --watch the status is 0 when you end
    it.

    What the words mean:

    \b
    coordinator     decides which host leads what; the end of its own log, and
                    the Ray node that it runs on
    owner           who keeps the cluster's metadata: nobody yet, kafka or
                    tierledger; the owner epoch counts the changes
    led             partitions whose leader answers
    open session    partitions that a broker leads and may write to
    not well        what needs somebody, by its code: docs/runbook.md
    hosts:
      node          the Ray node that its process runs on, as `ray status` has it
      leaders       partitions that the host answers and writes for
      followers     copies that it keeps ready; (n): should, but it is silent
      commits       writes to the store so far; batches/commit: how many
                    requests shared one of them
      fed           copies that get their events from this host
      alarms        damage or delays that it counted, by kind
      heard         when it last reported to the coordinator
    partitions:
      position      number of the log's last event
      session       N: broker B, I/A: the log's N-th session, broker B leads,
                    by announcement A of its incarnation I
      disputes      times that it was not clear which of two brokers leads
    brokers:
      incarnation   number of the broker's last registration with the service
      last announcement  I/A: its last announcement of whom it leads
    plugin of       the broker whose plugin told of itself: docs/kafka.md
      guard         whether a guard asks before it deletes: docs/deletion.md
    left of         a topic's segments that no broker hosts any more
    tiered by others  segments in Kafka's own topic alone
    """  # noqa: D301 - The mark for Click is one character.
    log_to_stderr()
    interval_ms = duration_ms(interval, "--interval")
    if interval_ms not in INTERVALS_MS:
        raise InvalidArgument(f"--interval: expected 100ms to 1d, got {interval}")
    shown = None if everything else limit
    options = StatusOptions(
        StoreOptions(store, cluster), (topic, partition), host, shown, json, wide
    )
    if watch:
        from tierledger.cli.commands.status.watch import watch_status

        watch_status(options._replace(is_repeated=True), interval_ms / 1000)
    elif not asyncio.run(_status(options)):
        raise typer.Exit(ExitStatus.FOUND)


async def _status(options: StatusOptions) -> bool:
    from tierledger.health.troubles import are_well

    look = await take_look(options)
    print_look(options, look)
    return are_well(look.troubles)
