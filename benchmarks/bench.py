"""One run of the benchmarks: its sizes, its stores, and the samples that scenarios note."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.workload import PARTITION, build_commands
from tierledger.events.identifiers import TopicIdPartition

SQLITE = "SQLite"
POSTGRESQL = "PostgreSQL"
BUCKET = "bucket"

QUICK = 20
"""Part of the sizes that touches every scenario in a minute; the figures mean nothing."""

SIZES: dict[str, tuple[int, int]] = {
    "segments": (1_000_000, 600),  # Segments of the large partition,
    "small": (1_000, 100),  # of the one that it is compared with,
    "medium": (10_000, 200),  # and of the one that its checkpoints are compared with.
    "kept": (500_000, 1_200),  # Segments of the one whose deletions are all kept.
    "rows": (600_000, 3_000),  # Of the one whose longest step on a loop is looked for.
    "replayed": (50_000, 60),  # Segments whose life cycle is replayed.
    "lookups": (200_000, 100),  # Of one repetition.
    "tail": (1_000, 40),  # Events behind a checkpoint, and between two.
    "repetitions": (5, 1),  # Of each scenario; medians are taken over them.
    "commits": (300, 3),  # Of each kind, in each of two partitions.
    "calls": (2_000, 64),  # To the service in this process, in one repetition;
    "ray_calls": (8_000, 160),  # to the one on Ray.
    "idle": (1_000, 60),  # Connections to a host on which nothing is asked.
    "lags": (400, 20),  # Looks at how far a follower is behind, in one repetition.
    "announced": (1_000, 20),  # Partitions that are announced at once,
    "announced_all": (10_000, 40),  # and of a whole cluster that comes at once.
    "coordinated": (10_000, 12),  # Partitions of the service whose steps are looked at.
    "failover_segments": (10_000, 100),  # Of each partition whose host is lost.
    "failovers": (3, 1),  # Hosts that are lost in each way.
    "simulated": (5_000, 100),  # Calls of one simulated world, at least.
    "worlds": (10, 1),  # Large worlds in one repetition; small, five times as many.
    "console_partitions": (10_000, 30),  # Of the list that a console shows,
    "console_segments": (100_000, 60),  # and segments of the partition.
    "console_repetitions": (3, 1),
    "viewers": (200, 3),  # Open pages,
    "watched_s": (10, 1),  # and so long.
    "tier_segments": (100_000, 300),  # Of the partition that retention looks at.
    "tier_entries": (10_000, 50),  # Segments that the index cache holds.
    "tier_bytes": (1 << 30, 1 << 21),  # Of the log that is read from the tier.
    "kafka_calls": (2_000, 40),  # Of a plugin, one at a time; of Kafka's manager a tenth.
    "kafka_many": (20_000, 64),  # Such calls, many at a time; of both.
    "kafka_partitions": (1_000, 3),  # That a broker's segments are divided among.
    "guard_segments": (1_000, 5),  # Of a topic that is deleted while its segments are kept,
    "guard_records": (200_000, 9_000),  # and records of one that is brought back.
    "spark_events": (10_000_000, 400),  # Of the store that Spark reads,
    "spark_partitions": (1_000, 4),  # divided among so many.
    "spark_large": (5_000_000, 400),  # Events of the one partition whose fold is watched.
    "spark_imported": (5_000_000, 200),  # Records of a topic that Spark imports.
    "spark_compared": (1_000_000, 200),  # Events of the larger store on which plain
    # Python is compared with Spark; the smaller has a tenth.
    "imported": (100_000, 200),  # Records that one process turns into batches.
    "columns_events": (1_000_000, 400),  # Of the store whose columns are in files,
    "columns_small": (8_000, 400),  # and of the one that a command asks.
    "bucket_calls": (
        4_000,
        40,
    ),  # To the service whose store is in a bucket, in one repetition,
    "bucket_idle_s": (10, 3),  # and the seconds in which nobody calls it; SlateDB looks in two.
    "bucket_events": (100_000, 320),  # Of a store in a bucket, each a batch of its own.
    "spark_repetitions": (3, 1),  # Of each look at a store through Spark.
}
"""What each size is in full, and the least that a scenario runs with."""

COMMANDS_PER_COMMIT = 256
"""A leader's largest batch."""

SEGMENTS_PER_CHECKPOINT = 250_000
"""Bounds the memory of a checkpoint, which is one atomic step."""


class Place(NamedTuple):
    """A store that a scenario is measured on."""

    kind: str
    url: str


class Bench:
    """One run; `bench["segments"]` is a size in it."""

    def __init__(
        self,
        part: int,
        folder: Path,
        say: Callable[[str], None],
        stores: tuple[str, ...] = (SQLITE, POSTGRESQL, BUCKET),
    ) -> None:
        """Sizes are divided by `part`; `say` reports progress where something takes long."""
        self.sizes = {name: max(full // part, least) for name, (full, least) in SIZES.items()}
        self.say = say
        self.stores = stores
        self.samples: defaultdict[str, list[float]] = defaultdict(list)
        self.place = Place("", "")
        self._folder = folder

    def __getitem__(self, name: str) -> int:
        return self.sizes[name]

    def note(self, **samples: float) -> None:
        """Add to the named samples, whose medians the scenario's rows show."""
        for name, value in samples.items():
            self.samples[name].append(value)

    @contextmanager
    def timed(
        self, name: str, per_s: float = 1.0, clock: Callable[[], float] = time.perf_counter
    ) -> Iterator[None]:
        """Note how long the block takes: seconds, or other units with so many in a second."""
        begun = clock()
        yield
        self.note(**{name: (clock() - begun) * per_s})

    @contextmanager
    def rated(
        self, name: str, count: float, clock: Callable[[], float] = time.perf_counter
    ) -> Iterator[None]:
        """Note how many a second the block does, which does `count`."""
        begun = clock()
        yield
        self.note(**{name: count / (clock() - begun)})

    def turns(self, what: str, size: str = "repetitions") -> Iterator[int]:
        """The number of each repetition, reported when it begins."""
        count, where = self[size], f", {self.place.kind}" if self.place.kind else ""
        for turn in range(count):
            self.say(f"{what}{where}: {turn + 1} of {count}")
            yield turn

    def new_store(self, name: str) -> Path:
        """The path of a store that a scenario may make for itself."""
        return self._folder / f"{name}.sqlite"

    async def store(self, segments: int) -> Path:
        """A store with one partition of so many finished segments, built at its first use."""
        path = self.new_store(f"partition-{segments}")
        if not path.exists():
            await self.build(path, segments)
        return path

    async def ledger(self, segments: int) -> Ledger:
        """The partition of that store, loaded and open for writing; the caller closes it."""
        return await Ledger.open(await self.store(segments), segments)

    async def build(self, path: Path, segments: int, tip: TopicIdPartition = PARTITION) -> None:
        """Give the store at `path` a partition of so many finished segments, checkpointed."""
        async with await Ledger.open(path, segments, tip) as ledger:
            step = COMMANDS_PER_COMMIT // 2
            for first in range(0, segments, step):
                if first % (step * 200) == 0 and segments > self["medium"]:
                    self.say(f"building {segments:,} segments: {first * 100 // segments} %")
                until = min(first + step, segments)
                await ledger.commit(build_commands(ledger.workload, range(first, until)))
                if first % SEGMENTS_PER_CHECKPOINT < step:
                    await ledger.checkpoint()
            await ledger.checkpoint()
