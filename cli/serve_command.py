"""`tierledger serve`: the service on a store, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import Annotated, NamedTuple

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
HostsOption = Annotated[
    int,
    typer.Option(
        "--hosts",
        min=1,
        max=1000,
        help="How many host processes to start, whatever they serve.",
    ),
]
PartitionsPerHostOption = Annotated[
    int,
    typer.Option(
        "--partitions-per-host",
        min=1,
        help="How many leaders and followers a host runs; when all are full, more are started.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Use the Ray cluster that runs there, or the one that `auto` finds, instead of a "
        "new one on this machine.",
    ),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=0,
        max=65_535,
        help="Serve metrics for Prometheus on this port; 0 takes a free one. Else none.",
    ),
]
MetricsHostOption = Annotated[
    str,
    typer.Option(
        "--metrics-host", help="The address to serve metrics on; anyone may read them."
    ),
]
MetricsPartitionsOption = Annotated[
    int,
    typer.Option(
        "--metrics-partitions",
        min=0,
        help="With more partitions than this there are metrics of all together only.",
    ),
]


class PlacementOptions(NamedTuple):
    """On how many hosts, and of which Ray cluster."""

    hosts: int
    partitions_per_host: int
    address: str | None


class MetricsOptions(NamedTuple):
    """Where metrics are served, and of how many partitions each."""

    host: str
    port: int
    partitions_max: int


def serve_command(
    store: StoreOption = None,
    cluster: ClusterOption = None,
    limit: LimitOption = 128,
    hosts: HostsOption = 1,
    partitions_per_host: PartitionsPerHostOption = 4096,
    address: AddressOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_partitions: MetricsPartitionsOption = 1000,
) -> None:
    """Run the service on a store: a coordinator and its hosts, on a Ray cluster.

    Writes where it is into the store, so that every other command and client finds it. SIGINT
    or SIGTERM drain all partitions and end it; exit status 0 then.
    """
    log_to_stderr()
    metrics = None
    if metrics_port is not None:
        metrics = MetricsOptions(metrics_host, metrics_port, metrics_partitions)
    placement = PlacementOptions(hosts, partitions_per_host, address)
    asyncio.run(_serve(StoreOptions(store, cluster), limit, placement, metrics))


async def _serve(
    options: StoreOptions,
    limit: int,
    placement: PlacementOptions,
    metrics: MetricsOptions | None,
) -> None:
    from tierledger.actors.ray_service import RayConnection, RayService
    from tierledger.cli.metrics_server import metrics_served
    from tierledger.cli.service_settings import service_settings
    from tierledger.events.decide import Limits
    from tierledger.storage.locate import public_url

    settings = replace(
        await service_settings(options, Limits(custom_metadata_bytes_max=limit)),
        hosts=placement.hosts,
        partitions_per_host=placement.partitions_per_host,
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with metrics_served(metrics) as served:
        service = RayService(settings, served.address, placement.address)
        record = await service.start()
        # After the start: Ray sets handlers of its own while it starts.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        served.connect(RayConnection(service.settings))
        store = public_url(settings.storage["metadata.storage.url"])
        where = f"at {record.address}, pid {record.pid}"
        print(f"serving cluster {settings.cluster_id} from {store} {where}", flush=True)
        if served.address is not None:
            print(f"metrics at {served.address}", flush=True)
        await stopped.wait()
    # Nobody may look for a coordinator any more: whoever misses it starts another.
    print_note("stopping: draining partitions")
    await service.close()


def register(app: typer.Typer) -> None:
    """Add `tierledger serve`."""
    app.command("serve")(serve_command)
