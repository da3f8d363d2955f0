"""`storage`: a ledger goes on in another store."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption
from tierledger.cli.output import confirm, print_json, print_note, print_result, progress
from tierledger.cli.settings import store_config
from tierledger.events.errors import InvalidArgument, RemoteStorageError, StoreRefused
from tierledger.pages.texts import many

if TYPE_CHECKING:
    from tierledger.moving.store_copy import StoreCopy
    from tierledger.storage.catalog import Catalog

LOOK_S = 1.0
"""How long the copy may be behind while it follows."""

ENDING_S = 30.0
"""How long the host that writes may take to end, after nobody finds the service any more."""

ENDING_PAUSE_S = 0.1

FromArgument = Annotated[
    str, typer.Argument(metavar="FROM", help="URL of the store that has the ledger.")
]
ToArgument = Annotated[
    str,
    typer.Argument(metavar="TO", help="URL of a store that has nothing of the cluster."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def storage_group() -> typer.Typer:
    return group_of(
        "Let a ledger go on in another store, of any kind, and lose no write.",
        {"copy": copy_store, "reopen": reopen_store},
    )


async def copy_store(
    from_: FromArgument,
    to: ToArgument,
    cluster: ClusterOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Copy a ledger to another store, and let it go on there.

    While a service runs on FROM, the copy follows it. End the service when the copy is near:
    then FROM is closed for good, so that nothing is written to it any more, the rest is copied
    and compared, and TO is opened. Start the service on TO.

    Until FROM is closed, Ctrl-C leaves it as it was. After that, run the command again, or
    open FROM again with tierledger storage reopen. Exit 3: some logs are damaged; what is
    before the damage is copied, and they are named.
    """
    if _shown(to) == _shown(from_):
        raise InvalidArgument(f"expected two stores, got {_shown(to)} twice")
    if not yes:
        what = f"Close {_shown(from_)} once no service runs on it, and go on in {_shown(to)}?"
        confirm(what)
    copy = await _copied(StoreOptions(from_, cluster), to)
    told = f"{many(copy.logs, 'log')}, {many(copy.events, 'event')}"
    if json:
        damaged = {str(log): str(error) for log, error in copy.damaged.items()}
        print_json({"logs": copy.logs, "events": copy.events, "damaged": damaged})
    else:
        print_result(f"the ledger goes on in {_shown(to)}: {told}")
        print_result(f"start the service there: tierledger serve --store {_shown(to)}")
    for error in copy.damaged.values():
        print_note(f"damaged, and copied only up to there: {error}")
    if copy.damaged:
        raise typer.Exit(ExitStatus.PARTLY)


async def reopen_store(
    store: StoreOption = None,
    cluster: ClusterOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Open a store again that was closed because its ledger was copied.

    For a copy that was interrupted, or that is not wanted any more. It is refused while a
    service runs on the copy. If one has run there, there are two ledgers then, and brokers take
    neither for the other.
    """
    from tierledger.storage.closed_slot import COPIED
    from tierledger.storage.transfer.closing import closed_because, reopen_logs

    options = StoreOptions(store, cluster)
    async with opened_catalog(options) as catalog:
        why = await closed_because(catalog)
    if why is None or not why.startswith(COPIED):
        raise InvalidArgument("the store is not closed because of a copy")
    await _refuse_served(StoreOptions(why.removeprefix(COPIED), catalog.cluster_id))
    if not yes:
        confirm(f"{why}. Open this one again, and let nobody serve the other?")
    async with opened_catalog(options, read_only=False) as catalog:
        count = await reopen_logs(catalog)
    if json:
        print_json({"logs": count})
    else:
        print(f"{many(count, 'log')} opened again")


async def _copied(options: StoreOptions, to: str) -> StoreCopy:
    from tierledger.cli.service_settings import is_served
    from tierledger.moving.store_copy import StoreCopy
    from tierledger.storage.connector import load_connector

    connector = load_connector(store_config(to))
    with progress("batches copied") as on_batches:
        async with opened_catalog(options) as former:
            new = await connector.backend(read_only=False)
            try:
                copy = await StoreCopy.begun(former, new, _shown(to))
                try:
                    await copy.follow(former, on_batches)
                    chosen = StoreOptions(options.store, former.cluster_id)
                    if await is_served(chosen):
                        print_note(
                            f"{many(copy.events, 'event')} copied, and the copy follows: end "
                            f"the service on {_shown(str(options.store))} when you like"
                        )
                    while await is_served(chosen):
                        await asyncio.sleep(LOOK_S)
                        await copy.follow(former, on_batches)
                    async with AsyncExitStack() as opened:
                        closing = await _opened_at_the_end(chosen, opened)
                        await copy.switch(closing, on_batches)
                finally:
                    await copy.close()
            finally:
                await new.close()
    return copy


async def _opened_at_the_end(options: StoreOptions, opened: AsyncExitStack) -> Catalog:
    """The store, open for writing, once the service's last process has let go of it.

    Raises:
        StoreRefused: Somebody writes it for longer than a service needs to end.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + ENDING_S
    while True:
        try:
            return await opened.enter_async_context(opened_catalog(options, read_only=False))
        except StoreRefused:
            if loop.time() > until_s:
                raise
        await asyncio.sleep(ENDING_PAUSE_S)


async def _refuse_served(other: StoreOptions) -> None:
    """Refuse while a service runs on the store that has taken the ledger over.

    Raises:
        StoreRefused: One does.
    """
    from tierledger.cli.service_settings import is_served

    try:
        runs = await is_served(other)
    except RemoteStorageError as error:
        print_note(f"whether a service runs on {other.store} cannot be seen: {error}")
        return
    if runs:
        raise StoreRefused(
            f"a service runs on {other.store}, where the ledger goes on: end it first"
        )


def _shown(url: str) -> str:
    """The URL without secrets."""
    from tierledger.storage.locate import public_url

    return public_url(url)
