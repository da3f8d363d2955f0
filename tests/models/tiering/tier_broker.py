"""A broker's tiering in a process of its own, which can be killed at any of its steps.

The steps are the moments before and after each action that other processes can see: each write
to the metadata, and each request to the object store.
"""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from obstore.store import from_url
from typing_extensions import override

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.host_settings import ServiceSettings, limits_of
from tierledger.actors.local_service import LocalService
from tierledger.actors.wall_clock import RandomIds, WallClock
from tierledger.events.errors import PartitionDeleted
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.tiering.copying.task import CopySettings, CopyTask
from tierledger.tiering.deletion.counted_deletions import CountedDeletions
from tierledger.tiering.deletion.partition_remover import PartitionRemover
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.tier_url import parse
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.metrics.tier_metrics import TierMetrics
from tierledger.tiering.objects.request_counts import Operation, RequestCounts, RequestKind
from tierledger.tiering.objects.store import ObjectStore
from tierledger.tiering.retention.expiration_task import ExpirationTask, Retention

T = TypeVar("T")

CLUSTER = "tiering"
PART_BYTES = 8 * 1024
"""Bytes of a segment's log per object, so that the segments have two parts."""
RUNS_MAX = 10

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


class Job(NamedTuple):
    """The work of one process, on a log and a store that outlive it."""

    folder: Path
    """Holds `ledger.sqlite`, and the partition's log directory."""
    tip: TopicIdPartition
    url: str
    options: dict[str, str]
    stage: str
    """`copy`, `size`, `time` or `remove`. Earlier stages run first, and are never killed."""
    broker: int = 1
    disk: Path | None = None
    """Holds the partition's log directory, if `folder` does not."""
    grace_ms: int = CopySettings().dangling_copy_grace_ms
    """How long another broker's unfinished copy is left alone."""


class Ended(NamedTuple):
    """How a process ended: killed, or after so many steps of its stage."""

    was_killed: bool
    steps: int


def run(job: Job, kill_at: int | None = None) -> Ended:
    """Run `job` in a process that is killed at step `kill_at` of its stage; none: never."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_process, args=(job, kill_at, theirs))
    process.start()
    theirs.close()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        return Ended(was_killed=True, steps=kill_at or 0)
    assert process.exitcode == 0, f"it ended with {process.exitcode}"
    return Ended(was_killed=False, steps=ours.recv())


def _process(job: Job, kill_at: int | None, answer: Connection) -> None:
    life = Life(kill_at)
    asyncio.run(_work(job, life))
    answer.send(life.steps)


class Life:
    """Counts the process's steps, and kills the process at step `kill_at`."""

    def __init__(self, kill_at: int | None) -> None:
        self.steps = 0
        self.is_counting = False
        self._kill_at = kill_at

    async def around(self, work: Awaitable[T]) -> T:
        self._step()
        done = await work
        self._step()
        return done

    def _step(self) -> None:
        if not self.is_counting:
            return
        if self.steps == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


class StoppedClock:
    """A clock that stands still, as the segments' times are fractions of a second apart."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


class MortalManager(AsyncRemoteLogMetadataManager):
    """A manager whose every write is two steps."""

    life: Life

    @override
    async def _write(self, *arguments: Any) -> int:
        return await self.life.around(super()._write(*arguments))


class MortalStore(ObjectStore):
    """An object store whose every request is two steps."""

    def __init__(self, url: str, options: dict[str, str], life: Life) -> None:
        root = parse(url).root
        config = {name: value for name, value in options.items() if name != "allow_http"}
        remote = from_url(root, config=config, client_options={"allow_http": True})  # type: ignore[call-overload]
        super().__init__(remote, root, RequestCounts())
        self.life = life

    @override
    async def _ask(
        self,
        operation: Operation,
        request: RequestKind,
        name: str,
        send: Callable[[], Awaitable[T]],
    ) -> T:
        return await self.life.around(super()._ask(operation, request, name, send))


async def _work(job: Job, life: Life) -> None:
    async with _manager(job, life) as manager:
        store = MortalStore(job.url, job.options, life)
        prefix = parse(job.url).prefix
        storage = LedgerStorageManager(store, prefix, LedgerSettings(part_bytes=PART_BYTES))
        disk = job.disk or job.folder
        log = await LogDirectory.open(disk / f"{job.tip.topic}-{job.tip.partition}", job.tip)
        clock = StoppedClock(WallClock().now_ms())
        deletions = CountedDeletions(manager, storage, clock, job.broker, TierMetrics())
        settings = CopySettings(dangling_copy_grace_ms=job.grace_ms)
        copies = CopyTask(log, storage, deletions, lambda: Uuid(os.urandom(16)), settings)
        stages: dict[str, Callable[[], Awaitable[None]]] = {
            "copy": lambda: copied(copies, log),
            "size": lambda: expired(log, deletions, by_size(log)),
            "time": lambda: expired(log, deletions, by_time(log, clock)),
            "remove": lambda: removed(deletions, job.tip),
        }
        for stage, work in stages.items():
            life.is_counting = stage == job.stage
            if life.is_counting or not await is_going(manager, job.tip):
                await work()
            if life.is_counting:
                return


@asynccontextmanager
async def _manager(job: Job, life: Life) -> AsyncIterator[MortalManager]:
    storage = {"metadata.storage.url": f"sqlite:{job.folder / 'ledger.sqlite'}"}
    service = LocalService(ServiceSettings(CLUSTER, storage, limits_of(storage)), WallClock())
    await service.start()
    manager = MortalManager(service.connect, RandomIds())
    manager.life = life
    try:
        await manager.configure({"cluster.id": CLUSTER, "broker.id": job.broker, **storage})
        await manager.on_partition_leadership_changes([job.tip], [])
        if not await is_finished(manager, job.tip):
            await manager.when_ready([job.tip])
        yield manager
    finally:
        await manager.close()
        await service.close()


async def is_finished(manager: MortalManager, tip: TopicIdPartition) -> bool:
    """Whether the partition's deletion is complete; no broker can lead it then."""
    try:
        await manager.partition_summary(tip)
    except PartitionDeleted:
        return True
    return False


async def is_going(manager: MortalManager, tip: TopicIdPartition) -> bool:
    """Whether the partition's deletion has begun; the other stages are skipped then."""
    if await is_finished(manager, tip):
        return True
    return (await manager.partition_summary(tip)).delete_state is not None


async def copied(task: CopyTask, log: LogDirectory) -> None:
    """Copy everything but the active segment."""
    for _ in range(RUNS_MAX):
        await task.run_once()
        if log.highest_offset_in_remote_storage == log.segments()[-1].base_offset - 1:
            return
    raise AssertionError("it is not all copied")


def by_size(log: LogDirectory) -> Retention:
    """Retention by which only the oldest segment has to go."""
    return Retention(retention_bytes=sum(one.size_in_bytes for one in log.segments()[1:]))


def by_time(log: LogDirectory, clock: StoppedClock) -> Retention:
    """Retention by which only the two oldest segments are too old."""
    second = log.segments()[1].max_timestamp_ms
    return Retention(retention_ms=clock.now_ms() - second - 1)


async def expired(log: LogDirectory, deletions: CountedDeletions, retention: Retention) -> None:
    task = ExpirationTask(log, deletions, retention, frozenset)
    for _ in range(RUNS_MAX):
        if (await task.run_once()).is_complete:
            return
    raise AssertionError("something is still due")


async def removed(deletions: CountedDeletions, tip: TopicIdPartition) -> None:
    remover = PartitionRemover(deletions, lambda _: ())
    await remover.mark(tip)
    await remover.run_once(tip)
