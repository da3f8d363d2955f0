"""`tierledger serve`: the service on a store, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, StoreOption
from tierledger.cli.output import print_note

LimitOption = Annotated[
    int,
    typer.Option(
        "--custom-metadata-max-bytes",
        min=0,
        max=2**31 - 1,
        help="KIP-917's limit (remote.log.metadata.custom.metadata.max.bytes). Not below the "
        "brokers' own, or they upload again at every interval.",
    ),
]


def serve_command(
    store: StoreOption = None, cluster: ClusterOption = None, limit: LimitOption = 128
) -> None:
    """Run the service on a store: a Ray cluster with a coordinator and a host.

    Writes where it is into the store, so that every other command and client finds it. SIGINT
    or SIGTERM drain all partitions and end it; exit status 0 then.
    """
    log_to_stderr()
    asyncio.run(_serve(StoreOptions(store, cluster), limit))


async def _serve(options: StoreOptions, limit: int) -> None:
    from tierledger.actors.ray_service import RayService
    from tierledger.cli.service_settings import service_settings
    from tierledger.events.decide import Limits

    settings = await service_settings(options, Limits(custom_metadata_bytes_max=limit))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    service = RayService(settings)
    record = await service.start()
    # After the start: Ray sets handlers of its own while it starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    store = settings.storage["metadata.storage.url"]
    where = f"at {record.address}, pid {record.pid}"
    print(f"serving cluster {settings.cluster_id} from {store} {where}", flush=True)
    await stopped.wait()
    print_note("stopping: draining partitions")
    await service.close()


def register(app: typer.Typer) -> None:
    """Add `tierledger serve`."""
    app.command("serve")(serve_command)
