"""Clients in programs that fork, that make one manager after the other, or several loops."""

import asyncio
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.door.clients import door_of, served
from tests.models.actors.local_world import CLUSTER, partition
from tests.models.forks import in_a_fork
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.sync_client import RemoteLogMetadataManager
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.streams import Stream
from tierledger.events.errors import InvalidArgument, RemoteStorageError
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.connector import load_connector

TIP = partition()

COMMON = """
import asyncio, gc, multiprocessing, os, sys, threading, time
from tierledger.client import *
TIP = TopicIdPartition(Uuid(bytes(range(16))), 0, "orders")
CONFIG = {"cluster.id": sys.argv[2], "broker.id": 1, "metadata.storage.url": sys.argv[1]}

def opened():
    manager = RemoteLogMetadataManager()
    manager.configure(CONFIG)
    return manager

def asked(manager=None):
    "What a process hears, and whether it hears it at once."
    begun = time.monotonic()
    try:
        with manager or opened() as manager:
            heard = str(manager.is_ready(TIP))
    except InvalidArgument as error:
        heard = f"{error}"
    print(heard, time.monotonic() - begun < 2, flush=True)

def forked(work, *arguments):
    child = os.fork()
    if not child:
        work(*arguments)
        sys.exit(7)  # As a server's worker ends, with all that Python does then.
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

FORKS = """
gc.disable()  # So that a child inherits what this process has used, and collects it.
manager = opened()
is_over = False
def ask_on():
    while not is_over:
        manager.is_ready(TIP)
threads = [threading.Thread(target=ask_on) for _ in range(3)]
for thread in threads:
    thread.start()
forked(asked, manager)
is_over = True
for thread in threads:
    thread.join()
print(manager.is_ready(TIP))
manager.close()
def collect_and_ask():
    gc.collect()
    asked()
forked(collect_and_ask)
asked()
"""

FORKS_OF_OTHERS = """
import grpc
def used():
    channel = grpc.insecure_channel(sys.argv[1].removeprefix("tierledger://"))
    grpc.channel_ready_future(channel).result(timeout=10)
    return channel
forked(asked)  # gRPC is imported, and has done nothing.
channel = used()
forked(asked)
asked()
"""

EARLY_FORKS = """
manager = RemoteLogMetadataManager()
forked(asked)
forked(manager.close)
manager.configure(CONFIG)
asked(manager)
"""

METHODS = """
if __name__ == "__main__":
    manager = opened()
    for method in ("fork", "forkserver", "spawn"):
        child = multiprocessing.get_context(method).Process(target=asked)
        child.start()
        child.join()
        print(child.exitcode, flush=True)
    asked(manager)
"""

ONE_AFTER_THE_OTHER = """
async def ask(cluster):
    async with AsyncRemoteLogMetadataManager(deadline_s=2) as manager:
        try:
            await manager.configure({**CONFIG, "cluster.id": cluster})
            print(await manager.is_ready(TIP))
        except InvalidArgument as error:
            print("refused")
for _ in range(3):
    asked()
    asyncio.run(ask(sys.argv[2]))
    asyncio.run(ask("another"))
"""


async def heard(folder: Path, program: str) -> list[str]:
    """The lines that a program prints which uses a service; it prints no traceback."""
    file = folder / "program.py"  # A file, as `spawn` needs it.
    file.write_text(COMMON + program)
    async with served(folder) as world:
        url = f"tierledger://{await door_of(world)}"
        process = await asyncio.create_subprocess_exec(
            sys.executable, file, url, CLUSTER, stdout=-1, stderr=-1
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    assert err.decode() == ""
    assert process.returncode == 0
    return out.decode().splitlines()


async def test_a_forked_process_hears_at_once_that_the_manager_is_anothers(
    tmp_path: Path,
) -> None:
    lines = await heard(tmp_path, FORKS)

    assert lines[0].startswith("this manager belongs to process ")
    assert "make one in each process" in lines[0]
    assert lines[0].endswith(" True")
    assert lines[1:3] == ["7", "False"], "it ends well, and the parent goes on"
    assert lines[3].startswith("gRPC belongs to process ")
    assert "after the fork" in lines[3]
    assert lines[4:] == ["7", "False True"]


FORK_IN_A_THREAD = """
import os, threading
import tierledger.actors.door
import grpc
channel = grpc.insecure_channel("127.0.0.1:1")
connecting = grpc.channel_ready_future(channel)
def fork():
    if child := os.fork():
        print(os.waitpid(child, 0)[1])
    else:
        os._exit(0)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
