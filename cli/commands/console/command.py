"""`tierledger console`: live pages about a store and its service, until a signal ends it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, StoreOption, file_option

ListenOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address at which browsers find it; one that other machines reach needs "
        "--tls-cert, --tls-key and --tokens. With port 0 it takes a free port.",
    ),
]
CertificateOption = Annotated[
    Path | None,
    file_option("The console's certificate chain, PEM; with it the console accepts only TLS."),
]
KeyOption = Annotated[Path | None, file_option("The key of --tls-cert, PEM, not encrypted.")]
TokensOption = Annotated[
    Path | None,
    file_option("List of tokens, as of serve; a browser has to sign in with one of them."),
]
AdvertiseOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Name under which browsers find it, if --listen is not it."
    ),
]

STOPS = (signal.SIGINT, signal.SIGTERM)
LOOK_S = 1.0


def console(
    store: StoreOption = None,
    cluster: ClusterOption = None,
    listen: ListenOption = "127.0.0.1:8712",
    tls_cert: CertificateOption = None,
    tls_key: KeyOption = None,
    tokens: TokensOption = None,
    advertise: AdvertiseOption = None,
) -> None:
    """Serve live pages about a store and the service on it, for a browser; they only read.

    They show what is wrong and what to do, each partition with its segments and its log at any
    moment, the trash and the holds. No service is needed. SIGINT or SIGTERM end the command
    with exit status 0.
    """
    from tierledger.cli.commands.console.serving import Console, ConsoleSecurity
    from tierledger.cli.settings import cluster_setting, store_config

    log_to_stderr()
    security = ConsoleSecurity.of(tls_cert, tls_key, tokens, advertise)
    store_config(store)  # Refuses what is no store's URL.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        options = StoreOptions(store, cluster_setting(cluster))
        served = Console(options, listen, "--listen", security)
        served.start()
        print(f"console at {served.url}", flush=True)
        while signal.sigtimedwait(STOPS, LOOK_S) is None:
            pass  # Handlers of other signals, such as timers, run here.
        served.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
