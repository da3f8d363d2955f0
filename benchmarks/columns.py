"""Column files: written, scanned, and tables made of them, each beside the logs alone."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.command import command_s
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.service import family_cpu_s
from tierledger.benchmarks.services import (
    adds_beside,
    led,
    new_partition,
    served,
    unclaimed,
)
from tierledger.benchmarks.spark import FEW, by_format, rows_per_s, session, store_of_many
from tierledger.pipeline.column_files.folder import ColumnFolder
from tierledger.pipeline.column_files.locate import COLUMNS_SETTING
from tierledger.pipeline.column_writer import write_columns
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.frames import events
from tierledger.pipeline.source.columns import FILE_SCHEMA, EventColumns
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.plan import plan_batch
from tierledger.pipeline.source.scan import Scanner
from tierledger.pipeline.tables.plan import planned
from tierledger.storage.connector import URL_SETTING
from tierledger.tables import read

NOWHERE = "dir:/nonexistent"
"""A place without column files."""

MADE = ("segments", "sizes")

SMALL_PARTITIONS = 20
MICROSECONDS = 1e6


async def columns(bench: Bench) -> None:
    """Everything that column files change, each beside what it was without them."""
    path = await store_of_many(bench, bench["columns_events"])
    place = ColumnFolder(path.with_suffix(".columns"))
    url, there = url_of(path), str(place)
    count = bench["columns_events"]
    for _ in bench.turns("columns written", "spark_repetitions"):
        for name in place.names():
            place.remove(name)
        done = await asyncio.to_thread(_written, bench, url, place, count)
        bench.note(bytes_each=done / count)
    for name, names in (("all", FILE_SCHEMA.names), ("few", FEW)):
        for _ in bench.turns(f"scan here, {name} columns", "spark_repetitions"):
            for kind, where in (("files", there), ("logs", NOWHERE)):
                took = await asyncio.to_thread(_scanned, url, where, names)
                bench.note(**{f"here_{name}_{kind}": took / count * MICROSECONDS})
    for table in MADE:
        for _ in bench.turns(f"{table} here", "spark_repetitions"):
            for kind, where in (("files", there), ("logs", NOWHERE)):
                with bench.timed(f"{table}_{kind}", clock=time.process_time):
                    await asyncio.to_thread(read, table, url, columns=where)
            with bench.timed(f"{table}_folded", clock=time.process_time):
                await asyncio.to_thread(_folded, table, url)
    with session(2) as spark:
        for name, names in (("all", FILE_SCHEMA.names), ("few", FEW)):
            for _ in bench.turns(f"scan on Spark, {name} columns", "spark_repetitions"):
                for kind, where in (("files", there), ("logs", NOWHERE)):
                    store = {URL_SETTING: url, COLUMNS_SETTING: where}
                    in_frame = partial(events, spark, store, columns=names)
                    by_tasks = partial(by_format, spark, url, names, column_files=where)
                    _note_scan(bench, f"spark_{name}_{kind}", in_frame, count)
                    _note_scan(bench, f"format_{name}_{kind}", by_tasks, count)
    await _beside_a_service(bench, path, place)
    await _cold(bench)


async def _beside_a_service(bench: Bench, path: Path, place: ColumnFolder) -> None:
    """What a service notices while a command writes the files from the beginning."""
    for turn in bench.turns("columns written beside a service", "spark_repetitions"):
        for name in place.names():
            place.remove(name)
        tip = new_partition(f"beside-{turn}")
        async with served(path) as (_, manager):
            await led(manager, [tip])
            [workload] = unclaimed([tip])
            told = ("columns", "write", "--store", url_of(path), "--columns", str(place))
            written_s = await adds_beside(bench, manager, workload, command_s(*told))
            bench.note(written_s=written_s)
            await manager.on_stop_partitions([tip])


def _note_scan(
    bench: Bench, sample: str, planned_frame: Callable[[], DataFrame], count: int
) -> None:
    """Rows per second, and processor time of this process, of Java and of Python's tasks."""
    used_s = family_cpu_s(os.getpid())
    rate = rows_per_s(planned_frame)
    used_s = family_cpu_s(os.getpid()) - used_s
    bench.note(**{sample: rate, f"{sample}_cpu": used_s / count * MICROSECONDS})


def _written(bench: Bench, url: str, place: ColumnFolder, count: int) -> int:
    with bench.timed("write", MICROSECONDS / count, time.process_time):
        return write_columns(SourceOptions({URL_SETTING: url}), place).bytes


def _scanned(url: str, where: str, names: Sequence[str]) -> float:
    """Seconds of processor time of a scan in this process, its plan included."""
    begun = time.process_time()
    config = {URL_SETTING: url, COLUMNS_SETTING: where}
    options = SourceOptions(config, columns=tuple(names))
    schema = pa.schema([FILE_SCHEMA.field(name) for name in names])
    for task in asyncio.run(plan_batch(options)):
        scanner = Scanner(options, task.cluster, EventColumns(schema, task.cluster))
        for _ in scanner.batches(task.pieces):
            pass
    return time.process_time() - begun


def _folded(table: str, url: str) -> None:
    plan = asyncio.run(planned(table, JobStore.of(url)))
    for _ in plan.fold(None).run(plan.logs):
        pass


async def _cold(bench: Bench) -> None:
    """Processor seconds of a query on a small store, in a process of its own."""
    path: Path = await store_of_many(bench, bench["columns_small"], SMALL_PARTITIONS)
    asked = ["sql", "select count(*) from segments", "--store", url_of(path)]
    # Modules are compiled, as in an installation: by a first run, which does not count.
    compiled = ["-I", "-X", f"pycache_prefix={path.with_suffix('.compiled')}"]
    command = [sys.executable, *compiled, "-m", "tierledger.cli.main", *asked]
    subprocess.run(command, check=True, capture_output=True)  # noqa: ASYNC221 - Nothing else runs.
    for _ in bench.turns("a query in a new process", "spark_repetitions"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        bench.note(cold=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
