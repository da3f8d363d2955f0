"""A command that runs Spark in a process of its own: what it says, and how it is ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.actors.local_world import eventually
from tests.models.cli.command_line import orders, write
from tierledger.actors.processes import Process, descendants
from tierledger.cli.exit_status import ExitStatus


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    write(tmp_path / "store", orders)
    asked = [
        "tables",
        "sizes",
        "--out",
        "out",
        "--master",
        "local[1]",
        "--store",
        "sqlite:store",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "tierledger.cli.main", *asked],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        yield started


async def test_ctrl_c_while_spark_starts_leaves_no_process(
    process: subprocess.Popen[str],
) -> None:
    started: list[Process] = []

    def java_starts() -> bool:
        started[:] = descendants([process.pid])
        return any("pyspark-shell" in command_line(one) for one in started)

    await eventually(java_starts)
    os.killpg(process.pid, signal.SIGINT)

    _, stderr = process.communicate()
    assert process.returncode == ExitStatus.INTERRUPTED
    assert stderr == ""
    assert not [one for one in started if one.is_running()]


def test_spark_says_nothing_beside_the_result(process: subprocess.Popen[str]) -> None:
    stdout, stderr = process.communicate()

    assert (stdout.endswith(" rows in out\n"), stderr) == (True, "")


def command_line(process: Process) -> str:
    """How a process was started; nothing if it has ended."""
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
