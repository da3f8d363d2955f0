"""`forget`: remove the log of a partition that holds nothing any more."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tierledger.cli.opened_store import (
    StoreOptions,
    found_partition,
    opened_catalog,
    print_notes,
)
from tierledger.cli.options import (
    ClusterOption,
    JsonOption,
    PartitionArgument,
    StoreOption,
    TopicArgument,
)
from tierledger.cli.output import escaped, print_json


def forget(
    topic: TopicArgument,
    partition: PartitionArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Remove the log of a partition without segments that nobody leads; its history is gone.

    A service may run on a PostgreSQL store meanwhile; a SQLite file has one writer. The store
    keeps the position of the log's end, so that the partition can go on from there.
    """
    asyncio.run(_forget(StoreOptions(store, cluster), (topic, partition), yes, json))


async def _forget(options: StoreOptions, where: tuple[str, int], yes: bool, json: bool) -> None:
    from tierledger.storage.partition.forgetting import forget as forget_partition
    from tierledger.storage.partition.forgetting import refuse_unless_empty

    async with opened_catalog(options, read_only=False) as catalog:
        tip = await found_partition(catalog, *where)
        reader = catalog.reader(tip)
        state, _ = await reader.state()
        print_notes(reader)
        refuse_unless_empty(state)
        events = state.next_position
        if not yes:
            typer.confirm(escaped(f"Forget {tip} and its {events} events?"), abort=True)
        keys = await forget_partition(reader)
    if json:
        print_json({"forgotten": str(tip), "events": events, "keys": keys})
    else:
        print(escaped(f"forgot {tip} and its {events} events"))
