"""Everything is killed at once, and what the store has is enough to go on."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from typer.testing import Result

from tests.models.actors.local_world import eventually
from tests.models.cli.command_line import invoke
from tests.models.storage.stored_partitions import TRACES
from tests.ray.test_serve import run, served
from tierledger.simulation.live.processes import descendants, is_running

STANDSTILL_S = 10.0
"""Time for which a client's loop may stand still on a busy machine; Ray blocks for a minute."""


@contextmanager
def taken(address: str) -> Iterator[None]:
    """Somebody else listens there, and says nothing that Ray would say."""
    host, _, port = address.rpartition(":")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen(100)
        yield


@contextmanager
def client_of(store: str, cluster: str) -> Iterator[subprocess.Popen[str]]:
    """A program that writes to the service, ready; see `tests.models.ray.lost_client`."""
    command = [sys.executable, "-m", "tests.models.ray.lost_client", store, cluster]
    pipe = subprocess.PIPE
    client = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        yield client
    finally:
        client.kill()
        client.communicate()


async def test_a_service_whose_whole_cluster_was_killed_starts_again_from_its_store(
    tmp_path: Path,
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    trace = TRACES / "one-broker"

    async def asked(*arguments: object) -> Result:
        return await asyncio.to_thread(invoke, *arguments, "--store", store, "--json")

    with ExitStack() as stack:
        with served(store, "--hosts", 2) as process:
            assert run("replay", trace, "--store", store).returncode == 0
            status = json.loads((await asked("status")).stdout)
            before = (await asked("segments", "ledger-tx", 0)).stdout
            client = stack.enter_context(client_of(store, status["cluster"]))
            everything = {process.pid, *descendants(process.pid)}
            for pid in everything:
                os.kill(pid, signal.SIGKILL)
            process.wait()
        await eventually(lambda: not any(map(is_running, everything)))
        assert client.stdin is not None
        client.stdin.write("write\n")
        client.stdin.flush()

        with taken(status["service"]["address"]):
            gone = await asked("status")
            with served(store, "--hosts", 2):
                again = await asked("status")
                after = (await asked("segments", "ledger-tx", 0)).stdout
                replayed = run("replay", trace, "--store", store, "--json")
                assert client.stdout is not None
                report = json.loads(client.stdout.readline())

    assert gone.exit_code == 1
    assert again.exit_code == 0
    assert after == before
    assert replayed.returncode == 0, replayed.stderr
    assert (await asked("verify")).exit_code == 0
    # The client that was there before found its way by itself, and never stood still.
    assert set(report["told"]) <= {"NotReady", "NotLeader", "OutcomeUnknown"}
    assert report["longest_s"] < STANDSTILL_S
