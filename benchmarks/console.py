"""The console: how soon a page is there, and what two hundred viewers take from a host."""

import asyncio
import itertools
import multiprocessing
import re
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import blake2b
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.ledger import SERDE, opened, url_of
from tierledger.benchmarks.service import WARMING, exact_cpu_s
from tierledger.benchmarks.services import (
    OnRay,
    adds,
    led,
    new_partition,
    on_ray,
    quantile,
    unclaimed,
)
from tierledger.benchmarks.workload import BROKER, CLUSTER, PARTITION, START_MS
from tierledger.events import log_events as log
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.event_log import encode_batch

PARTITIONS_PER_TOPIC = 10
LOGS_PER_STEP = 500

LOOK_S = 0.1
"""How often it is asked how far the console is."""

CONNECTED_S = 3.0
"""How long viewers have to connect, and the console to answer all of them once."""


async def console(bench: Bench) -> None:
    """First pictures of a large list and a long log; then viewers beside a host's adds."""
    many = await _store_of_many(bench)
    for _ in bench.turns("console, many partitions", "console_repetitions"):
        async with _console(url_of(many)) as (_, address):
            await _has_read(bench, address)
            bench.note(list_s=(await _get(address, "/partitions?sort=size&down=1"))[0])
    path = await bench.store(bench["console_segments"])
    long = f"/partitions/{PARTITION.topic_id}/{PARTITION.partition}"
    for _ in bench.turns("console, a long log", "console_repetitions"):
        async with _console(url_of(path)) as (process, address):
            await _has_read(bench, address)
            await _first_and_whole(bench, process.pid, address + long)
    store = url_of(bench.new_store("viewed"))
    async with on_ray(store) as service:
        await _viewed(bench, service, store)


async def _store_of_many(bench: Bench) -> Path:
    """A store of many partitions, each with one finished segment and no checkpoint."""
    path = bench.new_store(f"listed-{bench['console_partitions']}")
    if path.exists():
        return path
    keys, backend = DefaultMetadataKeyFactory(CLUSTER), await opened(path, read_only=False)
    try:
        tips = map(_partition_of_list, range(bench["console_partitions"]))
        while some := list(itertools.islice(tips, LOGS_PER_STEP)):
            items = [(keys.log_batch(tip, 0), _short_log(tip)) for tip in some]
            await backend.create_each(items)
    finally:
        await backend.close()
    return path


def _partition_of_list(number: int) -> TopicIdPartition:
    topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
    topic_id = Uuid(blake2b(b"%d" % topic, digest_size=16).digest())
    return TopicIdPartition(topic_id, partition, f"listed-{topic}")


def _short_log(tip: TopicIdPartition) -> bytes:
    segment_id = bytes(16)
    bodies: tuple[log.Body, ...] = (
        log.SessionOpened(1, BROKER, 1, 1, 1, 0, tip.topic, None),
        log.SegmentAdded(
            segment_id, 0, 999, (0, 0), 1 << 20, START_MS, BROKER, START_MS, None, True
        ),
        log.SegmentUpdated(segment_id, 1, BROKER, START_MS, None),
    )
    events = [log.Event(at, 1, START_MS, BROKER, None, body) for at, body in enumerate(bodies)]
    first = genesis(CLUSTER, tip.topic_id, tip.partition)
    return encode_batch(SERDE, events, first).value


@asynccontextmanager
async def _console(store: str) -> AsyncIterator[tuple[Process, str]]:
    """The command on a store, and the address at which it listens."""
    command = ["-m", "tierledger.cli.main", "console", "--store", store]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--listen", "127.0.0.1:0", stdout=PIPE
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        yield process, urlsplit(line.split()[-1]).netloc
    finally:
        process.terminate()
        await process.wait()


