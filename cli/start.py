"""The start of the `tierledger` command, before the program is loaded."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the program and run the command.

    Loading takes half a second. Until it is done, Ctrl-C ends the process at once, without a
    traceback; where SIGINT is ignored, as under `nohup`, it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tierledger.cli.loading import loading

    with loading():
        from tierledger.cli.main import main as run

    run()
