"""A store in a bucket whose requests take 20 ms each."""

import asyncio
import os
import statistics
import time
from unittest import mock

import obstore
from obstore.store import S3Store

from tierledger.benchmarks.bench import Bench
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
from tierledger.simulation.live.s3_server import BUCKET, S3Server
from tierledger.storage.backends.slatedb.backend import SlateDbBackend
from tierledger.storage.backends.slatedb.database import COMMITS_PER_TABLE
from tierledger.storage.locate import parse_store_url

DELAY_S = 0.020

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
