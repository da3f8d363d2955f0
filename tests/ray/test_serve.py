"""`serve` and `replay` as processes of their own: they begin, they end, they leave nothing."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest

from tests.models.actors.local_world import eventually
from tests.models.cli.command_line import invoke
from tests.models.storage.stored_partitions import TRACES
from tierledger.actors.discovery.service_record import read_record
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.service_settings import client_settings
from tierledger.simulation.live.processes import descendants, end_all, is_running

STOP_S = 60
"""How long a service may take to end; most of a second, where nothing else runs."""

COMMAND = [sys.executable, "-m", "tierledger.cli.main"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    given = [str(one) for one in arguments]
    return subprocess.run([*COMMAND, *given], capture_output=True, text=True, check=False)


@contextmanager
def served(store: str, *options: object) -> Iterator[subprocess.Popen[str]]:
    """A service that is ready; killed with its cluster if it does not end by itself."""
    given = [str(one) for one in ("serve", "--store", store, *options)]
    process = subprocess.Popen([*COMMAND, *given], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving cluster ")
        yield process
    finally:
        if process.poll() is None:
            end_all([process.pid, *descendants(process.pid)])
        process.communicate()


@pytest.fixture
def service_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """What a service tells systemd, which watches it."""
    name = f"\0tierledger-tests-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(name)
        monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")

        found: list[str] = []

        def hear() -> None:
            while message := told.recv(4096):
                found.extend(message.decode().splitlines())

        # As it comes: the kernel keeps ten messages, and a sender does not wait.
        hearing = threading.Thread(target=hear, daemon=True)
        hearing.start()

        def heard() -> list[str]:
            told.shutdown(socket.SHUT_RD)
            hearing.join()
            return found

        yield heard
        if hearing.is_alive():
            heard()


async def test_a_signal_to_all_of_its_processes_ends_a_service_in_good_order(
    tmp_path: Path, service_manager: Callable[[], list[str]]
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    with served(store, "--tombstone-retention", "2h") as process:
        replayed = run("replay", TRACES / "tier", "--store", store, "--check", "--json")
        record = await read_record(await client_settings(StoreOptions(store, None)))
        shown = await asyncio.to_thread(invoke, "status", "--store", store, "--json")
        status = json.loads(shown.stdout)
        started = descendants(process.pid)
        for pid in (*started, process.pid):  # As a service manager does.
            os.kill(pid, signal.SIGTERM)

        assert process.wait(STOP_S) == ExitStatus.WELL
    await eventually(lambda: not any(map(is_running, started)))
    assert started
    told = service_manager()
    assert record is not None
    assert record.settings.tombstone_retention_ms == 2 * 3_600_000
    assert told[0] == "READY=1"
    assert told[1].startswith("STATUS=serving on the Ray cluster at ")
    assert told[2:] == ["WATCHDOG=1"] * (len(told) - 3) + ["STOPPING=1"]
    assert len(told) > 4
    assert replayed.returncode == 0, replayed.stderr
    assert f"pid {process.pid}" in replayed.stderr
    assert status["service"]["pid"] == process.pid
    after = await asyncio.to_thread(invoke, "status", "--store", store, "--json")
    assert (after.exit_code, json.loads(after.stdout)["service"]) == (1, None)
    assert run("verify", "--store", store).returncode == 0


@pytest.mark.parametrize("after_s", [1.2, 2.5])
def test_a_signal_while_it_starts_ends_it_and_leaves_nothing(
    after_s: float, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    process = subprocess.Popen(
        [*COMMAND, "serve", "--store", store], stderr=subprocess.PIPE, text=True
    )
    try:
        time.sleep(after_s)  # Nothing tells from outside how far Ray's start is.
        started = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=STOP_S)
    finally:
        if process.poll() is None:
            end_all([process.pid, *descendants(process.pid)])

    # On a machine that is quick the service may be ready; on a slow one it is not yet loaded,
    # or not even the program that would say so.
    ended = {ExitStatus.WELL, ExitStatus.INTERRUPTED, -signal.SIGINT}
    assert process.returncode in ended, told
    assert not any(map(is_running, started))
    if process.returncode == ExitStatus.WELL:
        assert "stopped before it served" in told or "draining" in told


def test_a_signal_while_ray_is_imported_is_not_lost(tmp_path: Path) -> None:
    program = """
