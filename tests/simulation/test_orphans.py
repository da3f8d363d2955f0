"""Processes that a killed command had started end, too."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from tierledger.simulation.live.processes import children, wait_until_gone


def test_workers_end_with_a_command_that_is_killed() -> None:
    run = ["simulate", "run", "--seeds", "0:1000000", "--jobs", "2"]
    command = [sys.executable, "-m", "tierledger.cli.main", *run]
    parent = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    workers: list[int] = []
    try:
        while len(workers := children(parent.pid)) < 3:  # Two, and Python's tracker.
            assert parent.poll() is None
            time.sleep(0.1)
        parent.kill()
        parent.wait()

        wait_until_gone(workers)
    finally:
        for pid in [parent.pid, *workers]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
