"""What the guard of brokers' deletions costs, and what it brings back.

Calls are measured in one Java process, with the guard and without it turn by turn. Topics are
deleted by a stock broker.
"""

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.admin import NewTopic  # type: ignore[import-untyped]

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.holding import PlaceHold
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.requests import DoorsCall
from tierledger.actors.holds import Hold
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.kafka import FINISHED, OUR_CLASS, BenchBroker, managers
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, PLUGIN_JAR
from tierledger.benchmarks.ledger import url_of
from tierledger.benchmarks.services import OUTSTANDING, on_ray, quantile
from tierledger.pipeline.imports.topic import admin_of
from tierledger.storage.kafka_brokers import KafkaBrokers

HOUR_MS = 3_600_000
TIER = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"

SINGLE = {"internal.segment.bytes": "2048"}
"""A segment has one record of 1,500 bytes."""
SINGLE_BYTES = 1_500
LONG = {"internal.segment.bytes": "4194304"}
LONG_BYTES = 1_000

WAIT_S = 600.0
COMPLAINT = re.compile(r"^(?:WARN|ERROR) .*(?:Remote|RLM|tier|Tier)", re.MULTILINE)
"""Lines of a broker's log that an operator would look into."""


async def calls(bench: Bench) -> None:
    """A deletion that is kept, beside one without the guard; copies and reads through it."""
    count = bench["kafka_calls"] // 4
    async with managers(bench.new_store("guard-calls")) as both:
        await both.open("ours")
        hold = Hold("hour", topic="kept", term_ms=HOUR_MS, reason="it is measured")
        await both.coordinator.ask(PlaceHold(hold))
        turns = bench["repetitions"]
        for topic in ("kept", "bare"):
            await both.lead("ours", topic)
            await both.write("ours", topic, 0, count * (turns + 1), OUTSTANDING, state=FINISHED)
        for turn in range(turns + 1):
            bench.say(f"guard: deletions: {turn} of {turns}, after one that warms up")
            first = turn * count
            bare = await both.figures("ours", "erased", "bare", 0, first, count)
            await both.ask("ours", "guard")
            kept = await both.figures("ours", "erased", "kept", 0, first, count)
            await both.ask("ours", "unguard")
            for share, name in ((0.5, "p50"), (0.99, "p99")) if turn else ():
                sides = [quantile(one[::2], share) * 1e3 for one in (bare, kept)]
                bench.note(**{
                    f"bare_{name}": sides[0],
                    f"kept_{name}": sides[1],
                    f"added_{name}": sides[1] - sides[0],
                    f"guard_{name}": quantile(kept[1::2], share) * 1e3,
                })  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="tierledger-bench-") as folder:
            bench.say("guard: copies and reads")
            passed = await both.figures("ours", "passed", "passed", 0, count, folder)
            names = ("bare_copy", "guarded_copy", "bare_fetch", "guarded_fetch")
            bench.note(**{name: took * 1e6 for name, took in zip(names, passed, strict=True)})


class _TieredBroker(BenchBroker):
    """A broker that tiers into a folder, and whose deletions are guarded."""

    def __init__(self, doors: str, tier: Path) -> None:
        manager = "org.tierledger.kafka.GuardedRemoteStorageManager"
        super().__init__({
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": manager,
            "remote.log.storage.manager.class.path": PLUGIN_JAR,
            "rsm.config.tierledger.guard.class.name": TIER,
            "rsm.config.dir": tier,
            "remote.log.metadata.manager.class.name": OUR_CLASS,
            "remote.log.metadata.manager.class.path": PLUGIN_JAR,
            "rlmm.config.tierledger.bootstrap": doors,
            "remote.log.manager.task.interval.ms": 300,
            "log.retention.check.interval.ms": 300,
            "log.initial.task.delay.ms": 300,
            "log.segment.delete.delay.ms": 200,
        })  # fmt: skip
        self._tier = tier / "kafka-tiered-storage"

    @property
    def tier_url(self) -> str:
        return f"local-tiered:{self._tier}"

    def tiered(self, topic: str) -> list[Path]:
        """The logs of the topic's segments in the tier, by offset."""
        return sorted(self._tier.glob(f"{topic}-0-*/*.log"), key=lambda one: one.name)

    def tiered_end(self, topic: str) -> int | None:
        """The offset at which the only local segment begins; None: there are several."""
        local = [*(self.logs / f"{topic}-0").glob("*.log")]
        return int(local[0].stem) if len(local) == 1 else None