import signal, sys
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "ray":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                pass  # As Python does in what it calls back.
sys.meta_path.insert(0, Interrupted())
from tierledger.cli.main import main; main()
"""
    command = ["serve", "--store", f"sqlite:{tmp_path / 'store.sqlite'}"]
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        stderr=subprocess.PIPE,
        text=True,
        timeout=STOP_S,
        check=False,
    )

    assert done.returncode == ExitStatus.WELL, done.stderr
    assert "stopped before it served" in done.stderr


async def test_a_service_whose_ray_is_gone_ends_and_says_so(tmp_path: Path) -> None:
    with served(f"sqlite:{tmp_path / 'store.sqlite'}") as process:
        started = descendants(process.pid)
        for pid in started:
            os.kill(pid, signal.SIGKILL)

        assert process.wait(STOP_S) == ExitStatus.FAILED
    await eventually(lambda: not any(map(is_running, started)))


async def test_a_service_whose_ray_lost_its_folder_begins_anew_and_accepts_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory() as folder:  # Its path is short, as those of sockets must be.
        monkeypatch.setenv("RAY_TMPDIR", folder)
        store = f"sqlite:{tmp_path / 'store.sqlite'}"
        with served(store) as process:
            started = descendants(process.pid)
            rmtree(Path(folder) / "ray")
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert any(line.startswith("serving cluster ") for line in lines)
            assert not any(map(is_running, started))
            replayed = run("replay", TRACES / "tier", "--store", store, "--check")
            process.send_signal(signal.SIGTERM)

            assert process.wait(STOP_S) == ExitStatus.WELL
    assert replayed.returncode == 0, replayed.stderr
    assert f"pid {process.pid}" in replayed.stderr


@pytest.mark.parametrize(
    ("address", "status"),
    [("127.0.0.1:1", ExitStatus.FAILED), ("127.0.0.1", ExitStatus.USAGE)],
)
def test_an_address_where_no_ray_cluster_is_is_named_soon(
    address: str, status: ExitStatus, tmp_path: Path
) -> None:
    done = run("serve", "--store", f"sqlite:{tmp_path / 'x'}", "--address", address)

    assert done.returncode == status
    assert repr(address) in done.stderr or f"at {address} " in done.stderr
    assert "expected the HOST:PORT" in done.stderr


def test_a_replay_without_a_service_starts_one_and_a_repeat_changes_nothing(
    tmp_path: Path,
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    trace = TRACES / "one-broker"

    first = run("replay", trace, "--store", store, "--check", "--churn", 3)
    before = run("segments", "ledger-tx", 0, "--store", store, "--json")
    again = run("replay", trace, "--store", store)
    after = invoke("segments", "ledger-tx", 0, "--store", store, "--json")

    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert "started for this command" in first.stderr
    assert len(before.stdout.splitlines()) == 42
    assert after.stdout == before.stdout
    assert invoke("status", "--store", store).exit_code == 1
    assert invoke("verify", "--store", store).exit_code == 0


@pytest.mark.long
def test_a_limit_of_0_refuses_all_custom_metadata(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    trace = TRACES / "custom-metadata"
    with served(store, "--custom-metadata-max-bytes", 0) as process:
        strict = run("replay", trace, "--strict", "--store", store, "--json")
        found = invoke("segments", "orders", 0, "--store", store, "--json")
        process.send_signal(signal.SIGINT)  # Ctrl-C is as good an end as SIGTERM.

        assert process.wait(STOP_S) == ExitStatus.WELL
    assert strict.returncode == 1
    assert "custom metadata has 75 bytes, the limit is 0" in strict.stderr
    assert json.loads(strict.stdout)["records_refused"] > 0
    segments = [json.loads(line) for line in found.stdout.splitlines()]
    assert [one["custom_metadata_hex"] for one in segments if one["custom_metadata_hex"]] == []


@pytest.mark.long
def test_a_process_for_each_leader_and_each_follower_answers_as_kafka_did(
    tmp_path: Path,
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    trace = TRACES / "custom-metadata-over-limit"  # It has few partitions.
    with served(store, "--hosts", 2, "--partitions-per-host", 1):
        replayed = run("replay", trace, "--store", store, "--check", "--churn", 2, "--json")
        status = json.loads(invoke("status", "--store", store, "--json").stdout)

    assert replayed.returncode == 0, replayed.stderr
    partitions = json.loads(replayed.stdout)["partitions"]
    assert partitions > 1
    assert len(status["hosts"]) >= 2 * partitions
