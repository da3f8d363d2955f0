"""Topics as arguments and options; a shell completes them from the store."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.events.errors import RemoteStorageError


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """For a shell: the topics of the store that begin like that; none if it is not found."""

    async def names() -> set[str]:
        chosen = StoreOptions(ctx.params.get("store"), ctx.params.get("cluster"))
        async with opened_catalog(chosen) as catalog:
            return await catalog.topic_names()

    try:
        return sorted(one for one in asyncio.run(names()) if one.startswith(incomplete))
    except (RemoteStorageError, OSError):
        return []  # Nothing can be said while a line is edited; the command itself will.


TopicArgument = Annotated[
    str, typer.Argument(help="A topic's name or id.", autocompletion=complete_topic)
]
TopicIfAnyArgument = Annotated[
    str | None,
    typer.Argument(
        help="Name or id of the only topic to include.", autocompletion=complete_topic
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option(
        help="Include only topics of this name, or the topic with this id.",
        autocompletion=complete_topic,
    ),
]
