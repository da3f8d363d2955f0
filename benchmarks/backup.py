"""Backups: what a service notices while one is made, and how fast one is restored."""

import resource
import shutil
from pathlib import Path

from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.command import command_s
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.services import (
    adds_beside,
    led,
    new_partition,
    served,
    unclaimed,
)

EVENTS_PER_SEGMENT = 2


async def backup(bench: Bench) -> None:
    """A backup made beside a service that writes one at a time; then restored alone."""
    path = await bench.store(bench["segments"])
    events = bench["segments"] * EVENTS_PER_SEGMENT
    for turn in bench.turns("backup"):
        backups = path.with_name(f"backups-{turn}")
        tip = new_partition(f"backup-{turn}")
        async with served(path) as (_, manager):
            await led(manager, [tip])
            [workload] = unclaimed([tip])
            making = _command("make", backups, path)
            made_s = await adds_beside(bench, manager, workload, making)
            again_s = await _command("make", backups, path)
            await manager.on_stop_partitions([tip])
        back = bench.new_store(f"restored-{turn}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        restored_s = await _command("restore", backups, back)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        bench.note(
            made_per_s=events / made_s,
            again_s=again_s,
            restored_per_s=events / restored_s,
            restored_per_cpu_s=events / cpu_s,
        )
        shutil.rmtree(backups)
        back.unlink()


async def _command(name: str, backups: Path, store: Path) -> float:
    """How many seconds that command of `backup` took."""
    told = ("backup", name, str(backups), "--store", url_of(store))
    return await command_s(*told, is_nice=True)
