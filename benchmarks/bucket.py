"""A store in a bucket whose requests take 20 ms each."""

import asyncio
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import obstore
from obstore.store import S3Store

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.command import command_s
from tierledger.benchmarks.services import (
    adds,
    copied,
    led,
    new_partitions,
    per_second,
    served_from,
    unclaimed,
)
from tierledger.benchmarks.slow_requests import SlowRequests
from tierledger.benchmarks.workload import Workload
from tierledger.simulation.live.s3_server import BUCKET, S3Server
from tierledger.storage.backends.slatedb.backend import SlateDbBackend
from tierledger.storage.backends.slatedb.database import COMMITS_PER_TABLE
from tierledger.storage.locate import parse_store_url

DELAY_S = 0.020

READING = ("verify", "backup")
"""Commands that read all logs."""

WRITES_PER_S = 50
"""Adds of the service beside which they read."""

VALUE = bytes(400)
"""About what the commit of one add sends."""


async def bucket(bench: Bench) -> None:
    """Adds, beside plain requests; what they ask of the bucket; and a successor's start."""
    with (
        S3Server() as server,
        SlowRequests(server.port, DELAY_S) as slow,
        mock.patch.dict(os.environ, server.environment(slow.endpoint)),
    ):
        for turn in bench.turns("bucket"):
            await _measured(bench, slow, f"slatedb:{server.place()}", turn)


async def _measured(bench: Bench, slow: SlowRequests, url: str, turn: int) -> None:
    calls = bench["bucket_calls"]
    async with served_from(url) as (_, manager):
        workloads = unclaimed(new_partitions("bucket"))
        await led(manager, [one.tip for one in workloads])
        bench.note(
            request_ms=await _request_ms(turn, calls // 20),
            add_ms=statistics.median(await adds(manager, workloads[0], range(calls // 20))),
        )
        before = slow.count
        copies = copied(manager, workloads, calls)
        bench.note(many_per_s=await per_second(copies, events=2))
        bench.note(events_per_request=2 * calls / (slow.count - before))
        before, begun = slow.count, time.perf_counter()
        await asyncio.sleep(bench["bucket_idle_s"])
        bench.note(idle_per_s=(slow.count - before) / (time.perf_counter() - begun))
    # A successor of a writer that did not close: it was killed.
    lost = await SlateDbBackend.open(parse_store_url(url))
    for number in range(COMMITS_PER_TABLE - 2):
        await lost.create(f"successor/{number:04}", VALUE)
    with bench.timed("successor_s"):
        successor = await SlateDbBackend.open(parse_store_url(url), takes_over=True)
    await lost.close()
    await successor.close()


async def _request_ms(turn: int, count: int) -> float:
    """Median milliseconds of a plain request that writes an object."""
    store = S3Store(BUCKET)
    waited = []
    for number in range(count):
        begun = time.perf_counter()
        await obstore.put_async(store, f"plain/{turn}-{number}", VALUE)
        waited.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(waited)


async def bucket_reads(bench: Bench) -> None:
    """Commands that read all logs, at rest and beside a service that writes."""
    with S3Server() as server, SlowRequests(server.port, DELAY_S) as slow:
        url, events = f"slatedb:{server.place()}", bench["bucket_events"]
        workloads = unclaimed(new_partitions("reads"), events // 2)
        with mock.patch.dict(os.environ, server.environment()):
            bench.say(f"writing {events:,} events into a bucket, one by one")
            async with served_from(url) as (_, manager):
                await led(manager, [one.tip for one in workloads])
                each = events // 2 // len(workloads)
                await asyncio.gather(*(_one_by_one(manager, one, each) for one in workloads))
        with mock.patch.dict(os.environ, server.environment(slow.endpoint)):
            for turn in bench.turns("bucket-reads"):
                await _read(bench, slow, url, "rest")
                async with _written(url, workloads, (turn + 1) * events):
                    await _read(bench, slow, url, "live")


async def _one_by_one(
    manager: AsyncRemoteLogMetadataManager, workload: Workload, count: int
) -> None:
    """Copy so many segments; each event is a batch of its own."""
    for number in range(count):
        await manager.add_remote_log_segment_metadata(workload.add(number).metadata)
        await manager.update_remote_log_segment_metadata(workload.finish(number).update)


@asynccontextmanager
async def _written(url: str, workloads: Sequence[Workload], first: int) -> AsyncIterator[None]:
    """A service to which segments are added, numbered from `first`."""
    async with served_from(url) as (_, manager):
        await led(manager, [one.tip for one in workloads])

        async def write() -> None:
            async with asyncio.TaskGroup() as adding:
                for number in itertools.count():
                    workload = workloads[number % len(workloads)]
                    metadata = workload.add(first + number // len(workloads)).metadata
                    adding.create_task(manager.add_remote_log_segment_metadata(metadata))
                    await asyncio.sleep(1 / WRITES_PER_S)

        writing = asyncio.create_task(write())
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.wait([writing])


async def _read(bench: Bench, slow: SlowRequests, url: str, when: str) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        for name in READING:
            told = {"verify": ["verify"], "backup": ["backup", "make", str(folder / "backups")]}
            before = slow.count
            took_s = await command_s(*told[name], "--store", url)
            bench.note(**{f"{name}_{when}": took_s})
            bench.note(**{f"{name}_{when}_requests": slow.count - before})
    finally:
        shutil.rmtree(folder)
