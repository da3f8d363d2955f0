"""`restart`: replace the service's processes one after the other, while it serves."""

from __future__ import annotations

from typing import Annotated

import typer

from tierledger.cli.commands.hold import connected
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, JsonOption, ServiceOption
from tierledger.cli.output import print_json, print_note
from tierledger.cli.table import PrintedTable, print_table
from tierledger.events.errors import InvalidArgument

COLUMNS = ("process", "moved", "seconds")


async def restart(
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this host, or coordinator; may be repeated. Default: all.",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NODE",
            help="All on this Ray node, which then start on other nodes: its id, as `status` "
            "shows it.",
        ),
    ] = None,
    timeout: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="How long each process may take.")
    ] = 120,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Replace the service's processes one after the other, while it serves.

    For a new release that was installed in place of the former, and for changed files that
    only a start reads. What a host leads moves to other hosts before its process ends, as far
    as these have room; the rest waits until the next process serves, for about a second. host-0
    and the coordinator are last. Clients notice nothing: they retry. `serve` itself goes on as
    it is; it is restarted by whatever runs it.

    With --node the processes of a Ray node that is to go start on other nodes. End Ray there
    soon: whatever starts later may come back.

    After Ctrl-C, what was begun is ended, and the others stay. The command may be repeated.
    """
    from tierledger.actors.client.restarting import moved_off, restarted

    if host and node is not None:
        raise InvalidArgument("expected --host or --node, got both")
    done = []
    async with connected(StoreOptions(store, cluster)) as (_, connection):
        replacing = (
            restarted(connection.coordinator, timeout, host or [])
            if node is None
            else moved_off(connection.coordinator, timeout, node)
        )
        async for one in replacing:
            done.append(one)
            print_note(f"{one.process} is replaced, {one.moved} moved, in {one.seconds:.1f} s")
    if json:
        for one in done:
            print_json(one._asdict())
        return
    rows = [(one.process, one.moved, f"{one.seconds:.1f}") for one in done]
    print_table(PrintedTable(COLUMNS, rows))
