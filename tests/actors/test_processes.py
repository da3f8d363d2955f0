"""A signal goes to the process that was meant, and to nothing that has its pid later."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierledger.actors import processes
from tierledger.actors.discovery.service_record import record_of
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import Process, node_of, process_name, process_of, this_process

NOBODY = 65_534


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that nobody here has written down."""
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


def of(started: subprocess.Popen[bytes]) -> Process:
    process = Process.of(started.pid)
    assert process is not None
    return process


def test_a_process_is_told_from_another_with_its_pid(other: subprocess.Popen[bytes]) -> None:
    process = of(other)
    earlier = process._replace(started=f"{process.started}0")

    assert (process.is_running(), earlier.is_running()) == (True, False)
    assert not earlier.signal(signal.SIGKILL)
    assert other.poll() is None

    assert process.signal(signal.SIGKILL)
    assert other.wait() == -signal.SIGKILL
    assert not process.is_running()
    assert not process.signal(signal.SIGKILL)


def test_a_frozen_process_runs_and_an_ended_one_does_not(
    other: subprocess.Popen[bytes],
) -> None:
    process = of(other)

    assert process.signal(signal.SIGSTOP)
    assert process.is_running()

    process.signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # Ended, and still listed.
    assert not process.is_running()


def test_a_name_tells_the_process_and_one_of_an_older_log_does_not() -> None:
    name = process_name("host-3/7", "0123456789ab")

    assert process_of(name) == this_process() == pickle.loads(pickle.dumps(this_process()))
    assert node_of(name) == "0123456789ab"
    assert process_of(f"host-3/7/abcdef/0123456789ab/{os.getpid()}") is None
    assert [process_of(text) for text in ("", "host-0/1/abcdef", "a/b/c/d/-1.5")] == [None] * 3
    assert node_of("host-0/1/abcdef") is None


def test_a_process_of_another_user_is_left_alone_and_is_no_error() -> None:
    code = f"""
import os
from tierledger.actors.processes import Process, this_process
from tierledger.storage.process_log import end_at_once
other = this_process() if os.getuid() == 0 else Process.of(1)
if os.fork() == 0:
    if os.getuid() == 0:
        os.setuid({NOBODY})
    print("sent:", other.signal(9), flush=True)
    end_at_once(0)
os.wait()
"""

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "sent: False" in done.stdout
    assert "another user" in done.stderr


def test_where_there_is_no_proc_the_system_is_asked(
    other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "BOOT", tmp_path / "none")
    process = of(other)

    assert process.is_running()
    assert Process.parse(str(process)) == process
    assert process.signal(signal.SIGKILL)
    other.wait()
    assert not process.is_running()


def test_who_looks_after_a_service_is_not_who_has_the_pid_later() -> None:
    settings = ServiceSettings("c", {"metadata.storage.url": "sqlite:x"})
    record = record_of(settings, "a:1", this_process(), 1)
    earlier = this_process()._replace(started="x.1")

    assert record.is_looked_after
    assert not record._replace(process=str(earlier)).is_looked_after
    assert record._replace(process=None).is_looked_after
