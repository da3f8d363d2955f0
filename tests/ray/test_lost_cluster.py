"""Everything is killed at once, and what the store has is enough to go on."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.models.local_world import eventually
from tests.models.stored_partitions import TRACES
from tests.ray.test_serve import run, served
from tests.ray.test_service_end import descendants, is_running


@contextmanager
def taken(address: str) -> Iterator[None]:
    """Somebody else listens there, and says nothing that Ray would say."""
    host, _, port = address.rpartition(":")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen(100)
        yield


async def test_a_service_whose_whole_cluster_was_killed_starts_again_from_its_store(
    tmp_path: Path,
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    trace = TRACES / "one-broker"
    with served(store, "--hosts", 2) as process:
        assert run("replay", trace, "--store", store).returncode == 0
        status = json.loads(run("status", "--store", store, "--json").stdout)
        before = run("segments", "ledger-tx", 0, "--store", store, "--json").stdout
        everything = {process.pid, *descendants(process.pid)}
        for pid in everything:
            os.kill(pid, signal.SIGKILL)
        process.wait()
    await eventually(lambda: not any(map(is_running, everything)))

    with taken(status["service"]["address"]):
        gone = run("status", "--store", store, "--json")
        with served(store, "--hosts", 2):
            again = run("status", "--store", store, "--json")
            after = run("segments", "ledger-tx", 0, "--store", store, "--json").stdout
            replayed = run("replay", trace, "--store", store, "--json")

    assert gone.returncode == 1
    assert again.returncode == 0
    assert after == before
    assert replayed.returncode == 0, replayed.stderr
    assert run("verify", "--store", store).returncode == 0