async def topics(bench: Bench) -> None:
    """Topics are deleted: one is read all the same, one purged, and one brought back."""
    store = bench.new_store("guard-topics")
    async with on_ray(url_of(store), cluster=CLUSTER_ID) as service:
        coordinator = service.connection.coordinator
        await coordinator.ask(Handover(Owner.TIERLEDGER, Owner.NOBODY))
        doors = ",".join((await coordinator.ask(DoorsCall())).values())
        for name, term_ms in (("read", HOUR_MS), ("back", HOUR_MS), ("purged", 1_000)):
            hold = Hold(name, topic=name, term_ms=term_ms, reason="it is measured")
            await coordinator.ask(PlaceHold(hold))
        with (
            tempfile.TemporaryDirectory(prefix="tierledger-bench-") as folder,
            _TieredBroker(doors, Path(folder)) as broker,
        ):
            await _read(bench, store, broker)
            await _purged(bench, broker)
            await _brought_back(bench, store, broker)
            bench.note(complaints=len(COMPLAINT.findall(broker.said())))


async def _read(bench: Bench, store: Path, broker: _TieredBroker) -> None:
    count = bench["guard_segments"]
    bench.say(f"guard: {count:,} segments are tiered, deleted with their topic, and read")
    await _tiered(broker, "read", count, SINGLE)
    expected = b"".join(one.read_bytes() for one in broker.tiered("read"))
    await _deleted(broker, "read")
    trash = partial(_said, store, "trash", "show", "read", "0", "--json")
    await _until(lambda: trash().count(b"\n") >= count)
    raw = ("--format", "raw", "--deleted", "--tier", broker.tier_url)
    found = _said(store, "cat", "read", "0", *raw)
    bench.note(read=len(found), unread=len(expected) if found != expected else 0)


async def _purged(bench: Bench, broker: _TieredBroker) -> None:
    count = bench["guard_segments"]
    bench.say(f"guard: {count:,} segments are tiered, deleted with their topic, and purged")
    await _tiered(broker, "purged", count, SINGLE)
    begun = time.perf_counter()
    await _deleted(broker, "purged")
    await _until(lambda: not broker.tiered("purged"))
    bench.note(purged=time.perf_counter() - begun)


async def _brought_back(bench: Bench, store: Path, broker: _TieredBroker) -> None:
    count = bench["guard_records"]
    bench.say(f"guard: {count:,} records are tiered, deleted with their topic, brought back")
    end = await _tiered(broker, "back", count, LONG)
    await _deleted(broker, "back")
    trash = partial(_said, store, "trash", "show", "back", "0", "--json")
    await _until(lambda: f'"end_offset":{end - 1}'.encode() in trash())
    where = ("--tier", broker.tier_url, "--kafka", broker.address)
    command = ("undelete", "back", "--to", "again", *where, "--json")
    begun = _cpu_s()
    _said(store, *command, "--dry-run")
    started = _cpu_s()
    done = _said(store, *command)
    mib, whole_s = end * LONG_BYTES / 2**20, _cpu_s() - started
    bench.note(brought_back=mib / (whole_s - (started - begun)), with_start=mib / whole_s)
    bench.note(lost=end - sum(json.loads(line)["records"] for line in done.splitlines()))


def _cpu_s() -> float:
    """CPU time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _tiered(
    broker: _TieredBroker, name: str, count: int, segments: dict[str, str]
) -> int:
    """Write records until all segments but the newest are tiered; the end of these."""
    settings = {
        "remote.storage.enable": "true",
        "local.retention.bytes": "1",
        "file.delete.delay.ms": "200",
        **segments,
    }
    async with admin_of(KafkaBrokers(broker.address)) as admin:
        await admin.create_topics([NewTopic(name, 1, 1, topic_configs=settings)])
    size = SINGLE_BYTES if segments is SINGLE else LONG_BYTES
    async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
        sent = []
        for _ in range(count + 1):  # The newest segment is not tiered.
            sent.append(await producer.send(name, os.urandom(size), partition=0))
            if segments is SINGLE:
                await sent[-1]
        await asyncio.gather(*sent)
    await _until(lambda: broker.tiered_end(name) is not None)
    end = broker.tiered_end(name)
    assert end, f"{name} is tiered"
    return end


async def _deleted(broker: _TieredBroker, name: str) -> None:
    async with admin_of(KafkaBrokers(broker.address)) as admin:
        await admin.delete_topics([name])


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - Files tell nobody.
            await asyncio.sleep(0.1)


def _said(store: Path, *command: str) -> bytes:
    """What a command prints.

    Raises:
        CalledProcessError: It failed.
    """
    started = (sys.executable, "-m", "tierledger.cli.main", *command)
    known = ("--store", url_of(store), "--cluster", CLUSTER_ID)
    return subprocess.run([*started, *known], check=True, stdout=subprocess.PIPE).stdout