async def _get(address: str, path: str) -> tuple[float, str]:
    """Seconds until the page is there, and the page."""

    def get() -> tuple[float, str]:
        begun = time.perf_counter()
        connection = HTTPConnection(address, timeout=60)
        try:
            connection.request("GET", path)
            page = connection.getresponse().read().decode()
            return time.perf_counter() - begun, page
        finally:
            connection.close()

    return await asyncio.to_thread(get)


async def _has_read(bench: Bench, address: str) -> None:
    """Note how long the console takes until it lists, and has read, all partitions."""
    begun, listed_s = time.perf_counter(), None
    while True:
        took_s, page = await _get(address, "/partitions")
        bench.note(early_s=took_s)
        if listed_s is None and "found so far" not in page:
            listed_s = time.perf_counter() - begun
        if listed_s is not None and "read so far" not in page:
            break
        await asyncio.sleep(LOOK_S)
    bench.note(listed_s=listed_s, read_s=time.perf_counter() - begun)


async def _first_and_whole(bench: Bench, pid: int, page_of: str) -> None:
    """Note how long the first picture of a partition takes, and the whole page."""
    address, _, path = page_of.partition("/")
    path = f"/{path}"
    begun, used = time.perf_counter(), exact_cpu_s(pid)
    took_s, page = await _get(address, path)
    assert "<rect" in page, "it is a picture"
    bench.note(first_s=took_s, first_cpu=exact_cpu_s(pid) - used)
    while 'id="first"' in page:
        await asyncio.sleep(LOOK_S)
        _, page = await _get(address, path)
    bench.note(whole_s=time.perf_counter() - begun)


async def _viewed(bench: Bench, service: OnRay, store: str) -> None:
    """Adds on a host, one at a time, without and with viewers of the cluster's page."""
    manager = await service.manager(BROKER)
    [workload] = unclaimed([new_partition("viewed")])
    await led(manager, [workload.tip])
    await adds(manager, workload, WARMING)
    (host,) = await service.pings()
    numbers = itertools.count()
    async with _console(store) as (process, address):
        for _ in bench.turns("console, viewers", "console_repetitions"):
            used_by = dict[str, list[float]]()
            for name, count in (("alone", 0), ("viewed", bench["viewers"])):
                with _viewers(address, count):
                    await asyncio.sleep(CONNECTED_S)
                    until = asyncio.create_task(asyncio.sleep(bench["watched_s"]))
                    used = exact_cpu_s(process.pid), exact_cpu_s(host["pid"])
                    begun = time.perf_counter()
                    waited = await adds(manager, workload, numbers, until)
                    took_s = time.perf_counter() - begun
                    percent = [
                        (exact_cpu_s(pid) - before) / took_s * 100
                        for pid, before in zip((process.pid, host["pid"]), used, strict=True)
                    ]
                used_by[name] = percent
                bench.note(
                    **{f"{name}_p99": quantile(waited, 0.99), f"{name}_p50": median(waited)}
                )
            viewers = bench["viewers"]
            more = [used_by["viewed"][at] - used_by["alone"][at] for at in (0, 1)]
            bench.note(
                alone=used_by["alone"][0], console=more[0] / viewers, host=more[1] / viewers
            )


@contextmanager
def _viewers(address: str, count: int) -> Iterator[None]:
    """So many open pages, in a process of their own."""
    if not count:
        yield
        return
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=look_on, args=(address, count), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def look_on(address: str, count: int) -> None:
    """Do what so many open pages of the cluster do, until the process is ended."""

    async def all_of_them() -> None:
        await asyncio.gather(*(_look_on(address) for _ in range(count)))

    asyncio.run(all_of_them())


async def _look_on(address: str) -> None:
    """An open page: it hears that there is something new, and asks for it."""
    host, _, port = address.rpartition(":")
    stream, ask = await asyncio.open_connection(host, int(port))
    ask.write(_request("/live", address))
    reader, writer = await asyncio.open_connection(host, int(port))
    while line := await stream.readline():
        if line.startswith(b"data:"):
            writer.write(_request("/", address))
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None, head
            await reader.readexactly(int(length[1]))


def _request(path: str, address: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
