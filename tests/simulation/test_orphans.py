"""Processes that a killed command had started end, too."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tierledger.simulation.live.processes import children, wait_until_gone


@pytest.mark.parametrize("work", [("run", "--seeds", "0:1000000"), ("exhaust",)])
def test_workers_end_with_a_command_that_is_killed(work: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tierledger.cli.main", "simulate", *work, "--jobs", "2"]
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
