"""`tierledger console`: live pages about a store and its service, until a signal ends it."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, StoreOption

ListenOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address at which browsers find it, of this machine alone. With port 0 it takes "
        "a free port.",
    ),
]

STOPS = (signal.SIGINT, signal.SIGTERM)
LOOK_S = 1.0


def console(
    store: StoreOption = None,
    cluster: ClusterOption = None,
    listen: ListenOption = "127.0.0.1:8712",
) -> None:
    """Serve live pages about a store and the service on it, for a browser; they only read.

    They show what is wrong and what to do, each partition with its segments and its log at any
    moment, the trash and the holds. No service is needed. SIGINT or SIGTERM end the command
    with exit status 0.
    """
    from tierledger.cli.commands.console.serving import Console
    from tierledger.cli.settings import cluster_setting, store_config

    log_to_stderr()
    store_config(store)  # Refuses what is no store's URL.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        served = Console(StoreOptions(store, cluster_setting(cluster)), listen, "--listen")
        served.start()
        print(f"console at {served.url}", flush=True)
        while signal.sigtimedwait(STOPS, LOOK_S) is None:
            pass  # Handlers of other signals, such as timers, run here.
        served.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