connecting.cancel()
"""


def test_a_thread_without_an_event_loop_forks_in_silence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK_IN_A_THREAD],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere gRPC's threads are not seen")
async def test_a_fork_hears_at_once_that_other_code_had_used_grpc(tmp_path: Path) -> None:
    lines = await heard(tmp_path, FORKS_OF_OTHERS)

    assert lines[:2] == ["False True", "7"]
    assert lines[2].startswith("gRPC belongs to process ")
    assert lines[2].endswith(" True")
    assert lines[3:] == ["7", "False True"], "it ends well, and the parent goes on"


async def test_a_process_that_was_forked_before_has_its_own_connection(tmp_path: Path) -> None:
    lines = await heard(tmp_path, EARLY_FORKS)

    assert lines == ["False True", "7", "7", "False True"]


async def test_all_ways_of_multiprocessing_get_an_answer_or_an_error(tmp_path: Path) -> None:
    lines = await heard(tmp_path, METHODS)

    assert lines[0].startswith("gRPC belongs to process ")
    assert lines[1:] == ["0", "False True", "0", "False True", "0", "False True"]


async def test_managers_one_after_another_leave_nothing_behind(tmp_path: Path) -> None:
    lines = await heard(tmp_path, ONE_AFTER_THE_OTHER)

    assert lines == ["False True", "False", "refused"] * 3


async def test_a_closed_stream_leaves_no_work_to_its_loop(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        door = await door_of(world)
        for _ in range(20):
            before = asyncio.all_tasks()
            stream = await Stream.opened(door, greeting_of(CLUSTER))
            await stream.close()
            mine = asyncio.all_tasks() - before
            assert not [one for one in mine if "_AioCall" in repr(one)]


async def test_another_loop_is_refused_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        url = f"tierledger://{await door_of(world)}"
        config = {"cluster.id": CLUSTER, "broker.id": 1, "metadata.storage.url": url}
        manager = AsyncRemoteLogMetadataManager()
        await manager.configure(config)

        def ask() -> None:
            asyncio.run(manager.is_ready(TIP))

        with pytest.raises(InvalidArgument, match="another event loop"):
            await asyncio.to_thread(ask)
        assert not await manager.is_ready(TIP)
        await manager.close()


def test_what_belongs_to_a_process_is_not_pickled() -> None:
    with RemoteLogMetadataManager() as manager:
        for one in (manager, AsyncRemoteLogMetadataManager()):
            with pytest.raises(TypeError, match=f"process {os.getpid()} and cannot be pickled"):
                pickle.dumps(one)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_open_store_is_refused_in_a_forked_process_and_stays_open(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:{tmp_path / 'store'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")

    async def work() -> None:
        backend = await load_connector({"metadata.storage.url": url}).backend(read_only=False)
        await backend.create("k", b"v")
        told = await asyncio.to_thread(in_a_fork, lambda: asyncio.run(tried(backend)))
        assert told == b"InvalidArgument"
        assert await backend.get("k") == b"v"
        await backend.create("l", b"")
        await backend.close()

    asyncio.run(work())


async def tried(backend: MetadataStorageBackend) -> str:
    """The error of a read; the store is closed after it."""
    try:
        await backend.get("k")
    except RemoteStorageError as error:
        return type(error).__name__
    finally:
        await backend.close()
    return "an answer"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("metadata.storage.ulr", "metadata.storage.url"),
        ("rlmm.config.metadata.storage.uri", "metadata.storage.url"),
        ("metadata_storage_url", "metadata.storage.url"),
        ("Cluster.Id", "cluster.id"),
        ("broker.ids", "broker.id"),
        ("door.ssl.ca.locations", "door.ssl.ca.location"),
    ],
)
def test_a_slip_in_a_settings_name_is_refused_with_what_is_meant(name: str, meant: str) -> None:
    config = {"cluster.id": "c", "broker.id": "1", name: "x"}
    with (
        RemoteLogMetadataManager() as manager,
        pytest.raises(InvalidArgument, match=rf"did you mean {meant}\?"),
    ):
        manager.configure(config)
